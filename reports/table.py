"""Table: what every output of a report is made of, whether terminal, Markdown, CSV or HTML.

A table is built once (reports/tables.py and the section files) and only its rendering differs. Its
cells keep three things together that reports tend to lose: the text that a reader sees, the full
value that sorts and goes to CSV, and the *origin* of the number:

    measured   timed or counted on the machine that ran it
    emulated   the format's numerics carried out exactly, on hardware that lacks the format
    modelled   worked out from stated constants; nothing was run
    published  taken from a source that is named
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from suites.rows import Quantity

ORIGINS = {
    "measured": "timed or counted on the machine named in this report",
    "emulated": "the format's exact numerics, computed on hardware that lacks the format",
    "modelled": "worked out from constants that carry a source; nothing was run",
    "published": "quoted from a source that is named beside it",
}
ABSENT = "n/a"
MOST_ITEMS = 4
PRINTED_UNITS = {"1": "", "um2": "µm²", "um2/MAC": "µm²/MAC", "us": "µs"}


@dataclass(frozen=True)
class Cell:
    """One entry: ``text`` is read, ``value`` sorts and is exported, ``note`` explains on demand."""

    text: str
    value: float | str | None = None
    origin: str | None = None
    status: str = "ok"
    note: str | None = None

    @property
    def is_number(self) -> bool:
        """Whether the cell holds a number, and so must wear an origin."""
        return isinstance(self.value, int | float)


@dataclass(frozen=True)
class Column:
    """A heading; ``unit`` is empty for text and for counts that need none."""

    title: str
    unit: str = ""

    @property
    def heading(self) -> str:
        """Title and unit as one line, for outputs without markup."""
        return f"{self.title} [{self.unit}]" if self.unit else self.title


@dataclass(frozen=True)
class Table:
    """A titled grid of cells; ``note`` is the line under it."""

    id: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""

    def __bool__(self) -> bool:
        return bool(self.rows)

    def column(self, index: int) -> tuple[Cell, ...]:
        """The cells of one column, top to bottom."""
        return tuple(row[index] for row in self.rows)

    def origins(self, index: int) -> tuple[str, ...]:
        """The origins that occur in a column, in the order of ORIGINS."""
        seen = {cell.origin for cell in self.column(index)}
        return tuple(origin for origin in ORIGINS if origin in seen)

    def all_origins(self) -> tuple[str, ...]:
        """The origins that occur anywhere in the table, in the order of ORIGINS."""
        seen = {cell.origin for row in self.rows for cell in row}
        return tuple(origin for origin in ORIGINS if origin in seen)

    def is_numeric(self, index: int) -> bool:
        """Whether a column holds any number, which decides its alignment."""
        return any(cell.is_number for cell in self.column(index))

    def numeric_columns(self) -> tuple[bool, ...]:
        """``is_numeric`` of every column."""
        return tuple(self.is_numeric(i) for i in range(len(self.columns)))

    def without_empty_columns(self) -> Table:
        """The table less the columns in which nothing was ever recorded."""
        return self._with_columns(
            [
                i
                for i in range(len(self.columns))
                if any(cell.text not in ("", ABSENT) for cell in self.column(i))
            ]
        )

    def with_constants_noted(self) -> Table:
        """The table with each text column that says one and the same thing moved to the note."""
        same = [
            i
            for i in range(1, len(self.columns))
            if len(self.rows) > 1
            and not self.is_numeric(i)
            and len({cell.text for cell in self.column(i)}) == 1
        ]
        said = [(self.columns[i].title, self.rows[0][i].text) for i in same]
        facts = ", ".join(f"{title} {text}" for title, text in said if text != "all")
        kept = [i for i in range(len(self.columns)) if i not in same]
        note = f"{self.note} In all lines: {facts}." if facts else self.note
        return replace(self._with_columns(kept), note=note.strip())

    def _with_columns(self, kept: Sequence[int]) -> Table:
        return replace(
            self,
            columns=tuple(self.columns[i] for i in kept),
            rows=tuple(tuple(row[i] for i in kept) for row in self.rows),
        )


def text_cell(value: object) -> Cell:
    """A cell for a name, a setting or a fact; a long list is counted, and named in the note."""
    if value is None:
        return Cell(ABSENT)
    if isinstance(value, bool):
        return Cell("yes" if value else "no", value="yes" if value else "no")
    if isinstance(value, str):
        return Cell(value, value=value)
    if isinstance(value, Sequence):
        joined = ", ".join(str(item) for item in value)
        if len(value) > MOST_ITEMS:
            return Cell(f"{len(value)}: {value[0]}, ...", value=joined, note=joined)
        return Cell(joined, value=joined)
    return Cell(f"{value:g}" if isinstance(value, float) else str(value), value=str(value))


def number_cell(quantity: Quantity | None, style: str = "", absent: str = ABSENT) -> Cell:
    """A cell for a result; ``style`` is a format specification, empty for four significant digits.

    A quantity without a value shows its status, never a zero or a blank.
    """
    if quantity is None:
        return Cell(absent, status="ok" if absent == ABSENT else absent)
    if quantity.value is None or not math.isfinite(quantity.value):
        status = quantity.status.replace("_", " ") if quantity.status != "ok" else "no value"
        return Cell(status, origin=quantity.origin, status=status, note=quantity.note)
    text = significant(quantity.value) if not style else format(quantity.value, style)
    return Cell(text, quantity.value, quantity.origin, quantity.status, quantity.note)


def significant(value: float) -> str:
    """Four significant digits, without an exponent between 1e-4 and 1e9.

    >>> significant(1234567.0), significant(0.01234567), significant(3.0e-7)
    ('1,235,000', '0.01235', '3.000e-07')
    """
    if value == 0:
        return "0"
    magnitude = math.floor(math.log10(abs(value)))
    if not -4 <= magnitude < 9:
        return f"{value:.3e}"
    return f"{round(value, 3 - magnitude):,.{max(0, 3 - magnitude)}f}"


def common_unit(quantities: Iterable[Quantity | None]) -> str:
    """The one unit that the quantities share; empty for ratios, and when there are several."""
    units = {quantity.unit for quantity in quantities if quantity is not None}
    if len(units) != 1:
        return ""
    unit = units.pop()
    return PRINTED_UNITS.get(unit, unit)
