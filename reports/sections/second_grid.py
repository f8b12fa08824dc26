"""The vendor's question: what does a uniform grid beside E2M1 cost, and what does it buy?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from reports.section import Section, Sentence, Sentences
from reports.sections.circuits import part_figure
from reports.select import names, of_kind
from reports.table import Cell, number_cell
from reports.tables import pivot
from suites.rows import Row

JOINT = "+"  # in the name of a unit that does several grids: "e2m1+e1m2 as e1m2"
USE = " as "
SAME_SCALES = ("nvfp4", "nve1m2", "nvint4")  # units for one grid that share the joint unit's scales


def section(rows: Sequence[Row]) -> Section:
    """Area and energy of units for one grid and for both; signal with and without rotation."""
    circuits = of_kind(rows, "circuit")
    joint = [name for name in names(circuits, "format") if JOINT in name]
    single = dict.fromkeys(grid for name in joint for grid in name.split(USE)[0].split(JOINT))
    units = [row for row in circuits if row.config.get("format") in (*SAME_SCALES, *joint)]
    gained = pivot(
        "second-sqnr",
        "What does it buy in signal?",
        [row for row in of_kind(rows, "bias") if row.config.get("format") in single],
        ("distribution", "hadamard"),
        "format",
        "sqnr_db",
        "SQNR without and with rotation. What it buys in loss is in The answer.",
    )
    found = (
        added_area(units),
        part_figure(units, "area_um2", "second-area", "What does it cost in area?"),
        part_figure(units, "energy_fj_per_mac", "second-energy", "What does it cost in energy?"),
        gained,
    )
    return Section(
        "second-grid",
        "A uniform grid beside E2M1",
        "A unit that multiplies either grid, block by block, beside units for one grid.",
        tuple(part for part in found if part) if joint else (),
        "--suite hardware",
    )


def added_area(units: Sequence[Row]) -> Sentences | None:
    """In words, how much larger each joint unit is than one for E2M1 alone, by library."""
    added: dict[str, dict[str, Cell]] = {}
    for row in units:
        if "added_area_percent" in row.values:
            unit = str(row.config.get("format")).split(USE)[0]
            cell = number_cell(row.values["added_area_percent"], ".1f")
            added.setdefault(unit, {})[str(row.config.get("library"))] = cell
    sentences = tuple(_sentence(unit, found) for unit, found in added.items())
    return Sentences("In short", sentences) if sentences else None


def _sentence(unit: str, added: Mapping[str, Cell]) -> Sentence:
    pieces: list[str | Cell] = [f"A unit for {unit} is larger than one for E2M1 alone by"]
    for library, cell in added.items():
        pieces += [", " if len(pieces) > 1 else " ", cell, f" % ({library})"]
    return (*pieces, ".")
