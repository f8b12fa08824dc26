"""Collecting: several run folders of one study as one that is small enough to be committed.

A study is run in pieces, on several machines or after each other. Their finished cells are brought
together here, each once, provided that equal code ran them; points of curves are rounded to a ten
thousandth, far below what two seeds differ by. Values are left as they are.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

from suites.experiment import Experiment
from suites.rows import SCHEMA_VERSION, Row, Series
from suites.store import CONFIG, ENVIRONMENT, RESULTS, SUMMARY, Attempt, read_attempts, rows_of

DECIMALS = 4


def collect(folders: Sequence[Path], out: Path, experiment: Experiment) -> None:
    """Write the finished cells of run folders, and what the experiment derives of all, to `out`.

    The first folder's configuration and environment are those that are kept.

    Raises:
        ValueError: the folders were made by different code, or hold no finished cell.
    """
    versions = {_code_version(folder) for folder in folders}
    if len(versions) != 1:
        raise ValueError(f"{folders[0]}: the runs are of different code: {sorted(versions)}")
    attempts = {
        key: _rounded(attempt)
        for folder in folders
        for key, attempt in read_attempts(folder / RESULTS).items()
        if attempt.finished
    }
    if not attempts:
        raise ValueError(f"{folders[0]}: no cell is finished")
    out.mkdir(parents=True, exist_ok=True)
    lines = [row.to_json() for attempt in attempts.values() for row in (*attempt.rows, attempt.end)]
    (out / RESULTS).write_text("".join(f"{line}\n" for line in lines))
    for name in (CONFIG, ENVIRONMENT):
        shutil.copyfile(folders[0] / name, out / name)
    write_summary(out, experiment)


def write_summary(out: Path, experiment: Experiment) -> None:
    """Derive again what follows from the committed rows, after a change of how."""
    attempts = read_attempts(out / RESULTS)
    derived = experiment.derive(rows_of(list(attempts), attempts))
    cells = [
        {"key": key, "label": attempt.end.config["label"], "status": "ok", "error": None}
        for key, attempt in attempts.items()
    ]
    summary = {
        "schema_version": SCHEMA_VERSION,
        "status": "ok",
        "cells": cells,
        "derived": [row.model_dump(mode="json") for row in derived],
    }
    (out / SUMMARY).write_text(json.dumps(summary, indent=1, allow_nan=False) + "\n")


def _code_version(folder: Path) -> str:
    return str(json.loads((folder / ENVIRONMENT).read_text())["code_version"])


def _rounded(attempt: Attempt) -> Attempt:
    def thin(series: Series) -> Series:
        points = [None if y is None else round(y, DECIMALS) for y in series.y]
        return series.model_copy(update={"y": points})

    rows = tuple(
        row.model_copy(update={"series": {name: thin(s) for name, s in row.series.items()}})
        for row in attempt.rows
    )
    return Attempt(_without_trace(attempt.end), rows)


def _without_trace(end: Row) -> Row:
    return end.model_copy(update={"facts": {**end.facts, "trace": None}})
