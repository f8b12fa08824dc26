"""The meaning of quantisation, in plain torch on any device: slow, obvious, and the definition.

    pad -> rotate -> amax of each block -> stored scale -> t -> code -> value * scale * factor

Rounding compares with thresholds that were worked out in rational arithmetic, one rule for every
grid, uniform or not. Fast paths must equal this file bit for bit.

Shape suffixes: R rows, K the contraction, padded to whole blocks; B and C blocks along R and K.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn.functional import pad

from formats import BlockFormat, Grid
from formats.scale import FOUR_OVER_SIX
from kernels.hadamard import Hadamard
from kernels.packing import pack
from kernels.quantized import Counters, Quantized, as_rows
from kernels.rounding import COLUMNS_PER_CALL, Draws
from kernels.scaling import (
    TensorScale,
    decode_factor,
    encode_elements,
    encode_scales,
    spread,
    stored_scale,
    tensor_scale,
)

CHUNK_ELEMENTS = 1 << 20
# A scale is itself rounded, so amax / s may pass gmax by rounding alone: that is no saturation.
SATURATION_SLACK = 1.0 + 2.0**-20


@dataclass(frozen=True)
class Plan:
    """How one operand is to be quantised; ``draws`` is None for rounding to nearest."""

    format: BlockFormat
    draws: Draws | None = None
    hadamard: Hadamard | None = None

    @property
    def grid(self) -> Grid:
        """The element's code book."""
        assert self.format.element is not None
        return self.format.element

    def padded_columns(self, columns: int) -> int:
        """Columns after padding to whole Hadamard pieces, then to whole blocks."""
        rotated = _round_up(columns, self.hadamard.size if self.hadamard else 1)
        return _round_up(rotated, self.format.block[1])

    def prepare(self, rows_RK: Tensor) -> Tensor:
        """FP32, zero-padded to whole blocks and rotated."""
        rows, columns = rows_RK.shape
        rotated = _round_up(columns, self.hadamard.size if self.hadamard else 1)
        x_RK = pad(rows_RK.float(), (0, rotated - columns))
        x_RK = self.hadamard.rotate(x_RK) if self.hadamard else x_RK
        height = self.format.block[0]
        below = _round_up(rows, height) - rows
        return pad(x_RK, (0, self.padded_columns(columns) - rotated, 0, below))


def quantize_reference(x: Tensor, axis: int, plan: Plan) -> Quantized:
    """Quantise x along an axis; see ``kernels.quantize`` for the meaning of the parts."""
    axis = axis % x.dim()
    rows_RK = as_rows(x.detach().movedim(axis, -1))
    scale = _scale_of_tensor(rows_RK, plan) if plan.format.is_two_level else None
    bands = [
        [_quantize_chunk(chunk, plan_at, scale) for chunk, plan_at in band]
        for band in _bands(rows_RK, plan)
    ]
    codes_RK = torch.cat([torch.cat([codes for codes, _, _ in band], dim=1) for band in bands])
    scales_BC = torch.cat([torch.cat([scales for _, scales, _ in band], dim=1) for band in bands])
    return Quantized(
        codes=pack(codes_RK, plan.grid.bits),
        scales=scales_BC,
        tensor_scale=decode_factor(plan.format, scale, plan.draws is not None, x.device),
        format=plan.format,
        shape=x.shape,
        axis=axis,
        counters=sum((counters for band in bands for _, _, counters in band), Counters()),
    )


def round_to_codes(t: Tensor, grid: Grid) -> Tensor:
    """Nearest code of each element, ties to the even code, saturating: uint8 of t's shape.

    Args:
        t: elements in units of the grid, any float dtype; float64 is compared as float64.
    """
    wide = t if t.dtype == torch.float64 else t.float()
    precision = 53 if t.dtype == torch.float64 else 24
    thresholds = torch.tensor(grid.thresholds(precision), dtype=wide.dtype, device=t.device)
    return _codes_of(torch.bucketize(wide, thresholds, right=True), wide, grid)


def round_stochastically(t: Tensor, grid: Grid, bits16: Tensor) -> Tensor:
    """One of the two neighbours of each FP32 element, the upper with probability its distance.

    Up means away from zero in a symmetric grid, else towards +inf. The upper one is taken when
    (bits16 + 1/2) / 2^16 < (t - low) / (high - low): grid points stay, the mean is right to 2^-17.
    """
    levels = torch.tensor(grid.levels, device=t.device)
    ascending = levels[grid.zero_index :] if grid.is_symmetric else levels
    position = t.abs() if grid.is_symmetric else t
    position = position.clamp(ascending[0], ascending[-1])
    low = torch.bucketize(position, ascending[1:], right=True).clamp(max=len(ascending) - 2)
    fraction = (position - ascending[low]) / (ascending[low + 1] - ascending[low])
    index = low + (bits16.float() + 0.5 < fraction * 65536.0)
    if grid.is_symmetric:
        index = grid.zero_index + torch.where(t < 0, -index, index)
    return _codes_of(index, t, grid)


def _codes_of(index: Tensor, t: Tensor, grid: Grid) -> Tensor:
    codes = torch.tensor(grid.level_codes, dtype=torch.uint8, device=t.device)[index]
    if grid.negative_zero_code is None:
        return codes
    negative_zero = (index == grid.zero_index) & torch.signbit(t)
    return torch.where(negative_zero, grid.negative_zero_code, codes).to(torch.uint8)


