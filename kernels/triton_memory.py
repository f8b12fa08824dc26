"""Device functions that move tiles between memory and registers, with zeros beyond a tensor."""

from __future__ import annotations

import triton
import triton.language as tl

from kernels.triton_rounding import is_nvidia


@triton.jit
def origin(columns, R: tl.constexpr, C: tl.constexpr, LAST_FIRST: tl.constexpr = False):
    """First row (int64) and column of this program's tile."""
    across = tl.cdiv(columns, C)
    tile = tl.program_id(0)
    if LAST_FIRST:
        tile = tl.num_programs(0) - 1 - tile
    return (tile // across).to(tl.int64) * R, (tile % across) * C


@triton.jit
def load_tile(
    x, row0, column0, rows, columns, row_stride, column_stride,
    R: tl.constexpr, C: tl.constexpr, V: tl.constexpr, PAIRED: tl.constexpr = False,
):  # fmt: skip
    """FP32 [R, C] of a tile, zeros beyond the tensor; V neighbours are loaded at once.

    PAIRED: a thread gets sixteen neighbours of a row, whatever V.
    """
    if PAIRED:
        return _load_pairs(x, row0, column0, rows, columns, row_stride, column_stride, R, C)
    else:
        return _load_vectors(x, row0, column0, rows, columns, row_stride, column_stride, R, C, V)


@triton.jit
def _load_vectors(
    x, row0, column0, rows, columns, row_stride, column_stride,
    R: tl.constexpr, C: tl.constexpr, V: tl.constexpr,
):  # fmt: skip
    row = row0 + tl.arange(0, R).to(tl.int64)
    column = tl.max_contiguous(column0 + tl.arange(0, C), V)
    mask = (row < rows)[:, None] & (column < columns)[None, :]
    if column_stride == 1:
        pointers = x + row[:, None] * row_stride + column[None, :]
    else:
        pointers = x + row[:, None] * row_stride + (column.to(tl.int64) * column_stride)[None, :]
    return to_float32(tl.load(pointers, mask=mask, other=0.0))


@triton.jit
def _load_pairs(
    x, row0, column0, rows, columns, row_stride, column_stride, R: tl.constexpr, C: tl.constexpr
):
    """Two vectors of eight neighbours for each thread.

    A transform of sixteen is then its own affair: an exchange with the next thread, through shared
    memory, cost more than loads that leave gaps.
    """
    row = (row0 + tl.arange(0, R).to(tl.int64))[:, None, None]
    near = tl.max_contiguous(tl.arange(0, 8), 8)[None, None, :]
    column = column0 + 16 * tl.arange(0, C // 16)[None, :, None] + near
    if column_stride == 1:
        pointers = x + row * row_stride + column
    else:
        pointers = x + row * row_stride + column.to(tl.int64) * column_stride
    first = tl.load(pointers, mask=(row < rows) & (column < columns), other=0.0)
    pointers += 8 * column_stride
    second = tl.load(pointers, mask=(row < rows) & (column + 8 < columns), other=0.0)
    pairs = tl.join(to_float32(first), to_float32(second))
    return pairs.permute(0, 1, 3, 2).reshape(R, C)


@triton.jit
def to_float32(x):
    """FP32 of a tile; of BF16 on NVIDIA's GPUs, two neighbours from the word that holds them."""
    if is_nvidia() and x.dtype == tl.bfloat16:
        code: tl.constexpr = "shl.b32 $0, $2, 16; and.b32 $1, $2, 0xffff0000;"
        return tl.inline_asm_elementwise(code, "=r,=r,r", [x], tl.float32, is_pure=True, pack=2)
    else:
        return x.to(tl.float32)


@triton.jit
def store_tile(values, out, row0, column0, rows, columns, V: tl.constexpr):
    """Store a tile to a contiguous [rows, columns], leaving out what lies beyond."""
    row = row0 + tl.arange(0, values.shape[0]).to(tl.int64)
    column = tl.max_contiguous(column0 + tl.arange(0, values.shape[1]), V)
    mask = (row < rows)[:, None] & (column < columns)[None, :]
    pointers = out + row[:, None] * columns + column[None, :]
    tl.store(pointers, values.to(out.dtype.element_ty), mask=mask)
