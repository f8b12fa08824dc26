"""Quantise and decode in one go, for operands that are multiplied at once: emulation's fast path.

Equal to ``reference`` bit for bit, without codes, counters or tables where the grid allows it:
uniform grids round by ``round``, minifloats by the exponent of t. Plain torch, so that it runs
anywhere.

Shape suffixes: R rows, K the contraction; B and C blocks along R and K.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from formats import BlockFormat, Grid
from formats.scale import FOUR_OVER_SIX
from kernels.hadamard import rotate
from kernels.reference import round_stochastically, round_to_codes
from kernels.rounding import Draws
from kernels.scaling import TensorScale, encode_elements, stored_scale, tensor_scale

EXPONENT_FIELD = 0x7F800000


@dataclass(frozen=True)
class Treatment:
    """What one operand goes through on its way to a GEMM.

    Attributes:
        axis: the contraction axis of the 2-D tensor, 0 or 1.
        signs: int8 [n] of the Hadamard transform along that axis, or None.
        draws: for stochastic rounding, or None for nearest. Rows run along the other axis and
            columns along the contraction, whatever the layout.
    """

    format: BlockFormat
    axis: int
    signs: Tensor | None = None
    draws: Draws | None = None


@dataclass(frozen=True)
class Emulated:
    """An operand as a GEMM takes it: its value is ``values * factor``.

    Attributes:
        values: element times block scale in the layout of the tensor, the contraction axis
            zero-padded to whole Hadamard pieces.
        factor: FP32 scalar for the GEMM's epilogue, or None.
    """

    values: Tensor
    factor: Tensor | None


def emulate(x: Tensor, treatments: Sequence[Treatment]) -> list[Emulated]:
    """Quantise and decode a 2-D tensor once per treatment; values are FP32.

    Args:
        x: [rows, columns], any float dtype and strides.
    """
    return [_emulate(x, treatment) for treatment in treatments]


def _emulate(x: Tensor, treatment: Treatment) -> Emulated:
    fmt, signs = treatment.format, treatment.signs
    assert fmt.element is not None and fmt.scale is not None
    x_RK = x.detach() if treatment.axis == 1 else x.detach().t()
    rows, columns = x_RK.shape
    height, width = fmt.block
    rotated = columns + -columns % (1 if signs is None else signs.numel())
    x_RK = pad(x_RK.float(), (0, rotated - columns))
    x_RK = x_RK if signs is None else rotate(x_RK, signs)
    x_RK = pad(x_RK, (0, -rotated % width, 0, -rows % height)).contiguous()
    x_BRCW = x_RK.view(x_RK.shape[0] // height, height, x_RK.shape[1] // width, width)
    amax = x_BRCW.abs().amax(dim=(1, 3), keepdim=True) if x_RK.numel() else x_BRCW[:, :1, :, :1]
    finite = torch.isfinite(amax)
    amax = torch.where(finite, amax, 0.0)
    scale = _tensor_scale(amax, fmt)
    stored = _stored_scale(x_BRCW, amax, fmt, scale)
    stored = torch.where(finite, stored, math.nan)
    bits16 = treatment.draws and treatment.draws.bits16(*x_RK.shape, device=x.device)
    t = encode_elements(x_BRCW, stored, scale)
    q = round_values(t, fmt.element, bits16 if bits16 is None else bits16.view(t.shape))
    values = (q * stored).view(x_RK.shape)[:rows, :rotated]
    return Emulated(values if treatment.axis == 1 else values.t(), _factor(treatment, scale, x))


def _tensor_scale(amax: Tensor, fmt: BlockFormat) -> TensorScale | None:
    if not fmt.is_two_level:
        return None
    assert fmt.element is not None and fmt.scale is not None
    largest = amax.amax() if amax.numel() else amax.new_zeros(())
    return tensor_scale(largest, fmt.element, fmt.scale)


def _stored_scale(
    x_BRCW: Tensor, amax: Tensor, fmt: BlockFormat, scale: TensorScale | None
) -> Tensor:
    assert fmt.scale is not None
    stored = stored_scale(amax, fmt, scale)
    if fmt.scale.rule != FOUR_OVER_SIX:
        return stored
    to_four = stored_scale(amax, fmt, scale, target=4.0)
    better = _error(x_BRCW, to_four, fmt, scale) < _error(x_BRCW, stored, fmt, scale)
    return torch.where(better, to_four, stored)


def _error(x_BRCW: Tensor, stored: Tensor, fmt: BlockFormat, scale: TensorScale | None) -> Tensor:
    """Squared error of each block, added up by halving as in ``reference``."""
    assert fmt.element is not None and scale is not None
    q = round_values(encode_elements(x_BRCW, stored, scale), fmt.element, None)
    squares = (q * stored * scale.decode - x_BRCW).square().transpose(1, 2).flatten(2)
    while squares.shape[-1] > 1:
        half = squares.shape[-1] // 2
        squares = squares[..., :half] + squares[..., half:]
    return squares.unsqueeze(1)


def _factor(treatment: Treatment, scale: TensorScale | None, x: Tensor) -> Tensor | None:
    factor = None if scale is None else scale.decode
    if treatment.format.gain == 1.0 or treatment.draws is not None:
        return factor
    correction = torch.tensor(1.0 / treatment.format.gain, device=x.device)
    return correction if factor is None else factor * correction


def round_values(t: Tensor, grid: Grid, bits16: Tensor | None) -> Tensor:
    """Grid values of FP32 elements in units of the grid, as ``reference`` rounds them.

    Args:
        bits16: int32 of t's shape for stochastic rounding, or None for nearest.
    """
    step = _spacing(t, grid)
    if step is None:
        codes = round_to_codes(t, grid) if bits16 is None else round_stochastically(t, grid, bits16)
        return torch.tensor(grid.decode_table, device=t.device)[codes.long()]
    if bits16 is None:
        return (t.clamp(-grid.max, grid.max) / step).round() * step
    position = t.abs().clamp(max=grid.max) / step
    low = position.floor()
    up = bits16.float() + 0.5 < (position - low) * 65536.0
    return torch.copysign((low + up) * step, t)


def _spacing(t: Tensor, grid: Grid) -> Tensor | float | None:
    """Distance of the grid's neighbours around t, a power of two; None where no formula has it.

    Division by it is exact, and half to even is then half to the even code: an integer grid's codes
    alternate from zero, and so do a minifloat's as long as it has a mantissa bit.
    """
    if grid.step is not None and grid.is_symmetric and math.frexp(grid.step)[0] == 0.5:
        return grid.step
    spec = grid.float_spec
    if spec is None or spec.mantissa == 0:
        return None
    binade = (t.view(torch.int32) & EXPONENT_FIELD).view(torch.float32)
    clamped = binade.clamp(2.0**spec.min_exponent, 2.0**grid.max_exponent)
    return clamped * 2.0**-spec.mantissa
