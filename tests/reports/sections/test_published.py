from __future__ import annotations

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
