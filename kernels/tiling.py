"""Tiles: what one program of a quantiser takes, chosen beforehand and never while it runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from kernels.rounding import COLUMNS_PER_CALL
from kernels.triton_tile import Steps, ceil_div


@dataclass(frozen=True)
class Tile:
    """What one program takes, and how.

    Attributes:
        vector: neighbouring elements that a thread loads at once for blocks along columns; for
            blocks along rows it is eight.
    """

    rows: int
    columns: int
    warps: int
    vector: int = 8

    @property
    def constants(self) -> dict[str, int]:
        """The last arguments of a kernel."""
        return {"R": self.rows, "C": self.columns, "V": self.vector}

    @property
    def options(self) -> dict[str, Any]:
        """What it is compiled with."""
        return {"num_warps": self.warps, "enable_fp_fusion": False}

    def grid(self, rows: int, columns: int) -> tuple[int]:
        """Programs that cover so many rows and columns."""
        return (ceil_div(rows, self.rows) * ceil_div(columns, self.columns),)


# The fastest on an H200 (docs/measurements.md), by orientation, and whether any treatment rotates
# or draws. A thread owns eight neighbours along rows, sixteen where these alone are rotated, or a
# block of sixteen rows of a few columns.
WIDE = Tile(4, 1024, 4)
LONG = Tile(2, 512, 1)
SMALL = Tile(4, 256, 1)
FLAT = Tile(4, 512, 2)
TALL = Tile(16, 128, 1, vector=4)
SHARED = Tile(16, 128, 2)
TILES = {
    ("row", False, False): WIDE,
    ("row", False, True): LONG,
    ("row", True, False): FLAT,
    ("row", True, True): SMALL,
    ("column", False, False): TALL,
    ("column", False, True): TALL,
    ("column", True, False): TALL,
    ("column", True, True): TALL,
    ("both", False, False): TALL,
    ("both", False, True): SHARED,
    ("both", True, False): SHARED,
    ("both", True, True): SHARED,
}
MOST_WARPS = 8


@lru_cache(maxsize=256)
def choose_tile(steps: tuple[Steps, ...]) -> Tile:
    """A fixed choice and no tuning at run time, so that every rank and rerun agrees."""
    return _grown(_tuned(steps, any(step.stochastic for step in steps)), steps)


@lru_cache(maxsize=256)
def choose_amax_tile(steps: tuple[Steps, ...]) -> Tile:
    """The same for the pass that takes a tensor's amax; what is not rotated fits any tile."""
    rotated = [step for step in steps if step.hadamard > 1]
    return _grown(_tuned(rotated or steps, False), steps)


def _tuned(steps: Sequence[Steps], stochastic: bool) -> Tile:
    rows, columns = _reach(steps)
    orientation = "row" if rows == 1 else "column" if columns == 1 else "both"
    return TILES[orientation, any(step.hadamard > 1 for step in steps), stochastic]


def _grown(base: Tile, steps: Sequence[Steps]) -> Tile:
    """A tile that holds what must lie in one, with more warps if it is larger."""
    rows, columns = _reach(steps)
    if rows <= base.rows and columns <= base.columns:
        return base
    rows = max(rows, base.rows)
    columns = max(columns, base.columns * base.rows // rows)
    growth = ceil_div(rows * columns, base.rows * base.columns)
    return replace(base, rows=rows, columns=columns, warps=min(base.warps * growth, MOST_WARPS))


def _reach(steps: Sequence[Steps]) -> tuple[int, ...]:
    return tuple(max(reach_of(step, axis) for step in steps) for axis in (0, 1))


def reach_of(steps: Steps, axis: int) -> int:
    """Rows (axis 0) or columns that must lie in one tile: a block, a transform, eight draws."""
    along = max(steps.hadamard, COLUMNS_PER_CALL if steps.stochastic else 1, *steps.block)
    return along if axis == steps.axis else steps.block[axis]
