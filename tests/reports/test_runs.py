from __future__ import annotations

from reports import merge
from reports.sections import answer
from suites.rows import Row
from tests.reports.rows_fixture import bias, comparison, grids, training


def test_runs_of_different_settings_are_simply_put_together() -> None:
    rows = merge({"a": list(comparison()), "b": list(bias())})
    assert rows == [*comparison(), *bias()]


def test_equal_rows_are_one_row() -> None:
    assert merge({"a": list(bias()), "b": list(bias())}) == list(bias())


def test_the_same_setting_run_twice_stays_two_recipes() -> None:
    before = [row.model_copy(update={"facts": {"baseline": "bf16"}}) for row in training(1, 20)]
    after = [row.model_copy(update={"key": "after"}) for row in before]
    rows = merge({"before": [*before, *comparison()], "after": after})
    recipes = {row.config["recipe"] for row in rows}
    assert {"ufp4 @ before", "ufp4 @ after"} <= recipes
    table = answer.answer_table(rows)
    verdicts = {row[0].text: row[1].text for row in table.rows}
    assert verdicts["bf16 @ after"] == "baseline"
    assert verdicts["ufp4 @ before"] == "worse"


def test_a_grid_that_two_runs_tell_of_is_one_grid_and_no_clash() -> None:
    mine = list(grids())
    theirs = [row.model_copy(update={"key": "of another cell"}) for row in mine]
    rows = merge({"mine": [*mine, *training(1, 20)], "theirs": theirs})
    assert [row.config for row in rows if row.kind == "grid"] == [row.config for row in mine]
    assert "ufp4" in {row.config.get("recipe") for row in rows}


def test_rows_without_a_recipe_name_their_run() -> None:
    row = Row(kind="kernel", config={"operation": "gemm"})
    slower = row.model_copy(update={"key": "other"})
    assert [each.config["run"] for each in merge({"a": [row], "b": [slower]})] == ["a", "b"]
