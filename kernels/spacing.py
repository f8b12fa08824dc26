"""Rounding without a table, to grids whose neighbours are a power of two apart.

Neighbours of a magnitude m are max(finest, relative * 2^floor(log2 m)) apart: on a uniform grid
always the finest, on a minifloat 2^-mantissa times m's power of two, from the subnormals on. Half
to even is then half to the even code, if a uniform grid is evenly coded; a minifloat is, as long as
it has a mantissa bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from formats import Grid, ScaleRule

EXPONENT_FIELD = 0x7F800000
# Finer than this, and reciprocals of the spacing or products with it would leave FP32's normals.
FINEST = 2.0**-100


@dataclass(frozen=True)
class Spacing:
    """A symmetric grid by its largest magnitude and the distance of its neighbours."""

    limit: float
    finest: float
    relative: float

    @classmethod
    @cache
    def of(cls, grid: Grid) -> Spacing | None:
        """None for a grid that only its table describes."""
        if grid.is_evenly_coded:
            assert grid.step is not None
            found = cls(grid.max, grid.step, 0.0)
        elif grid.float_spec is not None and grid.float_spec.mantissa:
            spec = grid.float_spec
            found = cls._of_float(grid.max, spec.min_exponent, spec.mantissa)
        else:
            return None
        return found if found.finest >= FINEST and found.limit <= 1.0 / FINEST else None

    @classmethod
    @cache
    def of_scale(cls, rule: ScaleRule) -> Spacing:
        """The same for stored scales that are minifloats."""
        assert rule.format.kind == "minifloat"
        return cls._of_float(rule.max, 1 - rule.format.bias, rule.format.mantissa)

    @classmethod
    def _of_float(cls, limit: float, min_exponent: int, mantissa: int) -> Spacing:
        return cls(limit, 2.0 ** (min_exponent - mantissa), 2.0**-mantissa)

    def round(self, t: Tensor, bits16: Tensor | None = None) -> Tensor:
        """Grid values of FP32 t, rounded as in ``reference``."""
        magnitude = t.abs().clamp(max=self.limit)
        binade = (magnitude.view(torch.int32) & EXPONENT_FIELD).view(torch.float32)
        step = (binade * self.relative).clamp(min=self.finest)
        position = magnitude / step
        if bits16 is None:
            return torch.copysign(position.round() * step, t)
        low = position.floor()
        up = bits16.float() + 0.5 < (position - low) * 65536.0
        return torch.copysign((low + up) * step, t)
