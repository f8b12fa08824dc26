"""What a dot-product unit costs in a cell library: area, delay, leakage, energy per operation.

A *design* is a grid (or several beside each other, one of them in use), a scale format and a number
of lanes. It has three parts that are synthesised one by one: ``dot`` (decode, product, exact sum),
``scale`` and ``accumulate`` (FP32). Every mapped netlist is first run against the integer model, on
all pairs of codes and on the streams; only then is it priced.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from pydantic import BaseModel, ConfigDict

from formats import ScaleFormat
from hwmodels.activity import Stream
from hwmodels.circuit import DotUnit
from hwmodels.circuit_shared import AccumulateUnit, ScaleUnit
from hwmodels.codebook import CodeBook
from hwmodels.liberty import Library
from hwmodels.netlist import Netlist
from hwmodels.power import switching_energy
from hwmodels.synthesis import Unit, synthesise
from hwmodels.timing import critical_path

ACCUMULATION_LENGTH = 64  # blocks that are added before an accumulator starts again at 0
Words = dict[str, list[int]]  # port -> one word per vector


@dataclass(frozen=True)
class Design:
    """A unit for one grid, or for several of which operands use number ``in_use``."""

    books: tuple[CodeBook, ...]
    scale: ScaleFormat
    lanes: int
    in_use: int = 0

    @property
    def book(self) -> CodeBook:
        """The grid in use."""
        return self.books[self.in_use]

    @property
    def parts(self) -> dict[str, Unit]:
        """The circuits it is made of."""
        dot = DotUnit(self.books, self.lanes)
        scale = ScaleUnit(dot.sum_bits, self.scale)
        return {"dot": dot, "scale": scale, "accumulate": AccumulateUnit.after(scale)}

    def drive(self, stream: Stream) -> tuple[dict[str, Words], dict[str, Words]]:
        """Inputs and expected outputs of each part, by the integer model."""
        dot = DotUnit(self.books, self.lanes)
        scale = ScaleUnit(dot.sum_bits, self.scale)
        accumulate = AccumulateUnit.after(scale)
        flags = (self.in_use, self.in_use)
        sums = [dot.expected(a, b, *flags) for a, b in zip(stream.a, stream.b, strict=True)]
        scaled = [
            scale.expected(*step)
            for step in zip(sums, stream.a_scales, stream.b_scales, strict=True)
        ]
        before: list[int] = []
        after: list[int] = []
        for index, (significand, exponent) in enumerate(scaled):
            restart = index % ACCUMULATION_LENGTH == 0
            before.append(0 if restart else after[-1])
            after.append(accumulate.expected(before[-1], significand, exponent))
        significands = _unsigned([value for value, _ in scaled], scale.significand_bits)
        exponents = [exponent for _, exponent in scaled]
        codes: Words = {"a": _pack_lanes(stream.a), "b": _pack_lanes(stream.b)}
        if dot.flag_bits:
            codes |= {f"{side}_flag": [self.in_use] * len(stream) for side in "ab"}
        summed = _unsigned(sums, dot.sum_bits)
        inputs = {
            "dot": codes,
            "scale": {"sum": summed, "a": [*stream.a_scales], "b": [*stream.b_scales]},
            "accumulate": {"acc": before, "significand": significands, "exponent": exponents},
        }
        outputs = {
            "dot": {"sum": summed},
            "scale": {"significand": significands, "exponent": exponents},
            "accumulate": {"result": after},
        }
        return inputs, outputs


class PartCost(BaseModel):
    """One part of a design in one library. Energy is per operation of the part (one block)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    unit: str
    element: str
    integers: tuple[int | None, ...]
    scale: str
    lanes: int
    part: str
    rtl: str
    area_um2: float
    delay_ps: float
    leakage_nw: float
    cells: int
    energy_fj: dict[str, float]
    vectors_checked: int


def rtl_hash(unit: Unit) -> str:
    """Identity of a circuit: the digest of its RTL."""
    return hashlib.sha256(unit.verilog.encode()).hexdigest()[:16]


def price(
    design: Design, library: Library, streams: Mapping[str, Stream], cache: dict[str, Netlist]
) -> list[PartCost]:
    """Synthesise, check and price the parts of a design.

    Args:
        streams: activity name -> stream; energies are given for each.
        cache: netlists of this library by RTL hash, filled as parts are synthesised.

    Raises:
        ValueError: the synthesis tool or the library's power tables are missing.
    """
    driven = {name: design.drive(stream) for name, stream in streams.items()}
    costs = []
    for part, unit in design.parts.items():
        rtl = rtl_hash(unit)
        if rtl not in cache:
            cache[rtl] = synthesise(unit, library)
        netlist = cache[rtl]
        checked = check_code_pairs(netlist, design) if part == "dot" else 0
        energies = {}
        for name, (inputs, outputs) in driven.items():
            count = len(streams[name])
            values = netlist.evaluate(inputs[part])
            for port, words in outputs[part].items():
                assert netlist.read(values, port, count) == words, f"{unit.name}: {port} differs"
            energies[name] = switching_energy(netlist, library, values, count)
            checked += count
        costs.append(
            PartCost(
                unit="+".join(book.name for book in design.books),
                element=design.book.name,
                integers=design.book.integers,
                scale=design.scale.name,
                lanes=design.lanes,
                part=part,
                rtl=rtl,
                area_um2=netlist.area,
                delay_ps=critical_path(netlist, library),
                leakage_nw=netlist.leakage,
                cells=len(netlist.instances),
                energy_fj=energies,
                vectors_checked=checked,
            )
        )
    return costs


def check_code_pairs(netlist: Netlist, design: Design) -> int:
    """Run all pairs of used codes through the netlist, each in every lane at once.

    Returns the number of vectors; a difference from the integer model is a fault of the generator.
    """
    codes = design.book.used_codes
    pairs = list(product(codes, codes))
    rows = [((a,) * design.lanes, (b,) * design.lanes) for a, b in pairs]
    zeros = (0,) * len(pairs)
    stream = Stream("pairs", tuple(a for a, _ in rows), tuple(b for _, b in rows), zeros, zeros)
    inputs, outputs = design.drive(stream)
    values = netlist.evaluate(inputs["dot"])
    assert netlist.read(values, "sum", len(pairs)) == outputs["dot"]["sum"], "a code pair differs"
    return len(pairs)


def _pack_lanes(rows: Sequence[Sequence[int]]) -> list[int]:
    return [sum(code << 4 * lane for lane, code in enumerate(row)) for row in rows]


def _unsigned(values: Sequence[int], bits: int) -> list[int]:
    return [value % (1 << bits) for value in values]
