"""Pareto plots: what is lost in quality against what is paid in area, energy and time."""

from __future__ import annotations

from collections.abc import Sequence

from reports.labels import label
from reports.section import Figure, Json, Section
from reports.select import names, of_kind, quantities
from reports.style import Look, axis, in_panel, looks, panels, plain
from reports.table import common_unit, number_cell
from reports.tables import CODESIGN
from suites.rows import Row

QUESTIONS = {
    "area": ("library", "Who gives the most quality per area?"),
    "energy": ("library", "Who gives the most quality per joule?"),
    "step_time": ("device", "Who gives the most quality per second?"),
}


def section(rows: Sequence[Row]) -> Section:
    """A plot per cost, with a panel per library or device."""
    found = of_kind(rows, "codesign")
    figures = (pareto_figure(found, cost, looks(rows)) for cost in QUESTIONS)
    return Section(
        "pareto",
        "Quality against cost",
        "Down and to the left is better. Filled points are on the front: nothing else is better in "
        "both.",
        tuple(figure for figure in figures if figure),
        "--suite codesign",
    )


def pareto_figure(found: Sequence[Row], cost: str, look: dict[str, Look]) -> Figure | None:
    """Loss degradation (or, where no loss is known, SQNR) over one cost."""
    place, title = QUESTIONS[cost]
    quality = "loss_degradation" if quantities(found, "loss_degradation") else "sqnr_db"
    drawn = [row for row in found if _has(row, cost) and _has(row, quality)]
    if not drawn:
        return None
    places = names(drawn, place) or [""]
    layout = panels(
        places,
        axis(label(cost).title, common_unit(quantities(drawn, cost))),
        axis(label(quality).title, common_unit(quantities(drawn, quality))),
        height=380,
        shared=False,
    )
    return Figure(
        f"pareto-{cost}",
        title,
        f"{label(quality).title} of each format and recipe over {label(cost).title}; the table "
        "says which are on the Pareto front.",
        [
            _point(row, cost, quality, look, places.index(str(row.config.get(place, ""))))
            for row in drawn
        ],
        {**layout, "showlegend": False},
        CODESIGN.table(drawn),
    )


def _has(row: Row, name: str) -> bool:
    return row.quantity(name).value is not None


def _point(row: Row, cost: str, quality: str, look: dict[str, Look], panel: int) -> Json:
    name = str(row.config.get("recipe") or row.config.get("format"))
    facts = [f"{key} {value}" for key, value in row.config.items()]
    for key, found in row.values.items():
        text = number_cell(found, label(key).style).text
        facts.append(f"{label(key).title} {text} {found.unit} ({found.origin})")
    return {
        "type": "scatter",
        "mode": "markers+text",
        "x": [row.quantity(cost).value],
        "y": [row.quantity(quality).value],
        "text": [plain(name)],
        "textposition": "top center",
        "hovertext": ["<br>".join(plain(fact) for fact in facts)],
        "hoverinfo": "text",
        "marker": look[name].marker(bool(row.facts.get("on_front")), 12),
        "cliponaxis": False,
        **in_panel(panel),
    }
