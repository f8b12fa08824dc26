"""Silicon: area by part of generated circuits, and of the published gate-count model."""

from __future__ import annotations

from collections.abc import Sequence

from reports.labels import label
from reports.section import Figure, Json, Section
from reports.select import grouped, middles, names, of_kind, quantities
from reports.style import COLOURS, axis, in_panel, panels, plain
from reports.table import common_unit
from reports.tables import AREA, CIRCUITS, pivot
from suites.rows import Row

TOTAL = "total"
PATTERNS = ("", "/", ".", "x", "-", "\\", "+", "|")


def section(rows: Sequence[Row]) -> Section:
    """Area by part per library, every part in a table, and the second model of area."""
    figure = part_figure(
        of_kind(rows, "circuit"), "area_um2", "circuit-area", "Which part takes the area?"
    )
    found = (figure, CIRCUITS.table(rows), AREA.table(rows))
    return Section(
        "circuits",
        "Circuits",
        "Dot-product units generated from each format's own grid, checked against the emulator on "
        "the netlist after synthesis. What all formats share, scales and FP32 accumulation, is a "
        "part of its own.",
        tuple(part for part in found if part),
        "--suite hardware",
    )


def part_figure(found: Sequence[Row], quantity: str, id: str, title: str) -> Figure | None:
    """Stacked bars, one panel per library; a total that rows give is left to the table."""
    parts = [row for row in found if row.config.get("part") != TOTAL]
    if not quantities(parts, quantity):
        return None
    libraries = names(parts, "library") or [""]
    layout = panels(
        libraries,
        axis(label(quantity).title, common_unit(quantities(parts, quantity))),
        axis("", autorange="reversed"),
        height=140 + 40 * len(names(parts, "format")),
        share="y",
    )
    shown = names(parts, "part")
    data = [
        _bars(part, group, quantity, shown.index(part), libraries.index(library))
        for (library, part), group in grouped(parts, "library", "part").items()
    ]
    return Figure(
        id,
        title,
        f"{label(quantity).title} of each part of each unit, one panel per library.",
        data,
        {**layout, "barmode": "stack", "bargap": 0.45},
        pivot(
            id,
            f"{label(quantity).title} by part",
            found,
            ("library", "part"),
            "format",
            quantity,
        ),
    )


def _bars(part: str, group: Sequence[Row], quantity: str, index: int, panel: int) -> Json:
    formats = grouped(group, "format")
    return {
        "type": "bar",
        "orientation": "h",
        "name": plain(part),
        "legendgroup": plain(part),
        "showlegend": panel == 0,
        "y": [plain(name) for (name,) in formats],
        "x": middles(formats.values(), quantity),
        "marker": {
            "color": COLOURS[index % len(COLOURS)],
            "pattern": {
                "shape": PATTERNS[index % len(PATTERNS)],
                "fillmode": "overlay",
                "fgcolor": "rgba(255,255,255,0.55)",
                "size": 7,
            },
        },
        **in_panel(panel),
    }
