"""The fused quantiser: a tensor is read once, and leaves as the operands of one or two GEMMs.

One program holds one tile in registers, [R, C] of FP32. Each treatment takes it through

    rotate -> amax of each block -> stored scale -> t -> round -> value * scale -> store

along its own contraction axis, so the forward and the backward copy of a tensor cost one read. Only a
two-level format needs more: the amax of the (rotated) tensor, from a read-only kernel before. The
butterfly of the Hadamard transform runs on registers, in exactly the order of ``kernels.hadamard``.

Offsets are 64-bit, tiles are numbered along one grid axis, tails are masked with zeros (which are
exact), and a block with NaN or Inf in it gets the scale NaN, so it decodes to NaN and no other does.

Shape suffixes: R, C rows and columns of a tile in memory, whichever of them the contraction is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from formats import BlockFormat
from kernels.emulate import Emulated, Treatment
from kernels.rounding import WORD
from kernels.triton_rounding import (
    GridFacts,
    magnitude_bits,
    philox,
    round_nearest,
    round_stochastic,
)
from kernels.triton_scaling import ScaleFacts, elements, stored_scales, tensor_scales

# A value of 1 or a multiple of 16 must not compile the kernel anew.
DRAW_SCALARS = [
    f"{name}_{i}"
    for name in ("seed_low", "seed_high", "step", "stream", "first_row", "first_column")
    for i in range(2)
]
_INFINITY_BITS = tl.constexpr(0x7F800000)


@dataclass(frozen=True)
class Steps:
    """What a kernel does for one treatment, as compile-time constants.

    Attributes:
        axis: contraction axis of the tile.
        hadamard: length of the transform, 1 for none.
        block: (rows, columns) of the tile that share a scale.
        correction: 1 / gain of the format, for the factor.
    """

    axis: int
    hadamard: int
    block: tuple[int, int]
    grid: GridFacts
    scale: ScaleFacts
    stochastic: bool
    correction: float

    @property
    def stages(self) -> int:
        """Stages of the butterfly."""
        return self.hadamard.bit_length() - 1

    @property
    def halvings(self) -> tuple[int, int]:
        """How often a block is halved along its rows and its columns until one sum is left."""
        return self.block[0].bit_length() - 1, self.block[1].bit_length() - 1


@lru_cache(maxsize=256)
def steps_of(fmt: BlockFormat, axis: int, hadamard: int, stochastic: bool) -> Steps:
    """The constants of a treatment."""
    assert fmt.element is not None and fmt.scale is not None
    return Steps(
        axis=axis,
        hadamard=hadamard,
        block=fmt.block if axis == 1 else fmt.block[::-1],
        grid=GridFacts.of(fmt.element),
        scale=ScaleFacts.of(fmt.scale, fmt.element, fmt.is_two_level),
        stochastic=stochastic,
        correction=1.0 if stochastic else 1.0 / fmt.gain,
    )


@dataclass(frozen=True)
class Tile:
    """What one program takes, and how.

    Attributes:
        vector: neighbouring elements that a thread loads at once.
    """

    rows: int
    columns: int
    warps: int
    vector: int = 8


def choose_tile(steps: Sequence[Steps]) -> Tile:
    """The tile that is fastest on an H200 for treatments along these axes."""
    reach = max(max(*step.block, step.hadamard) for step in steps)
    return Tile(max(16, reach), max(256, reach), 4)


@triton.jit
def _rotate(x, signs, steps: tl.constexpr):
    """Signs, then the butterfly over strides 1, 2, 4, ..., then 1/sqrt(n), along the axis."""
    R: tl.constexpr = x.shape[0]
    C: tl.constexpr = x.shape[1]
    stages: tl.constexpr = steps.stages
    if steps.axis == 1:
        at = tl.arange(0, C) % steps.hadamard
        x = x * tl.load(signs + at).to(tl.float32)[None, :]
        for i in tl.static_range(stages):
            pairs = x.reshape(R, C // (2 << i), 2, 1 << i).permute(0, 1, 3, 2)
            left, right = pairs.split()
            x = tl.join(left + right, left - right).permute(0, 1, 3, 2).reshape(R, C)
    else:
        at = tl.arange(0, R) % steps.hadamard
        x = x * tl.load(signs + at).to(tl.float32)[:, None]
        for i in tl.static_range(stages):
            pairs = x.reshape(R // (2 << i), 2, 1 << i, C).permute(0, 2, 3, 1)
            left, right = pairs.split()
            x = tl.join(left + right, left - right).permute(0, 3, 1, 2).reshape(R, C)
    return x * (1.0 / (steps.hadamard**0.5))


@triton.jit
def _in_blocks(x, steps: tl.constexpr):
    """[R, C] as [R / block rows, block rows, C / block columns, block columns]."""
    R: tl.constexpr = x.shape[0]
    C: tl.constexpr = x.shape[1]
    rows: tl.constexpr = steps.block[0]
    columns: tl.constexpr = steps.block[1]
    return x.reshape(R // rows, rows, C // columns, columns)


@triton.jit
def _block_amax(x, steps: tl.constexpr):
    """Bits of each block's amax, int32 with 1 where x in blocks has block rows and columns."""
    bits = magnitude_bits(x)
    if steps.block[1] != 1:
        bits = tl.max(bits, 3, keep_dims=True)
    if steps.block[0] != 1:
        bits = tl.max(bits, 1, keep_dims=True)
    return bits