def _quantize_chunk(
    rows_RK: Tensor, plan: Plan, scale: TensorScale | None
) -> tuple[Tensor, Tensor, Counters]:
    """Unpacked codes, stored scales and counters of some whole blocks."""
    x_RK = plan.prepare(rows_RK)
    finite_BC = torch.isfinite(_block_amax(x_RK, plan.format))
    x_RK = torch.where(spread(finite_BC, plan.format), x_RK, 0.0)
    stored_BC = _choose_scales(x_RK, plan, scale)
    t_RK = encode_elements(x_RK, spread(stored_BC, plan.format), scale)
    codes_RK = _round(t_RK, plan)
    stored_BC = torch.where(finite_BC, stored_BC, math.nan)
    scales_BC = encode_scales(stored_BC, plan.format)
    return codes_RK, scales_BC, _count(rows_RK, x_RK, t_RK, codes_RK, stored_BC, plan)


def _round(t_RK: Tensor, plan: Plan) -> Tensor:
    if plan.draws is None:
        return round_to_codes(t_RK, plan.grid)
    rows, columns = t_RK.shape
    bits16 = plan.draws.bits16(rows, columns, t_RK.device)
    return round_stochastically(t_RK, plan.grid, bits16)


def _choose_scales(x_RK: Tensor, plan: Plan, scale: TensorScale | None) -> Tensor:
    """The scales of finite blocks: amax to gmax, or under four-over-six to 6 or 4 by error."""
    assert plan.format.scale is not None
    amax_BC = _block_amax(x_RK, plan.format)
    stored_BC = stored_scale(amax_BC, plan.format, scale)
    if plan.format.scale.rule != FOUR_OVER_SIX:
        return stored_BC
    to_four_BC = stored_scale(amax_BC, plan.format, scale, target=4.0)
    better_BC = _error(x_RK, to_four_BC, plan, scale) < _error(x_RK, stored_BC, plan, scale)
    return torch.where(better_BC, to_four_BC, stored_BC)


def _error(x_RK: Tensor, stored_BC: Tensor, plan: Plan, scale: TensorScale | None) -> Tensor:
    """Squared error of each block, added up by halving so that every backend adds in one order."""
    assert scale is not None
    stored_RK = spread(stored_BC, plan.format)
    codes_RK = round_to_codes(encode_elements(x_RK, stored_RK, scale), plan.grid)
    values = torch.tensor(plan.grid.decode_table, device=x_RK.device)[codes_RK.long()]
    squares_RK = (values * stored_RK * scale.decode - x_RK).square()
    squares = squares_RK.view(*_block_shape(x_RK, plan.format)).transpose(1, 2).flatten(2)
    while squares.shape[-1] > 1:
        half = squares.shape[-1] // 2
        squares = squares[..., :half] + squares[..., half:]
    return squares.squeeze(-1)


def _block_shape(x_RK: Tensor, fmt: BlockFormat) -> tuple[int, int, int, int]:
    height, width = fmt.block
    return x_RK.shape[0] // height, height, x_RK.shape[1] // width, width


def _block_amax(x_RK: Tensor, fmt: BlockFormat) -> Tensor:
    """FP32 [B, C]; the amax of no elements is 0."""
    if x_RK.numel() == 0:
        return x_RK.new_zeros(_block_shape(x_RK, fmt)[::2])
    return x_RK.abs().view(_block_shape(x_RK, fmt)).amax(dim=(1, 3))


def _scale_of_tensor(rows_RK: Tensor, plan: Plan) -> TensorScale:
    """The tensor's scale, from its finite blocks: one poisoned block must not change the others."""
    assert plan.format.scale is not None
    largest = rows_RK.new_zeros((), dtype=torch.float32)
    for chunk, plan_at in itertools.chain.from_iterable(_bands(rows_RK, plan)):
        amax_BC = _block_amax(plan_at.prepare(chunk), plan.format)
        finite_BC = torch.where(torch.isfinite(amax_BC), amax_BC, 0.0)
        if finite_BC.numel():
            largest = torch.maximum(largest, finite_BC.max())
    return tensor_scale(largest, plan.grid, plan.format.scale)


def _bands(rows_RK: Tensor, plan: Plan) -> list[list[tuple[Tensor, Plan]]]:
    """The tensor cut into pieces of whole blocks, each with its place in the random stream.

    What is worked with at a time stays bounded, however long a row is.
    """
    height, width = plan.format.block
    unit = math.lcm(width, plan.hadamard.size if plan.hadamard else 1, COLUMNS_PER_CALL)
    across = max(unit, CHUNK_ELEMENTS // height // unit * unit)
    rows, columns = rows_RK.shape
    down = max(height, CHUNK_ELEMENTS // max(1, min(columns, across)) // height * height)
    return [
        [
            (rows_RK[row : row + down, column : column + across], _at(plan, row, column))
            for column in range(0, max(1, columns), across)
        ]
        for row in range(0, max(1, rows), down)
    ]


def _at(plan: Plan, row: int, column: int) -> Plan:
    if plan.draws is None:
        return plan
    draws = replace(plan.draws, row=plan.draws.row + row, column=plan.draws.column + column)
    return replace(plan, draws=draws)


def _count(
    rows_RK: Tensor, x_RK: Tensor, t_RK: Tensor, codes_RK: Tensor, stored_BC: Tensor, plan: Plan
) -> Counters:
    levels = plan.grid.levels
    high, low = levels[-1] * SATURATION_SLACK, levels[0] * SATURATION_SLACK
    values = torch.tensor(plan.grid.decode_table, device=x_RK.device)[codes_RK.long()]
    decoded_RK = values * spread(stored_BC, plan.format)
    return Counters(
        saturated=int(((t_RK > high) | (t_RK < low)).sum()),
        flushed=int(((decoded_RK == 0) & (x_RK != 0)).sum()),
        non_finite=int((~torch.isfinite(rows_RK)).sum()),
    )


def _round_up(length: int, multiple: int) -> int:
    return -(-length // multiple) * multiple
