"""The quantiser that stores: packed codes, stored scales and counters, equal to the reference's.

It shares a tile's arithmetic with the fused emulation of ``triton_quantize`` and adds what storage
needs: the code of each value, two 4-bit codes a byte along the contraction, and the byte of each
scale. What is stored has the contraction along the columns, whichever axis of x that was.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import torch
import triton
import triton.language as tl
from torch import Tensor

from formats import BlockFormat, Grid
from formats.scale import ScaleFormat
from kernels.emulate import Treatment
from kernels.quantized import Counters, Quantized, as_rows
from kernels.reference import SATURATION_SLACK, Plan
from kernels.tiling import Tile, choose_tile
from kernels.triton_memory import load_tile, origin, store_tile
from kernels.triton_quantize import (
    DRAW_SCALARS,
    draw_arguments,
    launch_amax,
    new_amaxes,
)
from kernels.triton_tile import (
    Steps,
    ceil_div,
    quantize_tile,
    steps_of,
    store_factor,
)

FLOAT_CODES, INTEGER_CODES, TABLE_CODES, WIDE_CODES = 0, 1, 2, 3
_FLOAT_CODES = tl.constexpr(FLOAT_CODES)
_INTEGER_CODES = tl.constexpr(INTEGER_CODES)
_WIDE_CODES = tl.constexpr(WIDE_CODES)
SCALE_DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


@dataclass(frozen=True)
class Coding:
    """How values become codes, as compile-time constants.

    Attributes:
        kind: FLOAT_CODES, INTEGER_CODES (two's complement), TABLE_CODES or WIDE_CODES (as is).
        mantissa, low: of float codes, mantissa bits and smallest normal value.
        sign: the sign bit of sign-magnitude codes, 0 for others.
        special: the code of NaN in a scale.
        high, lowest: the largest and the smallest t that are not saturated.
    """

    kind: int
    bits: int
    mantissa: int = 0
    low: float = 1.0
    sign: int = 0
    special: int = 0
    high: float = 0.0
    lowest: float = 0.0
    levels: tuple[float, ...] = ()
    codes: tuple[int, ...] = ()

    @classmethod
    def of_grid(cls, grid: Grid) -> Coding:
        """How elements are coded."""
        sign = grid.negative_zero_code or 0
        lowest, high = (end * SATURATION_SLACK for end in (grid.levels[0], grid.levels[-1]))
        if grid.float_spec is not None:
            low = 2.0**grid.float_spec.min_exponent
            return cls(FLOAT_CODES, grid.bits, grid.float_spec.mantissa, low, sign, 0, high, lowest)
        pairs = zip(grid.levels, grid.level_codes, strict=True)
        if all(level % (1 << grid.bits) == code for level, code in pairs):
            return cls(INTEGER_CODES, grid.bits, high=high, lowest=lowest)
        book = grid.levels, grid.level_codes
        return cls(TABLE_CODES, grid.bits, 0, 1.0, sign, 0, high, lowest, *book)

    @classmethod
    def of_scale(cls, scale: ScaleFormat) -> Coding:
        """How scales are coded; a power of two is a float without mantissa."""
        if scale.kind == "wide":
            return cls(WIDE_CODES, scale.bits)
        low = 2.0 ** (1 - scale.bias)
        return cls(FLOAT_CODES, 8, scale.mantissa, low, special=scale.nan_code or 0)


@triton.jit
def _float_codes(magnitude, coding: tl.constexpr):
    """Codes of non-negative minifloat values: exponent field above mantissa field."""
    units = (magnitude * (2.0**coding.mantissa / coding.low)).to(tl.int32)
    first = tl.full(magnitude.shape, coding.low, tl.float32).to(tl.int32, bitcast=True)
    normal = (magnitude.to(tl.int32, bitcast=True) - first) >> (23 - coding.mantissa)
    return tl.where(magnitude < coding.low, units, normal + (1 << coding.mantissa))


@triton.jit
def _codes(values, t, coding: tl.constexpr):
    """The code of each value, int32; -0 where a sign-magnitude value was rounded from below."""
    negative = t.to(tl.int32, bitcast=True) < 0
    if coding.kind == _INTEGER_CODES:
        codes = values.to(tl.int32) & ((1 << coding.bits) - 1)
    elif coding.kind == _FLOAT_CODES:
        codes = _float_codes(tl.abs(values), coding)
        codes = tl.where(negative, codes | coding.sign, codes)
    else:
        codes = tl.full(values.shape, coding.codes[0], tl.int32)
        for i in tl.static_range(1, len(coding.levels)):
            codes = tl.where(values >= coding.levels[i], coding.codes[i], codes)
        codes = tl.where(negative & (values == 0.0), codes | coding.sign, codes)
    return codes


@triton.jit
def _scale_codes(stored, coding: tl.constexpr):
    if coding.kind == _WIDE_CODES:
        codes = stored
    else:
        poisoned = stored != stored
        codes = _float_codes(tl.where(poisoned, 0.0, stored), coding)
        codes = tl.where(poisoned, coding.special, codes)
    return codes


@triton.jit(do_not_specialize=DRAW_SCALARS)
def _encode_kernel(
    x, rows, columns, row_stride, column_stride, covered_columns,
    codes, code_rows, code_columns, scales, scale_rows, scale_columns, counters,
    amax_0, factor_0, signs_0,
    seed_low_0, seed_high_0, step_0, stream_0, first_row_0, first_column_0, steps_0: tl.constexpr,
    coding: tl.constexpr, scale_coding: tl.constexpr,
    R: tl.constexpr, C: tl.constexpr, V: tl.constexpr,
):  # fmt: skip
    row0, column0 = origin(covered_columns, R, C)
    tile = load_tile(x, row0, column0, rows, columns, row_stride, column_stride, R, C, V)
    draws = (seed_low_0, seed_high_0, step_0, stream_0, first_row_0, first_column_0)
    blocks, t, values, stored = quantize_tile(tile, row0, column0, amax_0, signs_0, draws, steps_0)
    finite = stored == stored
    t = tl.where(finite, t, 0.0)
    values = tl.where(finite, values, 0.0)
    _count(tile, tl.where(finite, blocks, 0.0), t, values * stored, counters, coding)
    code_tile = _codes(values, t, coding).reshape(R, C)
    scale_tile = _scale_codes(stored, scale_coding)
    scale_tile = scale_tile.reshape(R // steps_0.block[0], C // steps_0.block[1])
    height: tl.constexpr = steps_0.block[0]
    width: tl.constexpr = steps_0.block[1]
    if steps_0.axis == 0:
        code_tile, scale_tile = code_tile.trans(), scale_tile.trans()
        code_row0, code_column0 = column0, row0
        scale_row0, scale_column0 = column0 // width, row0 // height
    else:
        code_row0, code_column0 = row0, column0
        scale_row0, scale_column0 = row0 // height, column0 // width
    if coding.bits <= 4:
        pairs = code_tile.reshape(code_tile.shape[0], code_tile.shape[1] // 2, 2)
        even, odd = pairs.split()
        store_tile(even | odd << 4, codes, code_row0, code_column0 // 2, code_rows, code_columns, V)
    else:
        store_tile(code_tile, codes, code_row0, code_column0, code_rows, code_columns, V)
    store_tile(scale_tile, scales, scale_row0, scale_column0, scale_rows, scale_columns, 1)
    if tl.program_id(0) == 0:
        store_factor(factor_0, amax_0, steps_0)


@triton.jit
def _count(tile, x, t, decoded, counters, coding: tl.constexpr):
    """Add the tile's saturated, flushed and non-finite elements; sums of integers have no order."""
    saturated = (t > coding.high) | (t < coding.lowest)
    flushed = (decoded == 0.0) & (x != 0.0)
    non_finite = (tile - tile) != 0.0
    tl.atomic_add(counters, tl.sum(saturated.to(tl.int32)).to(tl.int64), sem="relaxed")
    tl.atomic_add(counters + 1, tl.sum(flushed.to(tl.int32)).to(tl.int64), sem="relaxed")
    tl.atomic_add(counters + 2, tl.sum(non_finite.to(tl.int32)).to(tl.int64), sem="relaxed")


@lru_cache(maxsize=256)
def _codings(fmt: BlockFormat) -> tuple[Coding, Coding]:
    assert fmt.element is not None and fmt.scale is not None
    return Coding.of_grid(fmt.element), Coding.of_scale(fmt.scale.format)


def quantize_fused(x: Tensor, axis: int, plan: Plan) -> Quantized:
    """Quantise a tensor of any shape along an axis, as ``quantize_reference`` does."""
    axis = axis % x.dim()
    signs = None
    if plan.hadamard is not None:
        signs = torch.tensor(plan.hadamard.signs, dtype=torch.int8, device=x.device)
    x = x.detach()
    if x.dim() == 2:
        return quantize_triton(x, Treatment(plan.format, axis, signs, plan.draws))
    rows_RK = as_rows(x.movedim(axis, -1))
    quantized = quantize_triton(rows_RK, Treatment(plan.format, 1, signs, plan.draws))
    return replace(quantized, shape=x.shape, axis=axis)


def quantize_triton(x: Tensor, treatment: Treatment, tile: Tile | None = None) -> Quantized:
    """Quantise a 2-D tensor to codes and scales, as ``quantize_reference`` does.

    Args:
        x: [rows, columns] of float32, bfloat16 or float16, any strides; it is not modified.
        tile: what a program takes, instead of the tuned choice.
    """
    fmt, axis = treatment.format, treatment.axis
    assert fmt.element is not None and fmt.scale is not None
    size = treatment.hadamard
    steps = steps_of(fmt, axis, size, treatment.draws is not None, x.dtype)
    height, width = fmt.block
    row_blocks = ceil_div(x.shape[1 - axis], height)
    column_blocks = ceil_div(ceil_div(x.shape[axis], size) * size, width)
    depth = column_blocks * width
    code_columns = depth if fmt.element.bits > 4 else ceil_div(depth, 2)
    scale_dtype = SCALE_DTYPES.get(fmt.scale.format.name, torch.uint8)
    codes = x.new_empty(row_blocks * height, code_columns, dtype=torch.uint8)
    scales = x.new_empty(row_blocks, column_blocks, dtype=scale_dtype)
    counters = x.new_zeros(3, dtype=torch.int64)
    covered = (row_blocks * height, depth) if axis == 1 else (depth, row_blocks * height)
    factor = _launch(x, treatment, steps, covered, (codes, scales, counters), tile)
    saturated, flushed, non_finite = counters.tolist()
    return Quantized(
        codes=codes,
        scales=scales,
        tensor_scale=factor,
        format=fmt,
        shape=x.shape,
        axis=axis,
        counters=Counters(saturated, flushed, non_finite),
    )


def _launch(
    x: Tensor,
    treatment: Treatment,
    steps: Steps,
    covered: tuple[int, int],
    outs: tuple[Tensor, Tensor, Tensor],
    tile: Tile | None,
) -> Tensor | None:
    """Run the kernels; the factor that decoded values are multiplied with, or None."""
    codes, scales, counters = outs
    tile = tile or choose_tile((steps,))
    (amax,) = new_amaxes(x, (steps,))
    factor = steps.new_factor(x)
    if not x.numel():
        return factor
    common = (x, *x.shape, *x.stride(), covered[1])
    if amax is not None:
        launch_amax(covered[0], common, [(amax, treatment.signs, steps)])
    buffers = (codes, *codes.shape, scales, *scales.shape, counters, amax, factor)
    draws = draw_arguments(treatment.draws)
    _encode_kernel[tile.grid(*covered)](
        *common, *buffers, treatment.signs, *draws, steps, *_codings(treatment.format),
        **tile.constants, **tile.options,
    )  # fmt: skip
    return factor
