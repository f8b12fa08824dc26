"""The sections of a report, one file each, and their order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from reports.section import Section
from reports.sections import (
    answer,
    circuits,
    context,
    depth,
    devices,
    fidelity,
    grids,
    kernels,
    loss,
    pareto,
    published,
    rotation,
    second_grid,
)
from suites.rows import Row

FROM_ROWS = (
    answer,
    second_grid,
    pareto,
    fidelity,
    rotation,
    depth,
    grids,
    loss,
    published,
    devices,
    kernels,
    circuits,
)


def ordered(rows: Sequence[Row], environments: Sequence[Mapping[str, Any]]) -> list[Section]:
    """All sections, the answer first; those without data are empty, which is false."""
    return [
        *(part.section(rows) for part in FROM_ROWS),
        context.method(),
        context.environment(environments),
        context.reproduce(environments),
        context.glossary(),
    ]
