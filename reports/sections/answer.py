"""The answer on one screen: what each recipe loses and costs, and what is not resolved."""

from __future__ import annotations

from collections.abc import Sequence

from reports.section import Figure, Json, Section, Sentence, Sentences
from reports.sections.pareto import COSTS, first_place, place_of
from reports.select import baselines, fidelity_summary, median, names, of_kind, quantities
from reports.style import Look, axis, looks, plain
from reports.table import ABSENT, Cell, Column, Table, common_unit, number_cell, text_cell
from reports.tables import COMPARISONS
from suites.rows import Row

METRIC = "validation_loss"
RESOLVED = ("better", "worse")
MOST_PAIRS = 8


def section(rows: Sequence[Row]) -> Section:
    """The verdicts in words, as a table beside quality and cost, and as a plot."""
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
    """The comparisons of the headline metric: against the baseline, and of other pairs.

    If those are many, only the ones against the first recipe of the run, its reference, are kept.
    """
    found, against = headline(rows), against_baseline(rows)
    others = [row for row in found if row not in against]
    if len(others) > MOST_PAIRS:
        reference = others[0].config.get("baseline")
        others = [row for row in others if row.config.get("baseline") == reference]
    return against + others


def headline(rows: Sequence[Row]) -> list[Row]:
    """All comparisons of the headline metric; those by other estimates of the loss are in CSV."""
    found = of_kind(rows, "comparison")
    return [row for row in found if row.config.get("metric") == METRIC] or found


def against_baseline(rows: Sequence[Row]) -> list[Row]:
    """Those of them that compare with the baseline."""
    return [row for row in headline(rows) if row.config.get("baseline") in baselines(rows)]


def statements(rows: Sequence[Row]) -> Sentences | None:
    """One sentence for each comparison that the budget resolved."""
    found = verdicts(rows)
    items = tuple(_sentence(row) for row in found if row.facts.get("verdict") in RESOLVED)
    nothing: tuple[Sentence, ...] = (("No comparison of losses is resolved at this budget.",),)
    return Sentences("Resolved", items or nothing) if found else None


def _sentence(row: Row) -> Sentence:
    verdict, recipe, other = row.facts["verdict"], row.config["recipe"], row.config["baseline"]
    if row.quantity("degradation_percent").value is None:
        return (f"{recipe} is {verdict} than {other}: {row.facts.get('reason')}.",)
    return (f"{recipe} is {verdict} than {other}: ", *_change(row), ".")


def _change(row: Row) -> Sentence:
    """The degradation and its interval."""
    return (number_cell(row.values.get("degradation_percent"), "+.2f"), " % loss, ", interval(row))


def interval(row: Row) -> Cell:
    """The confidence interval of a comparison as one cell; without one, why."""
    low, high = row.quantity("ci_low"), row.quantity("ci_high")
    if low.value is None or high.value is None:
        return Cell("no interval", note=low.note)
    text = f"[{low.value:+.2f}, {high.value:+.2f}]"
    return Cell(text, text, low.origin)


def unresolved(rows: Sequence[Row]) -> Sentences | None:
    """What this budget cannot tell, by reason, and what did not finish."""
    reasons: dict[str, list[Row]] = {}
    for row in verdicts(rows):
        if row.facts.get("verdict") not in RESOLVED:
            reasons.setdefault(str(row.facts.get("reason", "no reason recorded")), []).append(row)
    items = [_not_told(reason, found) for reason, found in reasons.items()]
    items += [
        (f"{_run_name(row)} {row.status}: {row.error or 'no reason recorded'}.",)
        for row in rows
        if row.status != "ok" and row.kind in ("training", "cell")
    ]
    return Sentences("Not resolved, or not finished", tuple(items)) if items else None


