"""The sections of a report, one file each, and their order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from reports.section import Section
from reports.sections import answer, context, fidelity, loss, rotation
from suites.rows import Row


def ordered(rows: Sequence[Row], environments: Sequence[Mapping[str, Any]]) -> list[Section]:
    """All sections, the answer first; those without data are empty, which is false."""
    return [
        *(make.section(rows) for make in (answer, fidelity, rotation, loss)),
        context.method(rows),
        context.environment(environments),
        context.reproduce(environments),
        context.glossary(),
    ]
