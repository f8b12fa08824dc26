from __future__ import annotations

from reports.tables import TRAINING, View, pivot
from suites.rows import Row, emulated
from tests.reports.rows_fixture import all_rows


def titles(table: object) -> list[str]:
    return [column.title for column in table.columns]  # type: ignore[attr-defined]


def test_a_view_leaves_out_nothing_that_was_recorded() -> None:
    view = View("v", "k", "V", ("recipe",), ("gain",))
    rows = [
        Row(kind="k", config={"recipe": "a", "novel": 1}, values={"surprise": emulated(1, "dB")}),
        Row(kind="k", config={"recipe": "b", "novel": 2}, values={"gain": emulated(1, "")}),
        Row(kind="other"),
    ]
    table = view.table(rows)
    assert titles(table) == ["recipe", "novel", "gain", "surprise"]
    assert [cell.text for cell in table.rows[0]] == ["a", "1", "n/a", "1.000"]


def test_a_run_that_diverged_is_a_line_that_says_so() -> None:
    table = TRAINING.table(all_rows())
    last = dict(zip(titles(table), table.rows[-1], strict=True))
    assert last["recipe"].text == "mxfp4"
    assert last["validation loss"].text == "diverged"
    assert last["step time"].text == "diverged"


def test_an_exact_view_has_its_columns_only_and_each_line_once() -> None:
    rows = [
        Row(kind="k", config={"recipe": name, "seed": seed}, facts={"path": f"path of {name}"})
        for name in ("a", "b")
        for seed in (0, 1)
    ]
    table = View("v", "k", "V", ("recipe",), (), ("path",), exact=True).table(rows)
    assert [[cell.text for cell in row] for row in table.rows] == [
        ["a", "path of a"],
        ["b", "path of b"],
    ]


def test_a_view_of_other_rows_is_empty() -> None:
    assert not TRAINING.table([Row(kind="grid")])


def test_a_pivot_has_a_column_per_value_and_medians_in_its_cells() -> None:
    rows = [
        Row(kind="k", config={"layer": layer, "gemm": gemm}, values={"gain": emulated(value, "1")})
        for layer, gemm, value in (("a", "fprop", 1.0), ("a", "fprop", 3.0), ("b", "wgrad", 5.0))
    ]
    table = pivot("p", "P", rows, ("layer",), "gemm", "gain")
    assert titles(table) == ["layer", "fprop", "wgrad"]
    texts = [[cell.text for cell in row] for row in table.rows]
    assert texts == [["a", "2.0000", "n/a"], ["b", "n/a", "5.0000"]]
