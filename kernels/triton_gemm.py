"""Native block-scaled GEMMs: codes and block scales go into the matrix unit, FP32 comes out.

One source, ``tl.dot_scaled``, becomes each vendor's own instruction:

    sm_100, sm_103   tcgen05.mma kind::mxf4nvf4 (NVFP4), kind::mxf4 (MXFP4)
    sm_120           mma.sync with block_scale
    gfx950           v_mfma_scale (MXFP4)
    others           Triton decomposes it: decode, then an ordinary matrix product

Elements are E2M1, two a byte, or an exact *carrier*: every level of a small uniform grid (0 ... 7,
or 0 ... 1.75) is also an E4M3 number, so with E8M0 scales such a grid runs at the MXFP8 rate.
Tails are masked, codes and scales alike: memory behind an operand may hold anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import torch
import triton
import triton.language as tl
from torch import Tensor

from formats import BlockFormat, Grid
from formats.grid import E2M1, E4M3
from kernels.quantized import Quantized
from kernels.targets import DECOMPOSES_E4M3_SCALES_FROM, INSTRUCTIONS, target_of

MX_BLOCK, NV_BLOCK = 32, 16


@dataclass(frozen=True)
class GemmTile:
    """What a program computes: rows x columns of the output, in slices of the contraction.

    Eight warps keep every target free of register spills; deterministic because fixed.
    """

    rows: int = 128
    columns: int = 128
    depth: int = 128
    warps: int = 8
    stages: int = 3


def carrier_of(fmt: BlockFormat) -> str | None:
    """The element type of ``tl.dot_scaled`` that multiplies a format exactly, or None.

    "e2m1" for E2M1 itself; "e4m3" for any other grid whose levels are all E4M3 numbers, with E8M0
    scales per 32. Other scales and blocks have no instruction.
    """
    if fmt.element is None or fmt.scale is None:
        return None
    scaling = fmt.scale.format.name, fmt.block[1]
    if fmt.element.decode_table == E2M1.decode_table:
        return "e2m1" if scaling in (("e8m0", MX_BLOCK), ("e4m3", NV_BLOCK)) else None
    exact = set(fmt.element.levels) <= set(E4M3.levels)
    return "e4m3" if exact and scaling == ("e8m0", MX_BLOCK) else None


def carrier_codes(operand: Quantized) -> Tensor:
    """The operand's codes as the carrier wants them: uint8, E2M1 [R, K / 2] or E4M3 [R, K]."""
    if operand.grid.decode_table == E2M1.decode_table:
        return operand.codes
    return _e4m3_codes(operand.grid, operand.codes.device)[operand.unpacked().long()]


@cache
def _e4m3_codes(grid: Grid, device: torch.device) -> Tensor:
    """The E4M3 code of each code of a grid; unused codes become 0.

    Copied to the device once: a captured graph could not wait for it.
    """
    code_of = dict(zip(E4M3.levels, E4M3.level_codes, strict=True))
    codes = [code_of.get(value, 0) for value in grid.decode_table]
    return torch.tensor(codes, dtype=torch.uint8, device=device)


