"""What a random Hadamard rotation does to a grid: gain and SQNR without and with it."""

from __future__ import annotations

from collections.abc import Sequence

from reports.labels import label
from reports.section import Figure, Json, Section
from reports.select import grouped, middles, names, of_kind, quantities
from reports.style import Look, axis, in_panel, looks, panels, plain, reference
from reports.table import common_unit
from reports.tables import BIAS
from suites.rows import Row

PLAIN = ("none", "None", "0", "")
QUESTIONS = {
    "sqnr_db": "Which grid gains signal from rotation, and which loses it?",
    "gain": "Does rotation cure shrinkage?",
}


def section(rows: Sequence[Row]) -> Section:
    """SQNR and gain per distribution, from without rotation to with it."""
    found = of_kind(rows, "bias")
    nearest = [row for row in found if row.config.get("rounding", "nearest") == "nearest"]
    figures = [rotation_figure(nearest, name, looks(rows)) for name in QUESTIONS]
    return Section(
        "rotation",
        "With and without rotation",
        "Formats on known distributions. A rotation spreads outliers over a block, which suits "
        "evenly spaced levels and takes from E2M1 what its fine levels near zero had won.",
        tuple(part for part in figures if part),
        "--suite bias",
    )


def rotation_figure(found: Sequence[Row], quantity: str, look: dict[str, Look]) -> Figure | None:
    """One panel per distribution, one line per format: open without, filled with rotation."""
    if not quantities(found, quantity):
        return None
    distributions = names(found, "distribution")
    data = [
        _step(fmt, group, quantity, look[fmt], distributions.index(distribution))
        for (distribution, fmt), group in grouped(found, "distribution", "format").items()
    ]
    layout = panels(
        distributions,
        axis(label(quantity).title, common_unit(quantities(found, quantity))),
        axis("", autorange="reversed"),
        height=150 + 34 * len(names(found, "format")),
    )
    if quantity == "gain":
        layout["shapes"] = reference(1, len(distributions))
    return Figure(
        f"rotation-{quantity}",
        QUESTIONS[quantity],
        f"{label(quantity).title} of each format without and with Hadamard rotation, one panel per "
        "distribution.",
        data,
        {**layout, "showlegend": False},
        BIAS.table(found),
        "Open: no rotation. Filled: the Hadamard sizes tried, each with its size on hover.",
    )


def _step(fmt: str, group: Sequence[Row], quantity: str, look: Look, panel: int) -> Json:
    sizes = grouped(group, "hadamard")
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": plain(fmt),
        "x": middles(sizes.values(), quantity),
        "y": [plain(fmt)] * len(sizes),
        "text": [plain(f"{fmt}, Hadamard {size or 'none'}") for (size,) in sizes],
        "hoverinfo": "text+x",
        "line": {"color": look.colour, "width": 2},
        "marker": {
            **look.marker(size=11),
            "symbol": [
                f"{look.symbol}-open" if size in PLAIN else look.symbol for (size,) in sizes
            ],
        },
        **in_panel(panel),
    }
