"""Selecting rows: the only reading of rows that tables and figures do.

A report computes no result. The one thing it may do to numbers is to condense those that it draws
or lists, by median, smallest and largest, and then it says so beside them.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence

from suites.rows import Quantity, Row

BASELINE = "bf16"


def of_kind(rows: Iterable[Row], kind: str, **config: object) -> list[Row]:
    """The rows of one kind whose configuration has the given entries, in recorded order."""
    return [
        row
        for row in rows
        if row.kind == kind and all(row.config.get(key) == want for key, want in config.items())
    ]


def names(rows: Iterable[Row], key: str) -> list[str]:
    """The distinct values of a setting, as text, in order of appearance."""
    return list(dict.fromkeys(str(row.config[key]) for row in rows if key in row.config))


def grouped(rows: Iterable[Row], *keys: str) -> dict[tuple[str, ...], list[Row]]:
    """Rows by the values of some settings, groups in order of appearance."""
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(str(row.config.get(key, "")) for key in keys), []).append(row)
    return groups


def quantities(rows: Iterable[Row], name: str) -> list[Quantity]:
    """The quantities of that name, those without a value included."""
    return [row.values[name] for row in rows if name in row.values]


def median(found: Sequence[Quantity]) -> Quantity | None:
    """The middle one of several results; its note says of how many. None when there are none."""
    values = [quantity.value for quantity in found if quantity.value is not None]
    if not values:
        return found[0] if found else None
    if len(found) == 1:
        return found[0]
    note = f"median of {len(values)}, from {min(values):.4g} to {max(values):.4g}"
    return found[0].model_copy(
        update={"value": statistics.median(values), "status": "ok", "note": note}
    )


def last_step(rows: Sequence[Row]) -> list[Row]:
    """The rows of the last recorded step of each recipe and seed."""
    last: dict[tuple[str, ...], float] = {}
    for row in rows:
        run = (str(row.config.get("recipe")), str(row.config.get("seed")))
        last[run] = max(last.get(run, 0), row.config.get("step", 0))
    return [
        row
        for row in rows
        if row.config.get("step", 0)
        == last[str(row.config.get("recipe")), str(row.config.get("seed"))]
    ]