def _not_told(reason: str, found: Sequence[Row]) -> Sentence:
    """Pairs with their figures, or by name only where those would be a wall of numbers."""
    if len(found) > MOST_PAIRS:
        others = dict.fromkeys(str(row.config.get("baseline")) for row in found)
        named = {
            other: [str(r.config.get("recipe")) for r in found if r.config.get("baseline") == other]
            for other in others
        }
        lists = "; ".join(f"{', '.join(each)} against {other}" for other, each in named.items())
        return (f"{lists}: {reason}.",)
    pieces: list[str | Cell] = []
    for row in found:
        link = "; " if pieces else ""
        pieces += [f"{link}{row.config.get('recipe')} against {row.config.get('baseline')}"]
        if row.quantity("degradation_percent").value is not None:
            pieces += [" ", *_change(row)]
    return (*pieces, f": {reason}.")


def _run_name(row: Row) -> str:
    if "label" in row.config:
        return str(row.config["label"])
    return f"{row.config.get('recipe')}, seed {row.config.get('seed')},"


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
        COMPARISONS.table(headline(rows)),
        "Open markers are not resolved: the interval includes zero, or there is none.",
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
            "visible": low is not None,
            "type": "data",
            "symmetric": False,
            "array": [0 if high is None else high - value],
            "arrayminus": [0 if low is None else value - low],
            "color": look.colour,
            "thickness": 2,
            "width": 5,
        },
        "marker": look.marker(verdict in RESOLVED, 12),
        "text": [plain(f"{verdict}: {value:+.2f} %, {interval(row).text}")],
        "hoverinfo": "text",
    }


def answer_table(rows: Sequence[Row]) -> Table:
    """One line per recipe: verdict, quality, and the cost of its format on one device."""
    costs = of_kind(rows, "codesign")
    outputs = fidelity_summary(rows, operand="output")
    kinds = ("comparison", "training", "fidelity", "codesign")
    recipes = names([row for kind in kinds for row in of_kind(rows, kind)], "recipe")
    columns = (
        *map(Column, ("recipe", "verdict")),
        Column("loss degradation", "%"),
        Column("interval", "%"),
        Column("gain"),
        Column("SQNR", "dB"),
        *(
            Column(place_of(costs, cost), common_unit(quantities(first_place(costs, cost), cost)))
            for cost in COSTS
        ),
    )
    return Table(
        "answer",
        "Quality and cost per recipe",
        columns,
        tuple(_line(recipe, rows, outputs, costs) for recipe in recipes),
        f"Loss is of the validation text against {' or '.join(baselines(rows))}, seeds paired. "
        "Gain and SQNR are of the GEMM outputs against FP32: the middle one of fprop, dgrad and "
        "wgrad, each the mean over layers, steps and seeds.",
    ).without_empty_columns()


def _line(
    recipe: str, rows: Sequence[Row], outputs: Sequence[Row], costs: Sequence[Row]
) -> tuple[Cell, ...]:
    against = [row for row in against_baseline(rows) if row.config.get("recipe") == recipe]

    def middle(found: Sequence[Row], name: str, style: str = "") -> Cell:
        mine = [row for row in found if row.config.get("recipe") == recipe]
        return number_cell(median(quantities(mine, name)), style)

    return (
        text_cell(recipe),
        text_cell(against[0].facts.get("verdict") if against else _without_verdict(recipe, rows)),
        middle(against, "degradation_percent", "+.2f"),
        interval(against[0]) if against else Cell(ABSENT),
        middle(outputs, "gain", ".4f"),
        middle(outputs, "sqnr_db", ".2f"),
        *(middle(first_place(costs, cost), cost) for cost in COSTS),
    )


def _without_verdict(recipe: str, rows: Sequence[Row]) -> str:
    """Why a recipe has no verdict against the baseline; without any training there is no why."""
    if not of_kind(rows, "training"):
        return ABSENT
    if recipe in baselines(rows):
        return "baseline"
    ends = {row.status for row in of_kind(rows, "training", recipe=recipe)}
    return "not compared" if not ends or "ok" in ends else " and ".join(sorted(ends))
