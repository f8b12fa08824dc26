"""Conformance vectors hold what they promise: scales of 1, ties and neighbours, all that is odd."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from formats import load_format
from suites.vectors import format_record, vectors
from tests.numerics.library import QUANTISED, facts_of
from tests.numerics.referee import draw, judge

SECTIONS = {
    "levels-max", "ties-max", "levels-binade", "ties-binade", "scale-steps", "zero-tensor",
    "zero-block", "subnormal", "underflow", "largest", "non-finite",
    *(f"random-{n}" for n in range(4)),
}  # fmt: skip


def of(name: str, rounding: str) -> dict[str, dict[str, Any]]:
    found = [v for v in vectors(load_format(name)) if v["rounding"] == rounding]
    return {vector["id"].split("/")[2]: vector for vector in found}


@pytest.mark.parametrize("name", ["e2m1", "nvfp4", "mxfp8", "nvfp4-2d"])
def test_every_format_has_every_section(name: str) -> None:
    assert set(of(name, "nearest")) == set(of(name, "stochastic")) == SECTIONS
    assert len({vector["id"] for vector in vectors(load_format(name))}) == 2 * len(SECTIONS)


@pytest.mark.parametrize(
    "name", [n for n in QUANTISED if n not in ("mxfp4-ceil", "nvfp4-headroom")]
)
def test_ties_are_ties_under_a_scale_of_one(name: str) -> None:
    """So that all codes are reached, and a rounding that is off by a tie is caught."""
    fmt = load_format(name)
    assert fmt.element is not None
    codes = {int(code, 16) for code in of(name, "nearest")["levels-max"]["codes"]}
    used = {code for code, value in enumerate(fmt.element.decode_table) if value == value}
    assert used - codes <= {fmt.element.negative_zero_code}


@pytest.mark.parametrize("name", ["e2m1", "int4", "nvfp4", "four-over-six", "mxfp4-even"])
@pytest.mark.parametrize("rounding", ["nearest", "stochastic"])
def test_the_referee_gives_the_same_answers(name: str, rounding: str) -> None:
    facts = facts_of(load_format(name))
    for vector in of(name, rounding).values():
        rows, columns = vector["shape"]
        flat = [struct.unpack(">f", bytes.fromhex(bits))[0] for bits in vector["input"]]
        bits16 = None
        if rounding == "stochastic":
            given = [int(bits, 16) for bits in vector["random_bits"]]
            bits16 = [given[row * columns :][:columns] for row in range(rows)]
        verdict = judge([flat[row * columns :][:columns] for row in range(rows)], facts, (), bits16)
        codes = [f"{code:x}" for row in verdict.codes for code in row]
        assert codes == vector["codes"], vector["id"]


def test_random_bits_are_those_of_philox() -> None:
    vector = of("e2m1", "stochastic")["levels-max"]
    expected = [f"{draw(20606, 0, 0, 0, column):04x}" for column in range(vector["shape"][1])]
    assert vector["random_bits"] == expected


def test_the_format_record_has_the_facts() -> None:
    record = format_record(load_format("nvfp4"))
    assert record["facts"]["decode_table"][7] == (6.0).hex()
    assert record["digest"] == load_format("nvfp4").digest
