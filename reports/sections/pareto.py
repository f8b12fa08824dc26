"""Pareto plots: what is lost in quality against what is paid in area, energy and time."""

from __future__ import annotations

from collections.abc import Sequence

from reports.labels import label
from reports.section import Figure, Json, Section
from reports.select import names, of_kind, quantities
from reports.style import Look, axis, axis_range, axis_title, in_panel, looks, panels, plain
from reports.table import common_unit, number_cell
from reports.tables import CODESIGN
from suites.rows import Row

COSTS = {"area": "library", "energy": "library", "step_time": "device"}


def section(rows: Sequence[Row]) -> Section:
    """Plots of the first library and device; the table has all of them."""
    found = of_kind(rows, "codesign")
    figure = pareto_figure(found, looks(rows))
    return Section(
        "pareto",
        "Quality against cost",
        "Filled points are on the Pareto front: nothing else is better in both quality and cost.",
        (figure, CODESIGN.table(found)) if figure else (),
        "--suite codesign",
    )


def first_place(found: Sequence[Row], cost: str) -> list[Row]:
    """The rows with that cost, of the first library and the first device that have it."""
    priced = [row for row in found if row.quantity(cost).value is not None]
    for place in ("library", "device"):
        first = names(priced, place)[:1]
        priced = [row for row in priced if names([row], place) in ([], first)]
    return priced


def place_of(found: Sequence[Row], cost: str) -> str:
    """The cost and the library or device it is of, as a heading."""
    return ", ".join([label(cost).title, *names(first_place(found, cost), COSTS[cost])])


def pareto_figure(found: Sequence[Row], look: dict[str, Look]) -> Figure | None:
    """Loss degradation (or, where no loss is known, SQNR) over each cost."""
    losses = quantities(found, "loss_degradation")
    quality = "loss_degradation" if any(q.value is not None for q in losses) else "sqnr_db"
    judged = [row for row in found if row.quantity(quality).value is not None]
    costs = [cost for cost in COSTS if first_place(judged, cost)]
    if not costs:
        return None
    unit = common_unit(quantities(judged, quality))
    layout = panels(
        [place_of(judged, cost) for cost in costs],
        axis(""),
        axis(label(quality).title, unit),
        height=400,
        share="y",
    )
    for i, cost in enumerate(costs):
        priced = first_place(judged, cost)
        axis_title(layout, i, label(cost).title, common_unit(quantities(priced, cost)))
        axis_range(layout, i, [v for q in quantities(priced, cost) if (v := q.value) is not None])
    better = "Down and to the left" if quality == "loss_degradation" else "Up and to the left"
    return Figure(
        "pareto",
        "What does quality cost in area, energy and time?",
        f"{label(quality).title} of each format and recipe over each cost; the table says which "
        "are on the Pareto front.",
        [
            _point(row, cost, quality, look, i)
            for i, cost in enumerate(costs)
            for row in first_place(judged, cost)
        ],
        {**layout, "showlegend": False},
        CODESIGN.table(judged),
        f"{better} is better. Points carry no interval: whether two losses can be told apart is in "
        "The answer.",
    )


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
