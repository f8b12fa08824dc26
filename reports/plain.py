"""Reports without markup: the same tables for a terminal, as Markdown, as CSV."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from textwrap import fill

from tabulate import tabulate

from reports.section import Figure
from reports.sections import ordered
from reports.table import Cell, Table
from suites.rows import Row

MARKUP = str.maketrans(
    {character: f"\\{character}" for character in "\\`*_{}[]#|"}
    | {"<": "&lt;", ">": "&gt;", "&": "&amp;", "\n": " "}
)
WIDEST = 48  # characters of a column on a terminal; longer text is wrapped
CSV_HEADER = ("table", "row", "column", "unit", "value", "origin", "status", "note")


def terminal_tables(rows: Sequence[Row]) -> str:
    """The tables that stand in the report's text; those behind figures are left out."""
    parts = [part for section in ordered(rows, []) for part in section.parts]
    return "\n\n".join(terminal(part) for part in parts if isinstance(part, Table) and part)


def write_markdown(rows: Sequence[Row], path: str | Path) -> None:
    """Every table of the report as Markdown, under the report's headings.

    Raises:
        OSError: the file cannot be written.
    """
    lines = ["# Gridbench report"]
    for section in ordered(rows, []):
        tables = list(_tables(section.parts))
        if tables:
            lines += [f"## {section.title}", section.lead, *map(markdown, tables)]
    Path(path).write_text("\n\n".join(filter(None, lines)) + "\n", encoding="utf-8")


def write_csv(rows: Sequence[Row], path: str | Path) -> None:
    """Every number of the report, one a line, named by its table, row and column.

    Spreadsheets run text that begins with ``=``, ``+``, ``-`` or ``@``; such text gets a leading
    apostrophe, numbers do not.

    Raises:
        OSError: the file cannot be written.
    """
    with Path(path).open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(CSV_HEADER)
        for section in ordered(rows, []):
            for table in _tables(section.parts):
                writer.writerows(_csv_lines(table))


def _tables(parts: Iterable[object]) -> Iterator[Table]:
    """The tables of a section, those behind figures included."""
    for part in parts:
        if isinstance(part, Figure):
            yield part.table
        elif isinstance(part, Table):
            yield part


def terminal(table: Table) -> str:
    """The table for a terminal, its title above and its note below."""
    body = tabulate(
        [
            [fill(_plain(cell, table.origins(i)), WIDEST) for i, cell in enumerate(row)]
            for row in table.rows
        ],
        headers=_headings(table, separator="\n"),
        disable_numparse=True,
        colalign=_alignment(table),
    )
    return "\n".join(
        line for line in (table.title, "", body, fill(table.note, 2 * WIDEST)) if line or body
    )


def markdown(table: Table) -> str:
    """The table as a GitHub-flavoured Markdown section."""
    body = tabulate(
        [
            [_escape(_plain(cell, table.origins(i))) for i, cell in enumerate(row)]
            for row in table.rows
        ],
        headers=[_escape(heading) for heading in _headings(table, separator=" ")],
        tablefmt="pipe",
        disable_numparse=True,
        colalign=_alignment(table),
    )
    return "\n\n".join(part for part in (f"### {table.title}", body, _escape(table.note)) if part)


def _csv_lines(table: Table) -> Iterable[tuple[object, ...]]:
    labels = [i for i in range(len(table.columns)) if not table.is_numeric(i)]
    for row in table.rows:
        name = "; ".join(f"{table.columns[i].title}={row[i].text}" for i in labels)
        for i, (column, cell) in enumerate(zip(table.columns, row, strict=True)):
            if i not in labels:
                value = cell.value if cell.is_number else ""
                texts = (_safe(text or "") for text in (cell.origin, cell.status, cell.note))
                names = (_safe(text) for text in (table.id, name, column.title, column.unit))
                yield *names, value, *texts


def _headings(table: Table, separator: str) -> list[str]:
    """Headings with the origin that a whole column shares; mixed columns mark their cells."""
    headings = []
    for index, column in enumerate(table.columns):
        origins = table.origins(index)
        headings.append(
            f"{column.heading}{separator}({origins[0]})" if len(origins) == 1 else column.heading
        )
    return headings


def _plain(cell: Cell, origins: tuple[str, ...]) -> str:
    return f"{cell.text} ({cell.origin})" if cell.origin and len(origins) > 1 else cell.text


def _alignment(table: Table) -> list[str]:
    return ["right" if table.is_numeric(i) else "left" for i in range(len(table.columns))]


def _escape(text: str) -> str:
    """Text that Markdown must read neither as markup nor as the border of a cell."""
    return text.translate(MARKUP)


def _safe(text: str) -> str:
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text
