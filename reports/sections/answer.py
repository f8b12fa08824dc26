"""The answer on one screen: what each recipe loses and costs, and what is not resolved."""

from __future__ import annotations

from collections.abc import Sequence

from reports.section import Figure, Json, Section, Sentence, Sentences
from reports.select import BASELINE, last_step, median, names, of_kind, quantities
from reports.style import Look, axis, looks, plain
from reports.table import Cell, Column, Table, common_unit, number_cell, text_cell
from reports.tables import COMPARISONS
from suites.rows import Quantity, Row

METRIC = "validation_loss"
RESOLVED = ("better", "worse")


def section(rows: Sequence[Row]) -> Section:
    """The verdicts in words, as a plot, and as a table beside quality and cost."""
    found = (statements(rows), unresolved(rows), answer_table(rows), verdict_figure(rows))
    return Section(
        "answer",
        "The answer",
        "What each recipe loses against high precision, how faithful its matrix products are, and "
        "what its format costs.",
        tuple(part for part in found if part),
        "--suite pretrain-small",
    )


def verdicts(rows: Sequence[Row]) -> list[Row]:
    """The comparisons of the headline metric, or all of them when none is of it."""
    found = of_kind(rows, "comparison")
    return [row for row in found if row.config.get("metric") == METRIC] or found


def statements(rows: Sequence[Row]) -> Sentences | None:
    """One sentence for each comparison that the budget resolved."""
    resolved = [row for row in verdicts(rows) if row.facts.get("verdict") in RESOLVED]
    items = tuple(_sentence(row) for row in resolved)
    return Sentences("Resolved", items) if items else None


def unresolved(rows: Sequence[Row]) -> Sentences | None:
    """What this budget cannot tell and why, and the runs that did not finish."""
    items: list[Sentence] = [
        (*_sentence(row), f" {str(row.facts.get('reason', 'no reason recorded')).capitalize()}.")
        for row in verdicts(rows)
        if row.facts.get("verdict") not in RESOLVED
    ]
    items += [
        (f"{row.config.get('recipe')}, seed {row.config.get('seed')}: {row.status}. {row.error}",)
        for row in of_kind(rows, "training")
        if row.status != "ok"
    ]
    return Sentences("Not resolved, or not finished", tuple(items)) if items else None


def _sentence(row: Row) -> Sentence:
    verdict = str(row.facts.get("verdict", "not compared"))
    link = "than" if verdict in RESOLVED else "against"
    return (
        f"{row.config.get('recipe')} is {verdict} {link} {row.config.get('baseline')}: loss ",
        number_cell(row.values.get("degradation_percent"), "+.2f"),
        f" %, interval {_interval(row)}.",
    )


def _interval(row: Row) -> str:
    low, high = (number_cell(row.values.get(name), "+.2f").text for name in ("ci_low", "ci_high"))
    return f"[{low}, {high}]"


def verdict_figure(rows: Sequence[Row]) -> Figure | None:
    """Loss degradation with its interval, one line per comparison."""
    drawn = [row for row in verdicts(rows) if row.quantity("degradation_percent").value is not None]
    if not drawn:
        return None
    look = looks(rows)
    return Figure(
        "verdicts",
        "How much loss does each recipe cost, and can this budget tell?",
        "Loss degradation in percent with its interval, one line per comparison.",
        [_interval_mark(row, look[str(row.config.get("recipe"))]) for row in drawn],
        {
            "height": 90 + 42 * len(drawn),
            "showlegend": False,
            "xaxis": axis("loss degradation", "%", zeroline=True),
            "yaxis": axis("", autorange="reversed"),
        },
        COMPARISONS.table(rows),
        "An interval that crosses zero resolves nothing; its marker is open.",
    )


def _interval_mark(row: Row, look: Look) -> Json:
    value, low, high = (
        row.quantity(name).value for name in ("degradation_percent", "ci_low", "ci_high")
    )
    assert value is not None
    verdict = row.facts.get("verdict")
    return {
        "type": "scatter",
        "mode": "markers",
        "x": [value],
        "y": [plain(f"{row.config.get('recipe')} against {row.config.get('baseline')}")],
        "error_x": {
            "type": "data",
            "symmetric": False,
            "array": [0 if high is None else high - value],
            "arrayminus": [0 if low is None else value - low],
            "color": look.colour,
            "thickness": 2,
            "width": 5,
        },
        "marker": look.marker(verdict in RESOLVED, 12),
        "text": [f"{plain(verdict)}: {value:+.2f} % {_interval(row)}"],
        "hoverinfo": "text",
    }


def answer_table(rows: Sequence[Row]) -> Table:
    """One line per recipe: verdict, quality, and the cost of its format on one device."""
    quality = of_kind(rows, "fidelity", operand="output")
    costs = _costs(rows)
    kinds = ("comparison", "training", "fidelity", "codesign")
    recipes = names([row for kind in kinds for row in of_kind(rows, kind)], "recipe")
    places = {
        "area": names(costs, "library"),
        "energy": names(costs, "library"),
        "step_time": names(costs, "device"),
    }
    columns = [
        Column("recipe"),
        Column("verdict"),
        Column("loss degradation", "%"),
        Column("interval", "%"),
        Column("gain"),
        Column("SQNR", "dB"),
        *(
            Column(
                f"{name.replace('_', ' ')}, {', '.join(place)}",
                common_unit(quantities(costs, name)),
            )
            for name, place in places.items()
        ),
    ]
    lines = tuple(_line(recipe, rows, last_step(quality), costs) for recipe in recipes)
    return Table(
        "answer",
        "Quality and cost per recipe",
        tuple(columns),
        lines,
        "Loss is of the validation text against bf16, seeds paired. Gain and SQNR are medians over "
        "layers, GEMMs and seeds of the GEMM outputs against FP32, at the last observed step.",
    ).without_empty_columns()


def _costs(rows: Sequence[Row]) -> list[Row]:
    """The co-design rows of the first device and library; the Pareto plots show the others."""
    found = of_kind(rows, "codesign")
    for key in ("device", "library"):
        first = names(found, key)[:1]
        found = [row for row in found if key not in row.config or [str(row.config[key])] == first]
    return found


def _line(
    recipe: str, rows: Sequence[Row], quality: list[Row], costs: list[Row]
) -> tuple[Cell, ...]:
    against = [
        row
        for row in verdicts(rows)
        if row.config.get("recipe") == recipe and row.config.get("baseline") == BASELINE
    ]
    observed = [row for row in quality if row.config.get("recipe") == recipe]
    cost = [row for row in costs if row.config.get("recipe") == recipe]

    def middle(found: list[Row], name: str) -> Quantity | None:
        return median(quantities(found, name))

    return (
        text_cell(recipe),
        text_cell(against[0].facts.get("verdict") if against else _without_verdict(recipe, rows)),
        number_cell(middle(against, "degradation_percent"), "+.2f"),
        text_cell(_interval(against[0]) if against else None),
        number_cell(middle(observed, "gain"), ".4f"),
        number_cell(middle(observed, "sqnr_db"), ".2f"),
        *(number_cell(middle(cost, name)) for name in ("area", "energy", "step_time")),
    )


def _without_verdict(recipe: str, rows: Sequence[Row]) -> str:
    """Why a recipe has no verdict against the baseline."""
    if recipe == BASELINE:
        return "baseline"
    ends = {row.status for row in of_kind(rows, "training", recipe=recipe)}
    return "not compared" if not ends or "ok" in ends else " and ".join(sorted(ends))
