"""Rows of several runs in one report: the same setting run twice must stay two things.

Sections group rows by recipe. If two runs hold rows of the same kind and settings, as runs before
and after a change do, grouping would silently mix them. Their recipes are then named after their
run ("ufp4 @ before"), so that every table and figure sets them side by side.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from suites.rows import Row

RECIPES = ("recipe", "baseline")
GRID = "grid"


def merge(runs: Mapping[str, Sequence[Row]]) -> list[Row]:
    """The rows of all runs by name of the run, told apart where they would be confused.

    Rows that are equal in every respect are one row.
    """
    unique = {_identity(row): (name, row) for name, rows in runs.items() for row in rows}
    if not _clash(unique.values()):
        return [row for _, row in unique.values()]
    return [_named(row, name) for name, row in unique.values()]


def _identity(row: Row) -> str:
    """What makes a row the same row; a grid is a grid whichever cell told of it."""
    return (row.model_copy(update={"key": ""}) if row.kind == GRID else row).to_json()


def _clash(rows: Iterable[tuple[str, Row]]) -> bool:
    """Whether two runs hold rows of the same kind and settings."""
    owners: dict[tuple[str, str], str] = {}
    for name, row in rows:
        setting = (row.kind, json.dumps(row.config, sort_keys=True))
        if owners.setdefault(setting, name) != name:
            return True
    return False


def _named(row: Row, run: str) -> Row:
    def named(facts: Mapping[str, Any]) -> dict[str, Any]:
        return {k: f"{v} @ {run}" if k in RECIPES else v for k, v in facts.items()}

    config = named(row.config)
    if "recipe" not in config:
        config["run"] = run
    return row.model_copy(update={"config": config, "facts": named(row.facts)})
