"""The fused quantiser: a tensor is read once, and leaves as the operands of one or two GEMMs.

One program holds one tile in registers, [R, C] of FP32. Each treatment takes it through

    rotate -> amax of each block -> stored scale -> t -> round -> value * scale -> store

along its own contraction axis, so the forward and the backward copy of a tensor cost one read. Only
a two-level format needs more: the amax of the (rotated) tensor, from a read-only kernel before. The
butterfly of the Hadamard transform runs on registers, in exactly the order of ``kernels.hadamard``.

Offsets are 64-bit, tiles are numbered along one grid axis, tails are masked with zeros (which are
exact), and a block with NaN or Inf in it gets the scale NaN: it decodes to NaN, and no other does.

Shape suffixes: R, C rows and columns of a tile in memory, whichever of them the contraction is.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.emulate import Emulated, Treatment
from kernels.launching import INT32_END, Launcher, layout_of
from kernels.rounding import WORD, Draws
from kernels.tiling import Tile, choose_amax_tile, choose_tile
from kernels.triton_memory import load_tile, origin, store_tile
from kernels.triton_tile import (
    INFINITY_BITS,
    Steps,
    block_amax,
    ceil_div,
    in_blocks,
    quantize_tile,
    rotate,
    steps_of,
    store_factor,
)

ROW_VECTOR = tl.constexpr(8)
# A value of 1 or a multiple of 16 must not compile the kernel anew.
DRAW_SCALARS = [
    f"{name}_{i}"
    for name in ("seed_low", "seed_high", "step", "stream", "first_row", "first_column")
    for i in range(2)
]
ALIGNED_SCALARS = 4  # FP32 numbers from one to the next that a kernel may take as aligned


@triton.jit
def _treat(x, row0, column0, amax_of_tensor, signs, draws, steps: tl.constexpr):
    """Element times block scale of a tile, FP32 [R, C]."""
    _, _, values, stored = quantize_tile(x, row0, column0, amax_of_tensor, signs, draws, steps)
    return (values * stored).reshape(x.shape[0], x.shape[1])


@triton.jit(do_not_specialize=DRAW_SCALARS)
def emulate_kernel(
    x, rows, columns, row_stride, column_stride, covered_columns,
    out_0, rows_0, columns_0, amax_0, factor_0, signs_0,
    seed_low_0, seed_high_0, step_0, stream_0, first_row_0, first_column_0, steps_0: tl.constexpr,
    out_1, rows_1, columns_1, amax_1, factor_1, signs_1,
    seed_low_1, seed_high_1, step_1, stream_1, first_row_1, first_column_1, steps_1: tl.constexpr,
    R: tl.constexpr, C: tl.constexpr, V: tl.constexpr,
):  # fmt: skip
    """One tile of x through one or two treatments, whose arguments end in 0 and 1."""
    # A pass for the amax came before: what it read last is still in the cache.
    last_first: tl.constexpr = steps_0.scale.two_level
    row0, column0 = origin(covered_columns, R, C, last_first)
    v: tl.constexpr = V if steps_0.axis == 0 else ROW_VECTOR
    paired: tl.constexpr = steps_1 is None and steps_0.rotates_pairs
    tile = load_tile(x, row0, column0, rows, columns, row_stride, column_stride, R, C, v, paired)
    draws = (seed_low_0, seed_high_0, step_0, stream_0, first_row_0, first_column_0)
    values = _treat(tile, row0, column0, amax_0, signs_0, draws, steps_0)
    store_tile(values, out_0, row0, column0, rows_0, columns_0, v)
    if steps_1 is not None:
        # Read again, from the cache: to keep the tile would take too many registers.
        w: tl.constexpr = V if steps_1.axis == 0 else ROW_VECTOR
        tile = load_tile(x, row0, column0, rows, columns, row_stride, column_stride, R, C, w)
        draws = (seed_low_1, seed_high_1, step_1, stream_1, first_row_1, first_column_1)
        values = _treat(tile, row0, column0, amax_1, signs_1, draws, steps_1)
        store_tile(values, out_1, row0, column0, rows_1, columns_1, w)
    if tl.program_id(0) == 0:
        store_factor(factor_0, amax_0, steps_0)
        if steps_1 is not None:
            store_factor(factor_1, amax_1, steps_1)


@triton.jit
def amax_kernel(
    x, rows, columns, row_stride, column_stride, covered_columns,
    amax_0, signs_0, steps_0: tl.constexpr, amax_1, signs_1, steps_1: tl.constexpr,
    R: tl.constexpr, C: tl.constexpr, V: tl.constexpr,
):  # fmt: skip
    """Take one tile of x into the amax of one or two treatments, whose arguments end in 0 and 1."""
    row0, column0 = origin(covered_columns, R, C)
    paired: tl.constexpr = steps_1 is None and steps_0.rotates_pairs
    tile = load_tile(x, row0, column0, rows, columns, row_stride, column_stride, R, C, V, paired)
    _accumulate_amax(tile, amax_0, signs_0, steps_0)
    if steps_1 is not None:
        _accumulate_amax(tile, amax_1, signs_1, steps_1)


@triton.jit
def _accumulate_amax(x, amax, signs, steps: tl.constexpr):
    """Take the tile's finite blocks into the tensor's amax; a maximum has no order to depend on."""
    if steps.scale.two_level:
        if steps.hadamard > 1:
            x = rotate(x, signs, steps)
        bits = block_amax(in_blocks(x, steps), steps)
        largest = tl.max(tl.where(bits < INFINITY_BITS, bits, 0))
        amax = amax.to(tl.pointer_type(tl.int32), bitcast=True)
        # One address for all programs: few have to write it, and reading does not queue.
        seen = tl.load(amax, volatile=True)
        tl.atomic_max(amax, largest, mask=largest > seen, sem="relaxed")


_quantiser = Launcher(emulate_kernel)
_amax = Launcher(amax_kernel)


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
    steps = tuple(
        steps_of(t.format, t.axis, t.hadamard, t.draws is not None, x.dtype) for t in treatments
    )
    amaxes = new_amaxes(x, steps)
    work = [
        _prepare(x, treatment, step, amax, dtype)
        for treatment, step, amax in zip(treatments, steps, amaxes, strict=True)
    ]
    if x.numel():
        _launch(x, work, tile or choose_tile(steps))
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
    def deciding(self) -> Hashable:
        """What a compiled version depends on; memory of ours is always aligned."""
        signs, draws = layout_of(self.treatment.signs), kinds_of_draws(self.treatment.draws)
        return self.steps, self.out.dtype, signs, draws

    @property
    def arguments(self) -> tuple[Any, ...]:
        buffers = self.out, *self.out.shape, self.amax, self.factor
        return *buffers, self.treatment.signs, *draw_arguments(self.treatment.draws), self.steps


def new_amaxes(x: Tensor, steps: Sequence[Steps]) -> list[Tensor | None]:
    """For each treatment memory for the tensor's amax, zeroed at once; None if it needs none."""
    needed = [step.scale.two_level for step in steps]
    if not any(needed):
        return [None] * len(steps)
    zeros = x.new_zeros(len(steps), ALIGNED_SCALARS, dtype=torch.float32)
    return [zeros[i, 0] if need else None for i, need in enumerate(needed)]


