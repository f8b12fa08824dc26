"""A tile is chosen by what is done to it, and holds what must lie in one."""

from __future__ import annotations

import torch

from formats import load_format
from kernels.tiling import TILES, choose_amax_tile, choose_tile
from kernels.triton_tile import Steps, steps_of


def steps(fmt: str, axis: int, hadamard: int) -> Steps:
    return steps_of(load_format(fmt), axis, hadamard, False, torch.bfloat16)


def test_a_tile_grows_to_what_lies_in_it_and_its_warps_with_it() -> None:
    assert choose_tile((steps("e1m2", 1, 1),)) == TILES["row", False, False]
    assert choose_tile((steps("e1m2", 0, 16),)) == TILES["column", True, False]
    amax_tile = choose_amax_tile((steps("nvfp4", 1, 1), steps("nvfp4", 0, 16)))
    assert amax_tile == TILES["column", True, False]
    rotated = choose_amax_tile((steps("nvfp4", 1, 128), steps("nvfp4", 0, 128)))
    assert rotated.rows >= 128 and rotated.columns >= 128
    grown = choose_tile((steps("e1m2", 1, 128), steps("e1m2", 0, 128)))
    assert (grown.rows, grown.columns, grown.warps) == (128, 128, 8)
    blocks = choose_tile((steps("mxfp4-rceil", 1, 1), steps("mxfp4-rceil", 0, 1)))
    assert (blocks.rows, blocks.columns, blocks.warps) == (32, 64, 1)
