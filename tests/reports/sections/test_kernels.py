"""Kernels: a table and a figure per roof, rivals among ours, and what could not be timed."""

from __future__ import annotations

from reports.section import Figure
from reports.sections import kernels
from reports.table import Table
from tests.reports.rows_fixture import all_rows
from tests.reports.rows_fixture import kernels as timed


def parts() -> dict[str, Table | Figure]:
    found = kernels.section(all_rows()).parts
    return {part.id: part for part in found if isinstance(part, Table | Figure)}


def test_each_roof_has_a_table_and_a_figure_with_everything_behind_it() -> None:
    found = parts()
    assert list(found) == [
        "kernels-copy-times",
        "kernels-copy",
        "kernels-bf16-nn-linear-times",
        "kernels-bf16-nn-linear",
        "kernel-paths",
    ]
    behind = found["kernels-copy"].table  # type: ignore[union-attr]
    assert {"spread", "bandwidth", "launches", "reason"} <= {c.title for c in behind.columns}
    assert "spread" not in {c.title for c in found["kernels-copy-times"].columns}  # type: ignore[union-attr]


def test_a_rival_is_a_mark_of_its_own_on_the_line_of_ours() -> None:
    figure = parts()["kernels-copy"]
    assert isinstance(figure, Figure)
    ours, rival = figure.data
    assert (ours["name"], rival["name"]) == ("Gridbench", "somebody")
    assert rival["y"] == ours["y"][:1]
    assert figure.layout["xaxis"]["type"] == "log"  # fifty times slower


def test_what_could_not_be_timed_stands_with_its_operation_and_its_reason() -> None:
    found = parts()
    table, paths = found["kernels-copy-times"], found["kernel-paths"]
    assert isinstance(table, Table) and isinstance(paths, Table)
    (line,) = (line for line in table.rows if line[2].text == "nobody")
    assert "unavailable" in [cell.text for cell in line]
    assert ["nobody absent, eager", "not installed"] in [[c.text for c in r] for r in paths.rows]


def test_rows_that_all_failed_are_listed_and_not_drawn() -> None:
    (failed,) = (row for row in timed() if row.config.get("rival") == "nobody")
    found = kernels.section([failed]).parts
    assert [type(part) for part in found] == [Table, Table]
    assert not kernels.section([])
