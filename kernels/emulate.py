"""Quantise and decode in one go, for operands that are multiplied at once: emulation's fast path.

Equal to ``reference`` bit for bit, without codes, counters or tables where the grid allows it:
uniform grids round by ``round``, minifloats by the exponent of t. Plain torch, so that it runs
anywhere and ``torch.compile`` can fuse it into one pass over memory.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from formats import BlockFormat, Grid
from formats.scale import FOUR_OVER_SIX
from kernels.hadamard import rotate
from kernels.reference import round_stochastically, round_to_codes
from kernels.scaling import TensorScale, encode_elements, stored_scale, tensor_scale

EXPONENT_FIELD = 0x7F800000


@dataclass(frozen=True)
class Emulated:
    """An operand as a GEMM takes it: its value is ``values * factor``.

    Attributes:
        values: FP32 [R, K], element times block scale, K padded to whole Hadamard pieces.
        factor: FP32 scalar for the GEMM's epilogue, or None.
    """

    values: Tensor
    factor: Tensor | None


def emulate(
    x_RK: Tensor, fmt: BlockFormat, signs: Tensor | None, bits16: Tensor | None
) -> Emulated:
    """Quantise rows along their last axis and decode them.

    Args:
        x_RK: [R, K], any float dtype.
        signs: int8 [n] of the Hadamard transform, or None.
        bits16: int32 of the padded shape for stochastic rounding, or None for nearest.
    """
    assert fmt.element is not None and fmt.scale is not None
    rows, columns = x_RK.shape
    height, width = fmt.block
    rotated = columns + -columns % (1 if signs is None else signs.numel())
    x_RK = pad(x_RK.float(), (0, rotated - columns))
    x_RK = x_RK if signs is None else rotate(x_RK, signs)
    x_RK = pad(x_RK, (0, -rotated % width, 0, -rows % height))
    x_BRCK = x_RK.view(x_RK.shape[0] // height, height, x_RK.shape[1] // width, width)
    amax = x_BRCK.abs().amax(dim=(1, 3), keepdim=True)
    finite = torch.isfinite(amax)
    amax = torch.where(finite, amax, 0.0)
    scale = tensor_scale(amax.amax(), fmt.element, fmt.scale) if fmt.is_two_level else None
    stored = torch.where(finite, stored_scale(amax, fmt, scale), float("nan"))
    t = encode_elements(x_BRCK, stored, scale)
    q = round_values(t, fmt.element, bits16)
    return Emulated((q * stored).view(x_RK.shape)[:rows, :rotated], scale.decode if scale else None)


def round_values(t: Tensor, grid: Grid, bits16: Tensor | None) -> Tensor:
    step: Tensor | float
    if grid.step is not None:
        step = grid.step
    else:
        spec = grid.float_spec
        binade = (t.view(torch.int32) & EXPONENT_FIELD).view(torch.float32)
        step = binade.clamp(2.0**spec.min_exponent, 2.0**grid.max_exponent) * 2.0**-spec.mantissa
    if bits16 is None:
        return (t.clamp(-grid.max, grid.max) / step).round() * step
    a = t.abs().clamp(max=grid.max) / step
    low = a.floor()
    up = bits16.view(t.shape).float() + 0.5 < (a - low) * 65536.0
    return torch.copysign((low + up) * step, t)