def _prepare(
    x: Tensor,
    treatment: Treatment,
    steps: Steps,
    amax: Tensor | None,
    dtype: torch.dtype | None,
) -> _Work:
    shape = list(x.shape)
    shape[steps.axis] = ceil_div(shape[steps.axis], steps.hadamard) * steps.hadamard
    exact = treatment.format.is_exact_in_bf16
    out = x.new_empty(shape, dtype=dtype or (torch.bfloat16 if exact else torch.float32))
    return _Work(treatment, steps, out, amax, steps.new_factor(x))


def _launch(x: Tensor, work: list[_Work], tile: Tile) -> None:
    rows = max(x.shape[0], *(w.out.shape[0] for w in work))
    columns = max(x.shape[1], *(w.out.shape[1] for w in work))
    common = (x, *x.shape, *x.stride(), columns)
    if any(w.amax is not None for w in work):
        launch_amax(rows, common, [w.amax_arguments for w in work])
    arguments = (*common, *_both([w.arguments for w in work]))
    deciding = layout_of(x), *(w.deciding for w in work)
    grid = tile.grid(rows, columns)
    _quantiser.launch(grid, arguments, tile.constants, tile.options, deciding)


def launch_amax(rows: int, common: tuple[Any, ...], treated: list[tuple[Any, ...]]) -> None:
    """Work out the amax of the (rotated) tensor for each treatment: (amax, signs, steps)."""
    tile = choose_amax_tile(tuple(steps for _, _, steps in treated))
    arguments = (*common, *_both(treated))
    covered = common[-1]
    deciding = layout_of(common[0]), covered, *((layout_of(s), steps) for _, s, steps in treated)
    grid = tile.grid(rows, covered)
    _amax.launch(grid, arguments, tile.constants, tile.options, deciding)


def draw_arguments(draws: Draws | None) -> tuple[Any, ...]:
    """The names of a stream of random bits as a kernel takes them."""
    if draws is None:
        return (None,) * 6
    step = draws.step if isinstance(draws.step, Tensor) else _as_int32(draws.step)
    seed = _as_int32(draws.seed), _as_int32(draws.seed >> 32)
    return *seed, step, _as_int32(draws.stream), draws.row, draws.column


def kinds_of_draws(draws: Draws | None) -> Hashable:
    """What a compiled version depends on of ``draw_arguments``."""
    if draws is None:
        return None
    step = draws.step.dtype if isinstance(draws.step, Tensor) else None
    return step, draws.row < INT32_END, draws.column < INT32_END


def _both(arguments: list[tuple[Any, ...]]) -> tuple[Any, ...]:
    """The arguments of two treatments; those of a missing second one are None."""
    first = arguments[0]
    return (*first, *(arguments[1] if len(arguments) == 2 else (None,) * len(first)))


def _as_int32(word: int) -> int:
    """The low 32 bits as a signed integer: a kernel's argument has one type for all values."""
    return (word + 0x80000000 & WORD) - 0x80000000
