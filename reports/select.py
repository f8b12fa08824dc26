"""Selecting rows: the only reading of rows that tables and figures do.

A report computes no result. The one thing it may do to numbers is to condense those that it draws
or lists, by median, smallest and largest, and then it says so beside them.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence

from suites.rows import ALL, Quantity, Row

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


def middles(groups: Iterable[Sequence[Row]], name: str) -> list[float | None]:
    """The medians of several groups, as a figure draws them."""
    found = (median(quantities(group, name)) for group in groups)
    return [None if middle is None else middle.value for middle in found]


def baselines(rows: Iterable[Row]) -> tuple[str, ...]:
    """The recipes that losses are compared with, as the training rows say: one per run."""
    said = [row.facts["baseline"] for row in of_kind(rows, "training") if "baseline" in row.facts]
    return tuple(dict.fromkeys(map(str, said))) or (BASELINE,)


def only(rows: Iterable[Row], *origins: str) -> list[Row]:
    """The rows with just their quantities of those origins; rows left without any are dropped."""
    kept = (
        row.model_copy(
            update={"values": {n: q for n, q in row.values.items() if q.origin in origins}}
        )
        for row in rows
    )
    return [row for row in kept if row.values]


def observations(rows: Iterable[Row]) -> list[Row]:
    """The fidelity rows of single layers, at the last observed step of each recipe and seed."""
    single = [row for row in of_kind(rows, "fidelity") if row.config.get("layer") != ALL]
    last = {
        run: max(row.config.get("step", 0) for row in group)
        for run, group in grouped(single, "recipe", "seed").items()
    }
    return [
        row
        for run, group in grouped(single, "recipe", "seed").items()
        for row in group
        if row.config.get("step", 0) == last[run]
    ]


def fidelity_summary(rows: Iterable[Row], **config: object) -> list[Row]:
    """The fidelity rows that sum up over layers, steps and seeds, with the given entries."""
    return of_kind(rows, "fidelity", layer=ALL, **config)
