"""The vendor's question: what does a uniform grid beside E2M1 cost, and what does it buy?"""

from __future__ import annotations

from collections.abc import Sequence

from reports.section import Section
from reports.sections.circuits import part_figure
from reports.select import names, of_kind
from reports.tables import pivot
from suites.rows import Row

JOINT = "+"  # in the name of a unit that does several grids


def section(rows: Sequence[Row]) -> Section:
    """Area and energy of units for one grid and for both; signal with and without rotation."""
    circuits = of_kind(rows, "circuit")
    joint = [name for name in names(circuits, "format") if JOINT in name]
    single = [grid for name in joint for grid in name.split(JOINT)]
    units = [row for row in circuits if str(row.config.get("format")) in (*joint, *single)]
    gained = pivot(
        "second-sqnr",
        "What does it buy in signal?",
        [row for row in of_kind(rows, "bias") if str(row.config.get("format")) in single],
        ("distribution", "hadamard"),
        "format",
        "sqnr_db",
        "SQNR without and with rotation. What it buys in loss is in The answer.",
    )
    costs = (
        part_figure(units, "area_um2", "second-area", "What does it cost in area?"),
        part_figure(units, "energy_fj_per_mac", "second-energy", "What does it cost in energy?"),
    )
    return Section(
        "second-grid",
        "A uniform grid beside E2M1",
        "One unit that multiplies either grid, block by block, beside units that do one.",
        tuple(part for part in (*costs, gained) if part) if joint else (),
        "--suite hardware --format e2m1 --format e1m2",
    )
