"""What a report is made of: sections of tables, figures and sentences.

A figure is plain JSON as plotly.js reads it (``data`` and ``layout``), so that making one costs no
import and equal rows give equal bytes; a test checks each against plotly's own schema. Colours of
text, axes and paper are left to the page, which takes them from its style sheet, light or dark.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from reports.table import Cell, Table

Json = dict[str, Any]
Sentence = tuple[str | Cell, ...]


@dataclass(frozen=True)
class Figure:
    """A plot with the table behind it; ``title`` states the finding or the question.

    ``description`` is what a screen reader says instead of the picture, ``note`` how to read it.
    """

    id: str
    title: str
    description: str
    data: list[Json]
    layout: Json
    table: Table
    note: str = ""


@dataclass(frozen=True)
class Sentences:
    """A list of sentences; a number in one is a cell, so that it wears its origin."""

    title: str
    items: tuple[Sentence, ...]


@dataclass(frozen=True)
class Code:
    """Commands to copy."""

    text: str


@dataclass(frozen=True)
class Terms:
    """A glossary: term, meaning."""

    items: tuple[tuple[str, str], ...]


Part = Table | Figure | Sentences | Code | Terms


@dataclass(frozen=True)
class Section:
    """A heading, what it is about, and its parts; ``needs`` says what would fill it when empty."""

    id: str
    title: str
    lead: str
    parts: tuple[Part, ...]
    needs: str = ""

    def __bool__(self) -> bool:
        return bool(self.parts)
