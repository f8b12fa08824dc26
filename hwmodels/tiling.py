"""Tiling: how a GEMM is cut over a device's compute units, and what that wastes.

Each unit computes one tile of the result at a time, so the work comes in waves of as many tiles as
there are units, and the last wave takes as long as a full one:

    FLOP paid for = waves * units * 2 * tile * k

A result of few tiles (a weight's gradient: small result, long k) is cut along k too, so that all
units have work; the parts are then written in FP32, and read again by a second kernel that adds
them up. Tiles are the three that the names of cuBLAS's kernels for SM90 mention most (its others
waste less where a result is small or is no multiple of these).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from hwmodels.workload import BF16_BYTES, FP32_BYTES

TILES = ((128, 256), (256, 128), (128, 128))
LEAST_K = 128  # per part: below, filling the pipeline takes longer than the part


@dataclass(frozen=True)
class Tiling:
    """One way to cut a GEMM.

    Attributes:
        splits: parts along k.
        flops: what the units could do in the waves that it takes.
        result_bytes: of the BF16 result.
        partial_bytes: of the parts, written and read.
    """

    splits: int
    flops: float
    result_bytes: float
    partial_bytes: float


def tilings(shape: tuple[int, int, int], units: int) -> Iterator[Tiling]:
    """All ways: each tile, k whole, and where that leaves units idle, k in parts."""
    m, n, k = shape
    for height, width in TILES:
        tiles = math.ceil(m / height) * math.ceil(n / width)
        most = max(1, min(units // tiles, k // LEAST_K))
        for splits in range(1, most + 1):
            waves = math.ceil(tiles * splits / units)
            flops = 2.0 * waves * units * height * width * math.ceil(k / splits)
            partial = 0.0 if splits == 1 else 2.0 * FP32_BYTES * splits * m * n
            yield Tiling(splits, flops, float(BF16_BYTES * m * n), partial)
