"""Quantise and decode in one go, for operands that are multiplied at once: emulation's fast path.

Equal to ``reference`` bit for bit, without codes, counters or, for the usual grids, tables. The
work is done contraction first, whichever axis that is, by the passes of ``kernels.passes``:

    rotate -> amax of each block -> stored scales -> round and multiply

On the CPU they run compiled; ``kernels.passes.cpu_path`` tells whether, and why not.

Shape suffixes: K the contraction, R rows; A, n, B fibres, with blocks along n (see ``passes``);
C blocks along B.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

import torch
from torch import Tensor
from torch.nn.functional import pad

from formats import BlockFormat, Grid
from formats.scale import AMAX, FOUR_OVER_SIX, FP32_SCALE
from kernels.passes import (
    Rounding,
    amax,
    draw_bits16,
    hadamard,
    round_blocks,
    round_scales,
    squared_errors,
)
from kernels.reference import round_stochastically, round_to_codes
from kernels.rounding import Draws
from kernels.scaling import (
    TensorScale,
    decode_factor,
    encode_elements,
    stored_scale,
    tensor_scale,
)


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

    @property
    def has_factor(self) -> bool:
        """Whether there is a factor: a tensor's scale, the inverse of a gain, or both."""
        return self.format.is_two_level or (self.format.gain != 1.0 and self.draws is None)


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


@torch.compiler.disable(reason="emulation brings its own compiled passes")
def emulate(x: Tensor, treatments: Sequence[Treatment]) -> list[Emulated]:
    """Quantise and decode a 2-D tensor once per treatment; values are FP32.

    Args:
        x: [rows, columns], any float dtype and strides.
    """
    return [_emulate(x.detach(), treatment) for treatment in treatments]


def _emulate(x: Tensor, treatment: Treatment) -> Emulated:
    fmt, signs, draws = treatment.format, treatment.signs, treatment.draws
    x_KR = x if treatment.axis == 0 else x.t()
    rows, height, width = x_KR.shape[1], *fmt.block
    if signs is not None:
        x_KR = hadamard(_pad(x_KR, signs.numel(), 1).contiguous(), signs)
    columns = x_KR.shape[0]
    x_KR = _pad(x_KR, width, height)
    bits16 = None if draws is None else draw_bits16(draws, x_KR)
    # Blocks along contiguous memory need no transposed copy: nothing else needs the rows last.
    as_rows = bits16 is None and height == 1 and x_KR.stride(0) == 1
    shape = (-1, width, 1) if as_rows else (x_KR.shape[0] // width, width, x_KR.shape[1])
    x_AnB = (x_KR.t() if as_rows else x_KR).contiguous().view(shape)
    values, scale = _quantize(x_AnB, fmt, bits16 if bits16 is None else bits16.view(x_AnB.shape))
    values_KR = values.view(x_KR.shape[::-1]).t() if as_rows else values.view(x_KR.shape)
    values_KR = values_KR[:columns, :rows]
    values = values_KR if treatment.axis == 0 else values_KR.t()
    return Emulated(values, decode_factor(fmt, scale, draws is not None, x.device))


def _pad(x_KR: Tensor, columns: int, rows: int) -> Tensor:
    below, right = -x_KR.shape[0] % columns, -x_KR.shape[1] % rows
    return pad(x_KR, (0, right, 0, below)) if below or right else x_KR


def _quantize(
    x_AnB: Tensor, fmt: BlockFormat, bits16: Tensor | None
) -> tuple[Tensor, TensorScale | None]:
    """Values of blocks along n (and over ``height`` neighbours of B), and the tensor's scale."""
    assert fmt.element is not None
    amax_AC = _over_height(amax(x_AnB), fmt).amax(-1)
    finite_AC = torch.isfinite(amax_AC)
    amax_AC = torch.where(finite_AC, amax_AC, 0.0)
    scale = _tensor_scale(amax_AC, fmt)
    stored_AC = torch.where(finite_AC, _stored_scale(x_AnB, amax_AC, fmt, scale), math.nan)
    stored = _spread(stored_AC, fmt)
    rounding = Rounding.of(fmt.element)
    if rounding is None:
        t = encode_elements(x_AnB.float(), stored, scale)
        return round_by_table(t, fmt.element, bits16) * stored, scale
    return round_blocks(x_AnB, stored, bits16, scale, rounding), scale


def _over_height(x_AB: Tensor, fmt: BlockFormat) -> Tensor:
    """[A, B] as [A, C, height]."""
    return x_AB.unflatten(-1, (x_AB.shape[-1] // fmt.block[0], fmt.block[0]))


def _spread(blocks_AC: Tensor, fmt: BlockFormat) -> Tensor:
    """A value per block, repeated over its height: [A, 1, B]."""
    return blocks_AC.repeat_interleave(fmt.block[0], 1).unsqueeze(1)


def _tensor_scale(amax_AC: Tensor, fmt: BlockFormat) -> TensorScale | None:
    if not fmt.is_two_level:
        return None
    assert fmt.element is not None and fmt.scale is not None
    largest = amax_AC.amax() if amax_AC.numel() else amax_AC.new_zeros(())
    return tensor_scale(largest, fmt.element, fmt.scale)


def _stored_scale(
    x_AnB: Tensor, amax_AC: Tensor, fmt: BlockFormat, scale: TensorScale | None
) -> Tensor:
    assert fmt.scale is not None
    stored = _round_scales(amax_AC, fmt, scale)
    if fmt.scale.rule != FOUR_OVER_SIX:
        return stored
    to_four = _round_scales(amax_AC, fmt, scale, target=4.0)
    better = _error(x_AnB, to_four, fmt, scale) < _error(x_AnB, stored, fmt, scale)
    return torch.where(better, to_four, stored)


def _round_scales(
    amax_AC: Tensor, fmt: BlockFormat, scale: TensorScale | None, target: float | None = None
) -> Tensor:
    assert fmt.scale is not None
    rounding = Rounding.of_scale(fmt.scale)
    if rounding is None:
        return stored_scale(amax_AC, fmt, scale, target)
    return round_scales(stored_scale(amax_AC, _with_wide_scale(fmt), scale, target), rounding)


@cache
def _with_wide_scale(fmt: BlockFormat) -> BlockFormat:
    """The format with FP32 scales: it stores the scales that fmt's are rounded from."""
    assert fmt.scale is not None
    return replace(fmt, scale=replace(fmt.scale, format=FP32_SCALE, rule=AMAX))


def _error(x_AnB: Tensor, stored_AC: Tensor, fmt: BlockFormat, scale: TensorScale | None) -> Tensor:
    """Squared error of each block, added up by halving as in ``reference``."""
    assert fmt.element is not None and scale is not None
    rounding = Rounding.of(fmt.element)
    assert rounding is not None, "four-over-six is a rule for E2M1"
    squares = squared_errors(x_AnB, _spread(stored_AC, fmt), scale, rounding)
    squares = _over_height(squares, fmt).permute(3, 1, 0, 2).flatten(0, 1)
    while squares.shape[0] > 1:
        half = squares.shape[0] // 2
        squares = squares[:half] + squares[half:]
    return squares.squeeze(0)


def round_by_table(t: Tensor, grid: Grid, bits16: Tensor | None) -> Tensor:
    """Grid values of t, for grids without a formula."""
    codes = round_to_codes(t, grid) if bits16 is None else round_stochastically(t, grid, bits16)
    return torch.tensor(grid.decode_table, device=t.device)[codes.long()]
