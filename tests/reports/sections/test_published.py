from __future__ import annotations

from pathlib import Path

import yaml

from formats import list_recipes
from reports.sections import published
from tests.reports.rows_fixture import all_rows, grids


def test_ours_stands_beside_the_paper_s_with_its_origin() -> None:
    tables = {table.id: table for table in published.section(all_rows()).parts}  # type: ignore[union-attr]
    loss = tables["paper-loss"].rows[1]  # type: ignore[union-attr]
    assert [(cell.text, cell.origin) for cell in loss[1:]] == [
        ("+0.97", "published"),
        ("+0.97", "emulated"),
    ]
    assert "arXiv:2606.20381" in loss[1].note
    rotation = tables["paper-rotation"].rows[3]  # type: ignore[union-attr]
    assert [cell.text for cell in rotation] == ["E1M2, Hadamard 16", "23.19", "22.89"]


def test_a_table_without_a_line_of_ours_is_left_out() -> None:
    assert not published.section(list(grids()))


def test_every_recipe_beside_a_paper_s_is_one_that_a_suite_runs() -> None:
    root = Path(__file__).resolve().parents[3]
    known = {entry.name for entry in list_recipes()}
    for path in (root / "suites" / "library").glob("*.yaml"):
        both = yaml.safe_load(path.read_text(encoding="utf-8")).get("both", {})
        known |= {entry["name"] for entry in both.get("recipes", []) if isinstance(entry, dict)}
    papers = yaml.safe_load((root / "reports" / "data" / "published.yaml").read_text("utf-8"))
    matched = {line["match"].get("recipe") for paper in papers for line in paper["lines"]}
    assert matched - {None} <= known
