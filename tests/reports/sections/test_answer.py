from __future__ import annotations

from reports.section import Sentences
from reports.sections import answer
from reports.table import Cell
from suites.rows import Quantity, Row, emulated
from tests.reports.rows_fixture import all_rows


def words(sentences: Sentences | None) -> list[str]:
    assert sentences is not None
    return [
        "".join(piece.text if isinstance(piece, Cell) else piece for piece in sentence)
        for sentence in sentences.items
    ]


def one_seed(recipe: str, percent: float | None, reason: str) -> Row:
    none = Quantity(value=None, unit="%", origin="emulated", status="not_resolved", note="3 seeds")
    return Row(
        kind="comparison",
        config={"recipe": recipe, "baseline": "bf16", "metric": "validation_loss"},
        values={"degradation_percent": emulated(percent, "%"), "ci_low": none, "ci_high": none},
        facts={"verdict": "not resolved", "reason": reason},
    )


def test_resolved_verdicts_are_sentences_with_their_interval() -> None:
    assert words(answer.statements(all_rows())) == [
        "e2m1-ref is worse than bf16: +1.26 % loss, [+0.95, +1.57].",
        "ufp4 is worse than bf16: +0.97 % loss, [+0.69, +1.25].",
    ]


def test_what_is_not_resolved_is_said_once_for_each_reason_and_failures_follow() -> None:
    told = words(answer.unresolved(all_rows()))
    assert len(told) == 2
    assert "nvfp4 against bf16" in told[0] and "ufp4 against e2m1-ref" in told[0]
    assert told[0].endswith("the interval includes zero.")
    assert told[1].startswith("mxfp4, seed 0, diverged: step 41")


def test_with_one_seed_nothing_is_resolved_and_no_interval_is_made_up() -> None:
    rows = [one_seed("ufp4", 0.5, "paired seeds: 1, a verdict needs 3")]
    assert words(answer.statements(rows)) == ["No comparison of losses is resolved at this budget."]
    assert "no interval" in words(answer.unresolved(rows))[0]
    assert answer.verdict_figure(rows) is not None


def test_a_recipe_that_diverged_everywhere_is_worse_without_a_number() -> None:
    row = one_seed("mxfp4", None, "diverged at every seed")
    rows = [row.model_copy(update={"facts": {**row.facts, "verdict": "worse"}})]
    assert words(answer.statements(rows)) == ["mxfp4 is worse than bf16: diverged at every seed."]
    assert answer.verdict_figure(rows) is None


def test_a_cell_that_failed_is_named() -> None:
    row = Row(kind="cell", status="failed", config={"label": "ufp4 seed 2"}, error="no memory")
    assert words(answer.unresolved([row])) == ["ufp4 seed 2 failed: no memory."]


def test_the_table_joins_quality_with_cost() -> None:
    table = answer.answer_table(all_rows())
    lines = {row[0].text: [cell.text for cell in row] for row in table.rows}
    titles = [column.title for column in table.columns]
    assert titles[-3:] == ["area, asap7", "energy, asap7", "step time, B200"]
    assert lines["ufp4"][1:4] == ["worse", "+0.97", "[+0.69, +1.25]"]
    assert lines["ufp4"][-1] == "35.00"
    assert (lines["bf16"][1], lines["mxfp4"][1]) == ("baseline", "diverged")


def test_many_pairs_leave_the_first_screen_to_baseline_and_reference() -> None:
    pairs = [
        Row(
            kind="comparison",
            config={"recipe": f"r{i}", "baseline": f"r{i + 1}", "metric": answer.METRIC},
        )
        for i in range(answer.MOST_PAIRS + 1)
    ]
    assert answer.verdicts(pairs[1:]) == pairs[1:]
    against = one_seed("ufp4", 0.5, "x")
    assert answer.verdicts([against, *pairs]) == [against, pairs[0]]


def test_without_training_there_is_no_column_of_verdicts() -> None:
    table = answer.answer_table([row for row in all_rows() if row.kind == "codesign"])
    assert "verdict" not in [column.title for column in table.columns] and table.rows
