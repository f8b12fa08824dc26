"""Grid rows: the code books of formats as data, so that a report can draw them on a number line."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from formats import BlockFormat
from suites.rows import Row


def grid_rows(formats: Iterable[BlockFormat]) -> Iterator[Row]:
    """One row per distinct format that has a grid; high precision has none."""
    for fmt in {fmt.digest: fmt for fmt in formats}.values():
        if fmt.element is not None:
            yield Row(
                kind="grid",
                config={"format": fmt.name},
                facts={
                    "codes": sum(not math.isnan(value) for value in fmt.element.decode_table),
                    "levels": list(fmt.element.levels),
                    "midpoints": list(fmt.element.midpoints),
                    "max": fmt.element.max,
                    "bits_per_element": fmt.bits_per_element,
                },
            )
