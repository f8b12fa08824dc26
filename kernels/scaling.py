"""From a block's amax to its stored scale, and from a stored scale to elements in grid units.

Everything is FP32 from the start: one rounding, none through BF16. Rules by kind of scale:

    FP32, BF16   s = amax / gmax, stored as is or rounded; element t = x / s
    E8M0         s = 2^e, e by the named rule; element t = x / s, which is exact
    E4M3, UE5M3  one level: s = minifloat(amax / gmax), element t = x / s
    E4M3 + FP32  S = smax * gmax / tensor_amax; s = minifloat(amax * (S * (1/gmax)));
                 element t = x * min(1 / (s * (1/S)), FLT_MAX)

The two-level rule is that of Transformer Engine's reference quantiser (its ``reference_nvfp4.py``):
no lower clamp, so the scale of a tiny block is a stored zero and the block decodes to zeros.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from formats import BlockFormat, Grid, ScaleRule
from formats.scale import FLT_MAX

FP32_EXPONENT_BIAS = 127
FP32_MANTISSA_BITS = 23


@dataclass(frozen=True)
class TensorScale:
    """The FP32 scale of a whole tensor: ``encode`` is S, ``decode`` is 1/S (scalar tensors)."""

    encode: Tensor
    decode: Tensor


def tensor_scale(amax: Tensor, grid: Grid, rule: ScaleRule) -> TensorScale:
    """S = smax * gmax / amax, capped at FLT_MAX; 1 for a tensor of zeros.

    Args:
        amax: FP32 scalar, the largest finite magnitude of the (rotated) tensor.
    """
    encode = (torch.tensor(rule.max * grid.max, device=amax.device) / amax).clamp(max=FLT_MAX)
    encode = torch.where(amax == 0, 1.0, encode)
    return TensorScale(encode, 1.0 / encode)


def decode_factor(
    fmt: BlockFormat, scale: TensorScale | None, stochastic: bool, device: torch.device
) -> Tensor | None:
    """What decoded values are multiplied with: the tensor's scale and the gain's correction."""
    factor = None if scale is None else scale.decode
    if fmt.gain == 1.0 or stochastic:
        return factor
    correction = torch.tensor(1.0 / fmt.gain, device=device)
    return correction if factor is None else factor * correction


def stored_scale(
    amax: Tensor, fmt: BlockFormat, scale: TensorScale | None, target: float | None = None
) -> Tensor:
    """The scales to store, as their FP32 values, for finite FP32 amaxes of any shape.

    Finite too, whatever the grid: a quotient beyond the scale's range saturates.

    Args:
        scale: the tensor's scale for a two-level format, else None.
        target: the magnitude that amax is mapped to, the grid's max unless given.
    """
    assert fmt.element is not None and fmt.scale is not None
    rule = fmt.scale
    # As tensors: division by a Python number is multiplication by its reciprocal on a GPU.
    gmax = torch.tensor(fmt.element.max if target is None else target, device=amax.device)
    if rule.headroom != 1.0:
        amax = (amax * rule.headroom).clamp(max=FLT_MAX)
    if rule.format.kind == "power-of-two":
        return torch.ldexp(torch.ones_like(amax), power_of_two(amax, fmt.element, rule.rule))
    if scale is not None:
        ratio = amax * (scale.encode * (1.0 / gmax)).clamp(max=FLT_MAX)
    else:
        ratio = amax / gmax
    if rule.format.kind == "minifloat":
        return round_minifloat(ratio, rule)
    rounded = ratio.bfloat16().float() if rule.format.name == "bf16" else ratio
    return rounded.clamp(max=rule.max)


def power_of_two(amax: Tensor, grid: Grid, rule: str) -> Tensor:
    """The E8M0 exponent e in [-127, 127], int32, by rule floor | ceil | rceil | even."""
    subnormal = amax < 2.0**-126
    bits = torch.where(subnormal, amax * 2.0**FP32_MANTISSA_BITS, amax).view(torch.int32)
    exponent = (bits >> FP32_MANTISSA_BITS) - FP32_EXPONENT_BIAS
    exponent = exponent - torch.where(subnormal, FP32_MANTISSA_BITS, 0)
    mantissa = bits & ((1 << FP32_MANTISSA_BITS) - 1)
    up = mantissa >= round_up_from(grid, rule)
    exponent = exponent + up.int() - grid.max_exponent
    return torch.where(amax == 0, -127, exponent.clamp(-127, 127)).int()


def round_up_from(grid: Grid, rule: str) -> int:
    """The smallest mantissa field of amax at which a rule takes the next power of two."""
    if rule == "floor":
        return 1 << FP32_MANTISSA_BITS
    if rule == "ceil":
        return 1
    if rule == "rceil":
        fraction = grid.max / 2.0**grid.max_exponent - 1.0
        return int(fraction * 2**FP32_MANTISSA_BITS) + 1
    assert rule == "even"
    half = (1 << FP32_MANTISSA_BITS - grid.mantissa_bits) // 2
    return (1 << FP32_MANTISSA_BITS) - half


def round_minifloat(ratio: Tensor, rule: ScaleRule) -> Tensor:
    """Nearest value of an unsigned minifloat, ties to even, saturating at the rule's max."""
    thresholds = torch.tensor(rule.format.thresholds(), device=ratio.device)
    values = torch.tensor(rule.format.values, device=ratio.device)
    return values[torch.bucketize(ratio.clamp(max=rule.max), thresholds, right=True)]


def encode_elements(x: Tensor, stored: Tensor, scale: TensorScale | None) -> Tensor:
    """t, the elements in units of the grid, for FP32 x and stored scales that broadcast to it."""
    if scale is not None:
        return x * (1.0 / (stored * scale.decode)).clamp(max=FLT_MAX)
    return torch.where(stored == 0, 0.0, x / stored)


def encode_scales(stored: Tensor, fmt: BlockFormat) -> Tensor:
    """The stored form of scale values: uint8, bfloat16 or float32; NaN is the format's NaN code."""
    assert fmt.scale is not None
    scale = fmt.scale.format
    if scale.kind == "wide":
        return stored.bfloat16() if scale.name == "bf16" else stored
    poisoned = torch.isnan(stored)
    if scale.kind == "power-of-two":
        # The exponent field is the byte, 2^-127 (subnormal) included, even where that was flushed.
        codes = stored.nan_to_num().view(torch.int32) >> FP32_MANTISSA_BITS
    else:
        values = torch.tensor(scale.values[: len(scale.thresholds()) + 1], device=stored.device)
        codes = torch.bucketize(stored.nan_to_num(), values)
    return torch.where(poisoned, scale.nan_code or 0, codes).to(torch.uint8)


def decode_scales(scales: Tensor, fmt: BlockFormat) -> Tensor:
    """FP32 values of stored scales."""
    assert fmt.scale is not None
    if fmt.scale.format.kind == "wide":
        return scales.float()
    return torch.tensor(fmt.scale.format.values, device=scales.device)[scales.long()]


def spread(blocks_BC: Tensor, fmt: BlockFormat) -> Tensor:
    """A value per block, [B, C], repeated for each of its elements, [R, K]."""
    height, width = fmt.block
    return blocks_BC.repeat_interleave(height, 0).repeat_interleave(width, 1)