@triton.jit
def _draw(row0, column0, R: tl.constexpr, C: tl.constexpr, draws, steps: tl.constexpr):
    """16 random bits for each element of the tile, int32 [R, C]: one Philox call for eight."""
    seed_low, seed_high, step, stream, first_row, first_column = draws
    if step.dtype.is_ptr():
        step = tl.load(step)
    if steps.axis == 1:
        row = (row0 + first_row + tl.arange(0, R))[:, None]
        group = ((column0 + first_column) // 8 + tl.arange(0, C // 8))[None, :]
        shape: tl.constexpr = (R, C // 8)
    else:
        row = (column0 + first_row + tl.arange(0, C))[None, :]
        group = ((row0 + first_column) // 8 + tl.arange(0, R // 8))[:, None]
        shape: tl.constexpr = (R // 8, C)
    zero = tl.zeros(shape, tl.uint32)
    c0 = group.to(tl.uint32) + zero
    c1 = row.to(tl.uint32) + zero
    c2 = step.to(tl.uint32) + zero
    c3 = stream.to(tl.uint32) + zero
    w0, w1, w2, w3 = philox(c0, c1, c2, c3, seed_low.to(tl.uint32), seed_high.to(tl.uint32))
    words = tl.join(tl.join(w0, w2), tl.join(w1, w3))
    halves = tl.join(words & 0xFFFF, words >> 16).to(tl.int32, bitcast=True)
    if steps.axis == 1:
        return halves.reshape(R, C)
    return halves.permute(0, 2, 3, 4, 1).reshape(R, C)


@triton.jit
def _halve(squares, AXIS: tl.constexpr, steps: tl.constexpr):
    """Sum over an axis of [R, r, C, c] by adding the second half to the first, again and again."""
    a: tl.constexpr = squares.shape[0]
    r: tl.constexpr = squares.shape[1]
    b: tl.constexpr = squares.shape[2]
    c: tl.constexpr = squares.shape[3]
    row_halvings: tl.constexpr = steps.halvings[0]
    column_halvings: tl.constexpr = steps.halvings[1]
    if AXIS == 3:
        for i in tl.static_range(column_halvings):
            pairs = squares.reshape(a, r, b, 2, c >> (i + 1)).permute(0, 1, 2, 4, 3)
            left, right = pairs.split()
            squares = left + right
        return squares
    else:
        for i in tl.static_range(row_halvings):
            pairs = squares.reshape(a, 2, r >> (i + 1), b, c).permute(0, 2, 3, 4, 1)
            left, right = pairs.split()
            squares = left + right
        return squares


@triton.jit
def _error(x, stored, decode, steps: tl.constexpr):
    """Squared error of each block, added up in the reference's order."""
    scale: tl.constexpr = steps.scale
    grid: tl.constexpr = steps.grid
    values = round_nearest(elements(x, stored, decode, scale), grid)
    difference = values * stored * decode - x
    squares = difference * difference
    if steps.axis == 1:
        return _halve(_halve(squares, 1, steps), 3, steps)
    return _halve(_halve(squares, 3, steps), 1, steps)


@triton.jit
def _choose_scales(x, amax, encode, decode, steps: tl.constexpr):
    scale: tl.constexpr = steps.scale
    stored = stored_scales(amax, encode, scale, scale.target)
    if scale.four_over_six:
        to_four = stored_scales(amax, encode, scale, 4.0)
        better = _error(x, to_four, decode, steps) < _error(x, stored, decode, steps)
        stored = tl.where(better, to_four, stored)
    return stored


@triton.jit
def _treat(x, row0, column0, amax_of_tensor, signs, draws, steps: tl.constexpr):
    """Element times block scale of a tile, FP32 [R, C]."""
    R: tl.constexpr = x.shape[0]
    C: tl.constexpr = x.shape[1]
    scale: tl.constexpr = steps.scale
    grid: tl.constexpr = steps.grid
    if steps.hadamard > 1:
        x = _rotate(x, signs, steps)
    blocks = _in_blocks(x, steps)
    bits = _block_amax(blocks, steps)
    finite = bits < _INFINITY_BITS
    amax = tl.where(finite, bits, 0).to(tl.float32, bitcast=True)
    encode, decode = 1.0, 1.0
    if scale.two_level:
        encode, decode = tensor_scales(tl.load(amax_of_tensor), scale)
    stored = _choose_scales(blocks, amax, encode, decode, steps)
    stored = tl.where(finite, stored, float("nan"))
    t = elements(blocks, stored, decode, scale)
    if steps.stochastic:
        bits16 = _in_blocks(_draw(row0, column0, R, C, draws, steps), steps)
        values = round_stochastic(t, bits16, grid)
    else:
        values = round_nearest(t, grid)
    return (values * stored).reshape(R, C)


@triton.jit
def _store(values, out, row0, column0, rows, columns, V: tl.constexpr):
    """Store a tile to a contiguous [rows, columns], leaving out what lies beyond."""
    row = row0 + tl.arange(0, values.shape[0]).to(tl.int64)
    column = tl.max_contiguous(column0 + tl.arange(0, values.shape[1]), V)
    mask = (row < rows)[:, None] & (column < columns)[None, :]
    pointers = out + row[:, None] * columns + column[None, :]
    tl.store(pointers, values.to(out.dtype.element_ty), mask=mask)


@triton.jit
def _load(
    x,
    row0,
    column0,
    rows,
    columns,
    row_stride,
    column_stride,
    R: tl.constexpr,
    C: tl.constexpr,
    V: tl.constexpr,
):
    row = row0 + tl.arange(0, R).to(tl.int64)
    column = tl.max_contiguous(column0 + tl.arange(0, C), V)
    mask = (row < rows)[:, None] & (column < columns)[None, :]
    if column_stride == 1:
        pointers = x + row[:, None] * row_stride + column[None, :]
    else:
        pointers = x + row[:, None] * row_stride + (column.to(tl.int64) * column_stride)[None, :]
    return tl.load(pointers, mask=mask, other=0.0).to(tl.float32)


@triton.jit
def _origin(columns, R: tl.constexpr, C: tl.constexpr):
    """First row (int64) and column of this program's tile."""
    across = tl.cdiv(columns, C)
    tile = tl.program_id(0)
    return (tile // across).to(tl.int64) * R, (tile % across) * C


@triton.jit(do_not_specialize=DRAW_SCALARS)
def _emulate_kernel(
    x, rows, columns, row_stride, column_stride, covered_columns,
    out_0, rows_0, columns_0, amax_0, factor_0, signs_0,
    seed_low_0, seed_high_0, step_0, stream_0, first_row_0, first_column_0, steps_0: tl.constexpr,
    out_1, rows_1, columns_1, amax_1, factor_1, signs_1,
    seed_low_1, seed_high_1, step_1, stream_1, first_row_1, first_column_1, steps_1: tl.constexpr,
    R: tl.constexpr, C: tl.constexpr, V: tl.constexpr,
):  # fmt: skip
    row0, column0 = _origin(covered_columns, R, C)
    tile = _load(x, row0, column0, rows, columns, row_stride, column_stride, R, C, V)
    draws = (seed_low_0, seed_high_0, step_0, stream_0, first_row_0, first_column_0)
    values = _treat(tile, row0, column0, amax_0, signs_0, draws, steps_0)
    _store(values, out_0, row0, column0, rows_0, columns_0, V)
    if steps_1 is not None:
        draws = (seed_low_1, seed_high_1, step_1, stream_1, first_row_1, first_column_1)
        values = _treat(tile, row0, column0, amax_1, signs_1, draws, steps_1)
        _store(values, out_1, row0, column0, rows_1, columns_1, V)
    if tl.program_id(0) == 0:
        _store_factor(factor_0, amax_0, steps_0)
        if steps_1 is not None:
            _store_factor(factor_1, amax_1, steps_1)


@triton.jit
def _store_factor(factor, amax, steps: tl.constexpr):
    scale: tl.constexpr = steps.scale
    if scale.two_level:
        _, decode = tensor_scales(tl.load(amax), scale)
        tl.store(factor, decode * steps.correction)
    elif steps.correction != 1.0:
        tl.store(factor, steps.correction)


@triton.jit
def _amax_kernel(
    x, rows, columns, row_stride, column_stride, covered_columns,
    amax_0, signs_0, steps_0: tl.constexpr, amax_1, signs_1, steps_1: tl.constexpr,
    R: tl.constexpr, C: tl.constexpr, V: tl.constexpr,
):  # fmt: skip
    row0, column0 = _origin(covered_columns, R, C)
    tile = _load(x, row0, column0, rows, columns, row_stride, column_stride, R, C, V)
    _accumulate_amax(tile, amax_0, signs_0, steps_0)
    if steps_1 is not None:
        _accumulate_amax(tile, amax_1, signs_1, steps_1)


@triton.jit
def _accumulate_amax(x, amax, signs, steps: tl.constexpr):
    """Take the tile's finite blocks into the tensor's amax; a maximum has no order to depend on."""
    if steps.scale.two_level:
        if steps.hadamard > 1:
            x = _rotate(x, signs, steps)
        bits = _block_amax(_in_blocks(x, steps), steps)
        finite = tl.where(bits < _INFINITY_BITS, bits, 0)
        largest = tl.max(finite)
        tl.atomic_max(amax.to(tl.pointer_type(tl.int32), bitcast=True), largest, sem="relaxed")


def emulate_triton(
    x: Tensor,
    treatments: Sequence[Treatment],
    dtype: torch.dtype | None = None,
    tile: Tile | None = None,
) -> list[Emulated]:
    """Quantise and decode a tensor for one or two GEMMs from one read of it.

    Args:
        x: [rows, columns] of float32, bfloat16 or float16, any strides; it is not modified.
        treatments: one or two.
        dtype: of the values; by default bfloat16 where the format is exact in it, else float32. In
            bfloat16 the values of other formats are rounded to nearest, once.
        tile: what a program takes, instead of the tuned choice.
    """
    steps = [
        steps_of(t.format, t.axis, 1 if t.signs is None else t.signs.numel(), t.draws is not None)
        for t in treatments
    ]
    work = [
        _prepare(x, treatment, step, dtype)
        for treatment, step in zip(treatments, steps, strict=True)
    ]
    if x.numel():
        _launch(x, work, tile or choose_tile(steps))
    else:
        for w in work:
            if w.factor is not None:
                w.factor.fill_(w.steps.correction)
    return [Emulated(w.out, w.factor) for w in work]


@dataclass(frozen=True)
class _Work:
    """One treatment with the memory that it uses."""

    treatment: Treatment
    steps: Steps
    out: Tensor
    amax: Tensor | None
    factor: Tensor | None

    @property
    def amax_arguments(self) -> tuple[Any, ...]:
        return self.amax, self.treatment.signs, self.steps

    @property
    def arguments(self) -> tuple[Any, ...]:
        draws = self.treatment.draws
        named: tuple[Any, ...] = (None,) * 6
        if draws is not None:
            step = draws.step if isinstance(draws.step, Tensor) else _as_int32(draws.step)
            seed = _as_int32(draws.seed), _as_int32(draws.seed >> 32)
            named = (*seed, step, _as_int32(draws.stream), draws.row, draws.column)
        buffers = self.out, *self.out.shape, self.amax, self.factor
        return *buffers, self.treatment.signs, *named, self.steps


def _prepare(x: Tensor, treatment: Treatment, steps: Steps, dtype: torch.dtype | None) -> _Work:
    shape = list(x.shape)
    shape[steps.axis] = triton.cdiv(shape[steps.axis], steps.hadamard) * steps.hadamard
    exact = treatment.format.is_exact_in_bf16
    out = x.new_empty(shape, dtype=dtype or (torch.bfloat16 if exact else torch.float32))
    two_level = steps.scale.two_level
    amax = x.new_zeros((), dtype=torch.float32) if two_level else None
    has_factor = two_level or steps.correction != 1.0
    return _Work(
        treatment, steps, out, amax, x.new_empty((), dtype=torch.float32) if has_factor else None
    )


def _launch(x: Tensor, work: list[_Work], tile: Tile) -> None:
    rows = max(x.shape[0], *(w.out.shape[0] for w in work))
    columns = max(x.shape[1], *(w.out.shape[1] for w in work))
    grid = (triton.cdiv(rows, tile.rows) * triton.cdiv(columns, tile.columns),)
    common = (x, *x.shape, *x.stride(), columns)
    constants: dict[str, Any] = {
        "R": tile.rows,
        "C": tile.columns,
        "V": tile.vector,
        "num_warps": tile.warps,
        "enable_fp_fusion": False,
    }
    if any(w.amax is not None for w in work):
        _amax_kernel[grid](*common, *_both([w.amax_arguments for w in work]), **constants)
    _emulate_kernel[grid](*common, *_both([w.arguments for w in work]), **constants)


def _both(arguments: list[tuple[Any, ...]]) -> tuple[Any, ...]:
    """The arguments of two treatments; those of a missing second one are None."""
    first = arguments[0]
    return (*first, *(arguments[1] if len(arguments) == 2 else (None,) * len(first)))


def _as_int32(word: int) -> int:
    """The low 32 bits as a signed integer, so that a kernel's argument has one type for all values."""
    return (word + 0x80000000 & WORD) - 0x80000000
