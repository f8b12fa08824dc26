from __future__ import annotations

import csv
from pathlib import Path

from reports import terminal_tables, write_csv, write_markdown
from reports.plain import markdown, terminal
from reports.table import Cell, Column, Table
from suites.rows import Row
from tests.reports.rows_fixture import all_rows, hostile_rows

TABLE = Table(
    "t",
    "Title",
    (Column("name"), Column("loss", "%"), Column("time", "s")),
    (
        (Cell("a|b"), Cell("+1.0", 1.0, "emulated"), Cell("2.0", 2.0, "measured")),
        (Cell("<i>"), Cell("n/a"), Cell("3.0", 3.0, "modelled")),
    ),
    "Note.",
)


def test_a_heading_carries_the_origin_that_a_column_shares() -> None:
    lines = terminal(TABLE).splitlines()
    assert lines[0] == "Title" and lines[-1] == "Note."
    assert "loss [%]" in lines[2] and "(emulated)" in lines[3]


def test_cells_carry_their_origin_where_a_column_mixes_them() -> None:
    text = terminal(TABLE)
    assert "2.0 (measured)" in text and "3.0 (modelled)" in text


def test_markdown_escapes_what_would_be_markup() -> None:
    text = markdown(TABLE)
    assert "a\\|b" in text and "&lt;i&gt;" in text


def test_terminal_tables_lead_with_the_answer() -> None:
    assert terminal_tables(all_rows()).startswith("Quality and cost per recipe")
    assert terminal_tables([]) == ""


def test_markdown_holds_every_section_with_a_table(tmp_path: Path) -> None:
    write_markdown(all_rows(), tmp_path / "r.md")
    text = (tmp_path / "r.md").read_text(encoding="utf-8")
    for title in ("The answer", "Quality against cost", "Circuits", "Beside published results"):
        assert f"\n## {title}\n" in text


def test_csv_has_a_full_number_a_line_with_its_origin(tmp_path: Path) -> None:
    write_csv(all_rows(), tmp_path / "r.csv")
    with (tmp_path / "r.csv").open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    answer = [line for line in lines if line["table"] == "answer" and "ufp4" in line["row"]]
    loss = next(line for line in answer if line["column"] == "loss degradation")
    assert (float(loss["value"]), loss["unit"], loss["origin"]) == (0.97, "%", "emulated")
    assert all(line["origin"] for line in lines if line["value"])


def test_csv_text_is_no_formula(tmp_path: Path) -> None:
    write_csv(hostile_rows(), tmp_path / "r.csv")
    with (tmp_path / "r.csv").open(encoding="utf-8", newline="") as file:
        for line in csv.DictReader(file):
            texts = [text for name, text in line.items() if name != "value"]
            assert not any(text.startswith(("=", "+", "@")) for text in texts)


def test_rows_of_unknown_kind_are_no_reason_to_fail(tmp_path: Path) -> None:
    write_csv([Row(kind="novel")], tmp_path / "r.csv")
    assert (tmp_path / "r.csv").read_text(encoding="utf-8").count("\n") == 1