@triton.jit
def scaled_gemm_kernel(
    a, a_scales, b, b_scales, out, factor, M, N, K,
    TYPE: tl.constexpr, PACKED: tl.constexpr, SCALED: tl.constexpr, E4M3_SCALES: tl.constexpr,
    HAS_FACTOR: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """Write factor * A [M, K] B [N, K]^T; PACKED codes a byte, a scale per SCALED codes."""
    across = tl.cdiv(N, BN)
    row = (tl.program_id(0) // across).to(tl.int64) * BM + tl.arange(0, BM)
    column = (tl.program_id(0) % across).to(tl.int64) * BN + tl.arange(0, BN)
    byte = tl.arange(0, BK // PACKED)
    group = tl.arange(0, BK // SCALED)
    row_bytes = K // PACKED
    row_groups = K // SCALED
    total = tl.zeros((BM, BN), tl.float32)
    for k in range(0, tl.cdiv(K, BK)):
        bytes_left = row_bytes - k * (BK // PACKED)
        groups_left = row_groups - k * (BK // SCALED)
        a_tile = tl.load(
            a + row[:, None] * row_bytes + (k * (BK // PACKED) + byte)[None, :],
            mask=(row < M)[:, None] & (byte < bytes_left)[None, :], other=0,
        )  # fmt: skip
        b_tile = tl.load(
            b + column[None, :] * row_bytes + (k * (BK // PACKED) + byte)[:, None],
            mask=(column < N)[None, :] & (byte < bytes_left)[:, None], other=0,
        )  # fmt: skip
        a_scale = tl.load(
            a_scales + row[:, None] * row_groups + (k * (BK // SCALED) + group)[None, :],
            mask=(row < M)[:, None] & (group < groups_left)[None, :], other=0,
        )  # fmt: skip
        b_scale = tl.load(
            b_scales + column[:, None] * row_groups + (k * (BK // SCALED) + group)[None, :],
            mask=(column < N)[:, None] & (group < groups_left)[None, :], other=0,
        )  # fmt: skip
        if E4M3_SCALES:
            a_scale = a_scale.to(tl.float8e4nv, bitcast=True)
            b_scale = b_scale.to(tl.float8e4nv, bitcast=True)
        total = tl.dot_scaled(a_tile, a_scale, TYPE, b_tile, b_scale, TYPE, total)
    if HAS_FACTOR:
        total *= tl.load(factor)
    mask = (row < M)[:, None] & (column < N)[None, :]
    tl.store(out + row[:, None] * N + column[None, :], total.to(out.dtype.element_ty), mask=mask)


def multiply_scaled(
    left: Quantized, right: Quantized, dtype: torch.dtype = torch.bfloat16
) -> Tensor:
    """Multiply left [M, K] by right [N, K]^T, both quantised along K in the same format.

    Args:
        dtype: of the [M, N] result; sums are FP32, and both factors are multiplied in before
            rounding.

    Raises:
        ValueError: the formats or contractions differ, the format has no carrier, or the installed
            Triton cannot compile this for the device.
    """
    carrier = _check_operands(left, right)
    if left.format.block[1] == NV_BLOCK:
        check_decomposes_e4m3_scales(target_of(left.codes.device), triton.__version__)
    m, n = _rows(left), _rows(right)
    out = torch.empty(m, n, dtype=dtype, device=left.codes.device)
    if not out.numel():
        return out
    a, b = carrier_codes(left), carrier_codes(right)
    packed = 2 if carrier == "e2m1" else 1
    factor = _factor(left, right)
    tile = GemmTile()
    grid = (triton.cdiv(m, tile.rows) * triton.cdiv(n, tile.columns),)
    scaled_gemm_kernel[grid](
        a, _scale_bytes(left), b, _scale_bytes(right), out, factor, m, n, a.shape[1] * packed,
        TYPE=carrier, PACKED=packed, SCALED=left.format.block[1],
        E4M3_SCALES=left.format.block[1] == NV_BLOCK, HAS_FACTOR=factor is not None,
        BM=tile.rows, BN=tile.columns, BK=tile.depth, num_warps=tile.warps, num_stages=tile.stages,
    )  # fmt: skip
    return out


def check_decomposes_e4m3_scales(target: str, version: str) -> None:
    """Raise ValueError where a Triton release would abort in compiling E4M3 scales for a target."""
    release = tuple(int(part) for part in version.split(".")[:2])
    if target not in INSTRUCTIONS and release < DECOMPOSES_E4M3_SCALES_FROM:
        needed = ".".join(map(str, DECOMPOSES_E4M3_SCALES_FROM))
        raise ValueError(
            f"Triton {version} cannot compile E4M3 block scales for {target}, which has no such "
            f"instruction; Triton {needed} decomposes them"
        )


def _check_operands(left: Quantized, right: Quantized) -> str:
    carrier = carrier_of(left.format)
    if left.format.facts() != right.format.facts():
        raise ValueError(
            f"a scaled GEMM takes one format, got '{left.format.name}' and '{right.format.name}'"
        )
    if carrier is None:
        raise ValueError(
            f"format '{left.format.name}' has no block-scaled instruction: elements must be E2M1 "
            "or exact in E4M3, scales E8M0 per 32 or (E2M1 only) E4M3 per 16"
        )
    depths = left.shape[left.axis], right.shape[right.axis]
    if depths[0] != depths[1]:
        raise ValueError(f"contractions differ: {depths[0]} and {depths[1]}")
    return carrier


def _rows(operand: Quantized) -> int:
    """Rows without the padding of two-dimensional blocks."""
    return operand.shape.numel() // max(1, operand.shape[operand.axis])


def _scale_bytes(operand: Quantized) -> Tensor:
    """Stored scales with a row for each row of codes."""
    return operand.scales.repeat_interleave(operand.format.block[0], 0).contiguous()


def _factor(left: Quantized, right: Quantized) -> Tensor | None:
    factors = [f for f in (left.tensor_scale, right.tensor_scale) if f is not None]
    if not factors:
        return None
    return factors[0] * factors[1] if len(factors) == 2 else factors[0]
