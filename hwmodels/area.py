"""Area by counting gates: the published model of "INT v.s. FP" (arXiv:2510.25602, appendix C).

A k-lane unit is a sum of cells (its Table 6; x exponent bits, y mantissa bits, x = 0 for integers):

    multiplier            INT k (x+y+1)^2   FP k (y+1)^2     AND, full and half adders
    adder                 INT 2k (x+y+1)    FP k n           full adders
    exponent adder        FP k x                             full adders
    exponent subtractor   FP k x                             XOR, full adders
    comparator            FP k x                             XOR, AND, OR
    aligner               FP k n log2 n                      MUX
    normaliser            FP n log2 n, shared                MUX, OR
    n = min(2^(x+1) + 2y, 24)

plus, shared by the lanes, a dequantiser (two 8-bit adds for E8M0, two multiplications by an E4M3
scale) and an FP32 accumulator, whose cells follow from the same rows with x = 8, n = 24.
Combinational cells only, no quantiser, no wires.

The paper's cell factors are unpublished. Two sets are used (data/cells.yaml): *fitted* ones, chosen
so that its Table 5 comes out, which proves no more than that the equations can carry it; and the
factors of an open library, which is a prediction. How a multiplier's array splits into full and
half adders, and how wide the dequantiser's product is, are not in the text either: here n x m bits
take nm AND, n(m-2) full and n half adders, and the scale multiplies a 24-bit significand.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import Field

from formats import BlockFormat, ScaleFormat
from formats.scale import E4M3_SCALE, E8M0_SCALE
from formats.schema import Record
from formats.yamlfile import load_yaml

CELLS = Path(__file__).parent / "data" / "cells.yaml"
PSUM_BITS = 24
FP32_EXPONENT_BITS = 8
MODEL = "gate-count 2510.25602"

# Normalised to MXFP8 (arXiv:2510.25602 Table 5).
TABLE_5: dict[str, dict[str, float]] = {
    "area": {"MXINT8": 0.79, "NVFP4": 0.54, "NVINT4": 0.38, "MXINT8+NVINT4": 0.66},
    "energy": {"MXINT8": 0.63, "NVFP4": 0.55, "NVINT4": 0.34, "MXINT8+NVINT4": 0.75},
}


class CellFactors(Record):
    """Cost of each cell relative to a full adder."""

    full_adder: float
    half_adder: float
    and_: float = Field(alias="and")
    or_: float = Field(alias="or")
    xor: float
    mux: float
    source: str
    date: str
    quality: Literal["derived"]


class CellTable(Record):
    """Named sets of factors for area and for energy."""

    area: dict[str, CellFactors]
    energy: dict[str, CellFactors]


@dataclass(frozen=True)
class Cells:
    """A number of cells of each kind."""

    full_adder: float = 0.0
    half_adder: float = 0.0
    and_: float = 0.0
    or_: float = 0.0
    xor: float = 0.0
    mux: float = 0.0

    def __add__(self, other: Cells) -> Cells:
        return Cells(*(a + b for a, b in zip(self._counts, other._counts, strict=True)))

    def __mul__(self, factor: float) -> Cells:
        return Cells(*(count * factor for count in self._counts))

    @property
    def _counts(self) -> tuple[float, ...]:
        return (self.full_adder, self.half_adder, self.and_, self.or_, self.xor, self.mux)

    def cost(self, factors: CellFactors) -> float:
        """The cells' cost in full adders."""
        return (
            self.full_adder * factors.full_adder
            + self.half_adder * factors.half_adder
            + self.and_ * factors.and_
            + self.or_ * factors.or_
            + self.xor * factors.xor
            + self.mux * factors.mux
        )


@dataclass(frozen=True)
class GateUnit:
    """A dot-product unit of the published model, of one element and scale format."""

    exponent: int  # 0 for integers
    mantissa: int
    lanes: int
    scale: ScaleFormat
    multiplier_bits: tuple[int, int] | None = field(default=None)  # other than the element's own

    @property
    def aligned_bits(self) -> int:
        """Width n of the aligned products (equation 44)."""
        return int(min(2 ** (self.exponent + 1) + 2 * self.mantissa, PSUM_BITS))

    @property
    def lane(self) -> Cells:
        """Cells of one lane."""
        if not self.exponent:
            bits = self.multiplier_bits or (self.mantissa + 1, self.mantissa + 1)
            return multiplier(*bits) + Cells(full_adder=sum(bits))
        significand = self.mantissa + 1
        return multiplier(significand, significand) + _float_add(self.exponent, self.aligned_bits)

    @property
    def shared(self) -> Cells:
        """Cells that all lanes share: normaliser, dequantiser, FP32 accumulator."""
        normaliser = _normaliser(self.aligned_bits) if self.exponent else Cells()
        accumulator = _float_add(FP32_EXPONENT_BITS, PSUM_BITS, exponent_adder=False) + _normaliser(
            PSUM_BITS
        )
        return normaliser + dequantiser(self.scale) + accumulator

    @property
    def per_lane(self) -> Cells:
        """A lane with its share of what is shared."""
        return self.lane + self.shared * (1 / self.lanes)


