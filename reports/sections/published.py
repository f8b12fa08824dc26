"""What papers report, line by line beside what was found here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

import yaml

from reports.labels import label
from reports.section import Section
from reports.select import median, of_kind, quantities
from reports.table import Column, Table, number_cell, text_cell
from suites.rows import Row, published


def section(rows: Sequence[Row]) -> Section:
    """The tables of which at least one line has a counterpart in the rows."""
    tables = (beside(paper, rows) for paper in _papers())
    return Section(
        "published",
        "Beside published results",
        "Sizes, data and budgets differ, so compare signs and orders, not digits.",
        tuple(table for table in tables if any(cell.is_number for cell in table.column(2))),
        "--suite pretrain-small, --suite bias",
    )


def beside(paper: Mapping[str, Any], rows: Sequence[Row]) -> Table:
    """One published table with our column; a line that was not run here says n/a."""
    name, unit = paper["quantity"], paper["unit"]
    style = label(name).style
    lines = tuple(
        (
            text_cell(line["setting"]),
            number_cell(published(line["value"], unit, paper["source"]), style),
            number_cell(
                median(quantities(of_kind(rows, paper["kind"], **line["match"]), name)), style
            ),
        )
        for line in paper["lines"]
    )
    columns = (Column("setting"), Column("paper", unit), Column("here", unit))
    note = f"Paper: {paper['source']}. Here: {paper['here']}."
    return Table(paper["id"], paper["title"], columns, lines, note)


@cache
def _papers() -> list[dict[str, Any]]:
    text = (files("reports") / "data" / "published.yaml").read_text(encoding="utf-8")
    papers: list[dict[str, Any]] = yaml.safe_load(text)
    return papers
