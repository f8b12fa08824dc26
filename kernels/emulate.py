"""Quantise and decode in one go, for operands that are multiplied at once: emulation's fast path.

Equal to ``reference`` bit for bit, without codes, counters or, for the usual grids, tables:

    rotate -> amax of each block -> stored scales -> round and multiply

On a CPU ``kernels.cpu`` does all of it in one pass. What follows here is the same in plain torch,
for machines without a C compiler: several passes over memory, two to four times as fast as the
reference. ``kernels.cpu.cpu_path`` tells which one runs, and why.

Shape suffixes: K the contraction, R rows; A, n, B fibres, with blocks along n and everything else
independent; C blocks along B. With the contraction first, B runs over the rows and is contiguous.
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
from kernels import cpu
from kernels.hadamard import rotate
from kernels.reference import round_stochastically, round_to_codes
from kernels.rounding import Draws
from kernels.scaling import (
    TensorScale,
    decode_factor,
    encode_elements,
    stored_scale,
    tensor_scale,
)
from kernels.spacing import Spacing


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
        """Whether there is a factor."""
        return self.format.has_factor(self.draws is not None)

    @property
    def hadamard(self) -> int:
        """Length of the transform, 1 for none."""
        return 1 if self.signs is None else self.signs.numel()


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


@torch.no_grad()
@torch.compiler.disable(reason="emulation brings its own kernels")
def emulate(x: Tensor, treatments: Sequence[Treatment]) -> list[Emulated]:
    """Quantise and decode a 2-D tensor once per treatment; values are FP32.

    Args:
        x: [rows, columns], any float dtype and strides.
    """
    return [_emulate(x, treatment) for treatment in treatments]


def _emulate(x: Tensor, treatment: Treatment) -> Emulated:
    fmt, signs, draws = treatment.format, treatment.signs, treatment.draws
    x_KR = x if treatment.axis == 0 else x.t()
    run = cpu.emulate_fused if cpu.runs(x, fmt) else emulate_plain
    values_KR, scale = run(x_KR, fmt, signs, draws)
    values = values_KR if treatment.axis == 0 else values_KR.t()
    return Emulated(values, decode_factor(fmt, scale, draws is not None, x.device))


def emulate_plain(
    x_KR: Tensor, fmt: BlockFormat, signs: Tensor | None, draws: Draws | None
) -> tuple[Tensor, TensorScale | None]:
    """As ``cpu.emulate_fused``, on any device."""
    rows, height, width = x_KR.shape[1], *fmt.block
    if signs is not None:
        x_KR = rotate(_pad(x_KR, signs.numel(), 1).t(), signs).t()
    columns = x_KR.shape[0]
    x_KR = _pad(x_KR, width, height).contiguous()
    x_AnB = x_KR.view(x_KR.shape[0] // width, width, x_KR.shape[1])
    bits16 = None
    if draws is not None:
        bits16 = draws.bits16(x_KR.shape[1], x_KR.shape[0], x_KR.device).t().reshape(x_AnB.shape)
    values, scale = _quantize(x_AnB.float(), fmt, bits16)
    return values.view(x_KR.shape)[:columns, :rows], scale


def _pad(x_KR: Tensor, columns: int, rows: int) -> Tensor:
    below, right = -x_KR.shape[0] % columns, -x_KR.shape[1] % rows
    return pad(x_KR, (0, right, 0, below)) if below or right else x_KR


def _quantize(
    x_AnB: Tensor, fmt: BlockFormat, bits16: Tensor | None
) -> tuple[Tensor, TensorScale | None]:
    """Values of blocks along n (and over ``height`` neighbours of B), and the tensor's scale."""
    assert fmt.element is not None
    amax_AC = _over_height(x_AnB.abs().amax(1), fmt).amax(-1)
    finite_AC = torch.isfinite(amax_AC)
    amax_AC = torch.where(finite_AC, amax_AC, 0.0)
    scale = _tensor_scale(amax_AC, fmt)
    stored_AC = torch.where(finite_AC, _stored_scale(x_AnB, amax_AC, fmt, scale), math.nan)
    stored = _spread(stored_AC, fmt)
    t_AnB = encode_elements(x_AnB, stored, scale)
    return _round(t_AnB, fmt.element, bits16) * stored, scale


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
    stored = stored_scale(amax_AC, fmt, scale)
    if fmt.scale.rule != FOUR_OVER_SIX:
        return stored
    to_four = stored_scale(amax_AC, fmt, scale, target=4.0)
    better = _error(x_AnB, to_four, fmt, scale) < _error(x_AnB, stored, fmt, scale)
    return torch.where(better, to_four, stored)


def _error(x_AnB: Tensor, stored_AC: Tensor, fmt: BlockFormat, scale: TensorScale | None) -> Tensor:
    """Squared error of each block, added up by halving as in ``reference``."""
    assert fmt.element is not None and scale is not None
    stored = _spread(stored_AC, fmt)
    q_AnB = _round(encode_elements(x_AnB, stored, scale), fmt.element, None)
    squares = _over_height((q_AnB * stored * scale.decode - x_AnB).square(), fmt)
    squares = squares.permute(3, 1, 0, 2).flatten(0, 1)
    while squares.shape[0] > 1:
        half = squares.shape[0] // 2
        squares = squares[:half] + squares[half:]
    return squares.squeeze(0)


def _round(t: Tensor, grid: Grid, bits16: Tensor | None) -> Tensor:
    """Grid values of t."""
    spacing = Spacing.of(grid)
    if spacing is not None:
        return spacing.round(t, bits16)
    codes = round_to_codes(t, grid) if bits16 is None else round_stochastically(t, grid, bits16)
    return torch.tensor(grid.decode_table, device=t.device)[codes.long()]
