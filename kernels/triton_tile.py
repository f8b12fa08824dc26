"""Device functions of the quantiser: what happens to one tile of a tensor, held in registers.

    load -> rotate -> amax of each block -> stored scale -> t -> round

Steps are compile-time constants, so a kernel holds only what its formats need. The butterfly runs
in exactly the order of ``kernels.hadamard``: reshapes and permutations of a tile only rename
registers as long as a piece lies within a thread, and are exchanges between threads beyond.

Shape suffixes: R, C rows and columns of a tile in memory, whichever of them the contraction is.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch
import triton
import triton.language as tl
from torch import Tensor

from formats import BlockFormat
from kernels.triton_rounding import (
    GridFacts,
    amax_bits,
    philox,
    round_nearest,
    round_stochastic,
)
from kernels.triton_scaling import ScaleFacts, elements, stored_scales, tensor_scales

# Transforms whose 1/sqrt(n) is a power of two, short enough to keep elements coarse.
EXACT_ROOTS = (1, 4, 16, 64)
INFINITY_BITS = tl.constexpr(0x7F800000)


@dataclass(frozen=True, eq=False)
class Steps:
    """What a kernel does for one treatment, as compile-time constants.

    Compared by identity, as ``steps_of`` makes each once: every launch looks them up.

    Attributes:
        axis: contraction axis of the tile.
        hadamard: length of the transform, 1 for none.
        block: (rows, columns) of the tile that share a scale.
        correction: 1 / gain of the format, for the factor.
        coarse: whether 1/sqrt(n) is a power of two and a (rotated) element a multiple of 2^-136, so
            that a quotient can take that factor in, exactly.
    """

    axis: int
    hadamard: int
    block: tuple[int, int]
    grid: GridFacts
    scale: ScaleFacts
    stochastic: bool
    correction: float
    coarse: bool

    def new_factor(self, x: Tensor) -> Tensor | None:
        """Memory for the factor of decoded values, FP32; None where there is none.

        That of an empty tensor is the factor of zeros; others are for a kernel to store.
        """
        if not self.scale.two_level and self.correction == 1.0:
            return None
        if x.numel():
            return x.new_empty((), dtype=torch.float32)
        return x.new_full((), self.correction, dtype=torch.float32)

    @property
    def late_factor(self) -> float:
        """What is left of 1/sqrt(n) after ``rotate``: one for a two-level scale."""
        late = self.coarse and not self.scale.two_level
        return self.hadamard**-0.5 if late else 1.0

    @property
    def rotates_pairs(self) -> bool:
        """Whether a row's transform spans two vectors of eight."""
        return self.axis == 1 and self.hadamard >= 16

    @property
    def stages(self) -> int:
        """Stages of the butterfly."""
        return self.hadamard.bit_length() - 1

    @property
    def halvings(self) -> tuple[int, int]:
        """How often a block is halved along its rows and its columns until one sum is left."""
        return self.block[0].bit_length() - 1, self.block[1].bit_length() - 1