def multiplier(rows: int, columns: int) -> Cells:
    """An array multiplier of rows x columns bits."""
    adders = rows * max(columns - 2, 0)
    return Cells(full_adder=adders, half_adder=rows, and_=rows * columns)


def dequantiser(scale: ScaleFormat) -> Cells:
    """Applies both operands' block scales; the paper has E8M0 and E4M3 only."""
    if scale.kind == "power-of-two":
        return Cells(full_adder=2 * scale.bits)
    product = multiplier(PSUM_BITS, scale.mantissa + 1) + Cells(full_adder=FP32_EXPONENT_BITS)
    return product * 2


def gate_unit(fmt: BlockFormat) -> GateUnit:
    """The published model's unit for a format.

    Raises:
        ValueError: high precision, or a code book that is neither a minifloat nor an integer.
    """
    grid, scale = fmt.element, fmt.scale
    if grid is None or scale is None:
        raise ValueError(
            f"format '{fmt.name}' is high precision: the gate-count model has no unit for it"
        )
    if grid.float_spec is None and (grid.sign_magnitude or not grid.is_uniform):
        raise ValueError(
            f"format '{fmt.name}' is a free code book: the published gate-count model knows "
            "minifloats and integers only"
        )
    spec = grid.float_spec
    exponent, mantissa = (spec.exponent, spec.mantissa) if spec else (0, grid.bits - 1)
    return GateUnit(exponent, mantissa, fmt.block[1], scale.format)


def normalised(fmt: BlockFormat, metric: str, factors: str) -> float:
    """Area or energy per lane relative to MXFP8, at equal throughput.

    Args:
        metric: "area" or "energy".
        factors: name of a set of cell factors.
    """
    table = cell_factors(metric)[factors]
    return gate_unit(fmt).per_lane.cost(table) / MXFP8.per_lane.cost(table)


def table_5(metric: str, factors: str) -> dict[str, float]:
    """The ratios of the paper's Table 5 as this model gives them.

    The combined columns reuse hardware at 8-bit : 4-bit throughput 1 : 2 (its Table 7): FP one E4M3
    and one E2M1 lane, INT two lanes that multiply 8 by 4 bits. Which lanes burn energy in which
    mode is not stated; one operation in each mode is counted.
    """
    table = cell_factors(metric)[factors]

    def cost(cells: Cells) -> float:
        return cells.cost(table)

    base = cost(MXFP8.per_lane)
    half = GateUnit(0, 7, 32, E8M0_SCALE, multiplier_bits=(8, 4))
    shared_int = half.shared * (1 / half.lanes)
    shared_four = NVINT4.shared * (1 / NVINT4.lanes)
    float_four = NVFP4.shared * (1 / NVFP4.lanes)
    if metric == "area":
        integer = cost(half.lane * 2 + shared_int + shared_four)
        floating = cost(MXFP8.per_lane + NVFP4.lane + float_four)
    else:
        integer = cost(half.lane * 4 + shared_int + shared_four * 2)
        floating = cost(MXFP8.per_lane + MXFP8.lane + NVFP4.lane + float_four * 2)
    return {
        "MXINT8": cost(MXINT8.per_lane) / base,
        "NVFP4": cost(NVFP4.per_lane) / base,
        "NVINT4": cost(NVINT4.per_lane) / base,
        "MXINT8+NVINT4": integer / floating,
    }


@cache
def _cell_table() -> CellTable:
    return load_yaml(CELLS, CellTable)


def cell_factors(metric: str) -> dict[str, CellFactors]:
    """The sets of factors for "area" or "energy"."""
    table = _cell_table()
    return table.area if metric == "area" else table.energy


def _float_add(exponent: int, bits: int, exponent_adder: bool = True) -> Cells:
    """Adder, exponent adder, exponent subtractor, comparator and aligner of one lane."""
    return Cells(
        full_adder=bits + exponent * (2 if exponent_adder else 1),
        xor=2 * exponent,
        and_=exponent,
        or_=exponent,
        mux=bits * math.log2(bits),
    )


def _normaliser(bits: int) -> Cells:
    stages = bits * math.log2(bits)
    return Cells(mux=stages, or_=stages)


MXFP8 = GateUnit(4, 3, 32, E8M0_SCALE)
MXINT8 = GateUnit(0, 7, 32, E8M0_SCALE)
NVFP4 = GateUnit(2, 1, 16, E4M3_SCALE)
NVINT4 = GateUnit(0, 3, 16, E4M3_SCALE)