def ceil_div(a: int, b: int) -> int:
    """A / b rounded up; Triton's own takes several microseconds a call on the host."""
    return -(-a // b)


@lru_cache(maxsize=256)
def steps_of(
    fmt: BlockFormat, axis: int, hadamard: int, stochastic: bool, dtype: torch.dtype
) -> Steps:
    """The constants of a treatment of tensors of a dtype."""
    assert fmt.element is not None and fmt.scale is not None
    coarse = dtype.itemsize == 2 and hadamard in EXACT_ROOTS
    return Steps(
        axis=axis,
        hadamard=hadamard,
        block=fmt.block if axis == 1 else fmt.block[::-1],
        grid=GridFacts.of(fmt.element),
        scale=ScaleFacts.of(fmt.scale, fmt.element, fmt.is_two_level, coarse),
        stochastic=stochastic,
        correction=1.0 if stochastic else 1.0 / fmt.gain,
        coarse=coarse,
    )


@triton.jit
def rotate(x, signs, steps: tl.constexpr):
    """Signs, then the butterfly over strides 1, 2, 4, ... along the axis, then 1/sqrt(n).

    A factor that can be taken in later, ``late_factor``, is left out.
    """
    R: tl.constexpr = x.shape[0]
    C: tl.constexpr = x.shape[1]
    axis: tl.constexpr = steps.axis
    stages: tl.constexpr = steps.stages
    left_sign, right_sign = _signs(signs, C if axis == 1 else R, axis, steps.hadamard)
    for i in tl.static_range(stages):
        left, right = _apart(x, axis, 1 << i)
        if i == 0:
            left = left * left_sign  # a product with a sign needs no rounding
            left, right = tl.fma(right, right_sign, left), tl.fma(right, -right_sign, left)
        else:
            left, right = left + right, left - right
        x = _together(left, right, axis).reshape(R, C)
    if steps.late_factor == 1.0:
        x = x * (1.0 / (steps.hadamard**0.5))
    return x


@triton.jit
def _apart(x, AXIS: tl.constexpr, STRIDE: tl.constexpr):
    """The first and the second of the pairs that lie STRIDE apart along an axis."""
    R: tl.constexpr = x.shape[0]
    C: tl.constexpr = x.shape[1]
    if AXIS == 1:
        pairs = x.reshape(R, C // (2 * STRIDE), 2, STRIDE).permute(0, 1, 3, 2)
    else:
        pairs = x.reshape(R // (2 * STRIDE), 2, STRIDE, C).permute(0, 2, 3, 1)
    return pairs.split()


@triton.jit
def _together(left, right, AXIS: tl.constexpr):
    """The inverse of ``_apart``, but for the shape."""
    pairs = tl.join(left, right)
    return pairs.permute(0, 1, 3, 2) if AXIS == 1 else pairs.permute(0, 3, 1, 2)


@triton.jit
def _signs(signs, LENGTH: tl.constexpr, AXIS: tl.constexpr, SIZE: tl.constexpr):
    """The signs of the first and of the second of neighbours along an axis, each ``_apart``."""
    at = tl.arange(0, LENGTH) % SIZE
    left, right = tl.load(signs + at).to(tl.float32).reshape(LENGTH // 2, 2).split()
    if AXIS == 1:
        left, right = left[None, :, None], right[None, :, None]
    else:
        left, right = left[:, None, None], right[:, None, None]
    return left, right


@triton.jit
def in_blocks(x, steps: tl.constexpr):
    """[R, C] as [R / block rows, block rows, C / block columns, block columns]."""
    R: tl.constexpr = x.shape[0]
    C: tl.constexpr = x.shape[1]
    rows: tl.constexpr = steps.block[0]
    columns: tl.constexpr = steps.block[1]
    return x.reshape(R // rows, rows, C // columns, columns)


@triton.jit
def block_amax(x, steps: tl.constexpr):
    """Bits of each block's amax, int32 with 1 where x in blocks has block rows and columns."""
    bits = amax_bits(x, 3)
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
        zero = tl.zeros((R, C // 8), tl.uint32)
    else:
        row = (column0 + first_row + tl.arange(0, C))[None, :]
        group = ((row0 + first_column) // 8 + tl.arange(0, R // 8))[:, None]
        zero = tl.zeros((R // 8, C), tl.uint32)
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
    values = round_nearest(elements(x, stored, decode, 1.0, scale), grid)
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
def quantize_tile(x, row0, column0, amax_of_tensor, signs, draws, steps: tl.constexpr):
    """The (rotated) tile [R, C], t, t rounded and the stored scales, all as ``in_blocks``."""
    R: tl.constexpr = x.shape[0]
    C: tl.constexpr = x.shape[1]
    scale: tl.constexpr = steps.scale
    grid: tl.constexpr = steps.grid
    if steps.hadamard > 1:
        x = rotate(x, signs, steps)
    blocks = in_blocks(x, steps)
    bits = block_amax(blocks, steps)
    finite = bits < INFINITY_BITS
    amax = tl.where(finite, bits, 0).to(tl.float32, bitcast=True) * steps.late_factor
    encode, decode = 1.0, 1.0
    if scale.two_level:
        encode, decode = tensor_scales(tl.load(amax_of_tensor), scale)
    stored = _choose_scales(blocks, amax, encode, decode, steps)
    stored = tl.where(finite, stored, float("nan"))
    t = elements(blocks, stored, decode, steps.late_factor, scale)
    if steps.stochastic:
        bits16 = in_blocks(_draw(row0, column0, R, C, draws, steps), steps)
        values = round_stochastic(t, bits16, grid, scale.clips)
    else:
        values = round_nearest(t, grid, scale.clips)
    return blocks, t, values, stored


@triton.jit
def store_factor(factor, amax, steps: tl.constexpr):
    """Store what decoded values are multiplied with: tensor scale and gain's correction."""
    scale: tl.constexpr = steps.scale
    if scale.two_level:
        _, decode = tensor_scales(tl.load(amax), scale)
        tl.store(factor, decode * steps.correction)
    elif steps.correction != 1.0:
        tl.store(factor, steps.correction)
