"""A run folder: results that survive whatever stops the run.

    config.yaml        what was asked for, resolved
    environment.json   what it ran on
    results.jsonl      the rows; a finished cell's are appended in one write and fsynced
    summary.json       status, the cells of the last plan, derived rows
    report.html        written by the front door

`results.jsonl` is append-only. Each attempt at a cell ends with a row of kind "cell", which carries
the cell's key and whether it finished; rows without such an end are of an attempt that was cut off
and do not count. A cell that finished is not run again, a failed one is, and the last attempt wins.
The file is never rewritten: only half a line at its very end, which a kill in the middle of a write
leaves, is cut off, with a warning.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from filelock import FileLock, Timeout

from suites.experiment import Cell
from suites.rows import SCHEMA_VERSION, Row, measured, read_row

logger = logging.getLogger(__name__)

RESULTS = "results.jsonl"
SUMMARY = "summary.json"
ENVIRONMENT = "environment.json"
CONFIG = "config.yaml"
LOCK = ".lock"
END_OF_CELL = "cell"


@dataclass(frozen=True)
class Attempt:
    """One complete try at a cell: its rows and the row that ended it."""

    end: Row
    rows: tuple[Row, ...]

    @property
    def finished(self) -> bool:
        """Whether the cell gave its result; else it failed and is to be tried again."""
        return self.end.status == "ok"


@dataclass(frozen=True)
class Run:
    """A run folder as read back."""

    folder: Path
    config: Mapping[str, Any]
    environment: Mapping[str, Any]
    summary: Mapping[str, Any]
    rows: tuple[Row, ...]


def check_out(folder: Path) -> None:
    """Refuse a folder that results cannot be written to, without creating anything.

    Raises:
        ValueError: it is a file, or it cannot be written or created.
    """
    nearest = folder.absolute()
    while not nearest.exists():
        nearest = nearest.parent
    if not nearest.is_dir():
        raise ValueError(f"--out {folder}: {nearest} is a file; name a folder")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise ValueError(f"--out {folder}: {nearest} is not writable")


@dataclass
class Store:
    """The writing side of a run folder; made by `open_store`, which holds the folder's lock."""

    folder: Path
    attempts: dict[str, Attempt] = field(default_factory=dict)

    def is_finished(self, cell: Cell) -> bool:
        """Whether an earlier run in this folder finished the cell."""
        attempt = self.attempts.get(cell.key)
        return attempt is not None and attempt.finished

    def append(
        self,
        cell: Cell,
        rows: Sequence[Row],
        seconds: float,
        error: str | None = None,
        trace: str | None = None,
    ) -> None:
        """Add one attempt, failed if there is an error; it is on the disk when this returns.

        Args:
            error: what went wrong, in one line.
            trace: the traceback of an exception, for those who look into it.
        """
        end = Row(
            kind=END_OF_CELL,
            key=cell.key,
            status="failed" if error else "ok",
            config={"label": cell.label, "experiment": cell.kind, **cell.config},
            values={"seconds": measured(seconds, "s")},
            facts={"rows": len(rows), "trace": trace},
            error=error,
        )
        attempt = Attempt(end, tuple(row.model_copy(update={"key": cell.key}) for row in rows))
        text = "".join(row.to_json() + "\n" for row in (*attempt.rows, end))
        with (self.folder / RESULTS).open("ab") as file:
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())
        self.attempts[cell.key] = attempt

    def rows(self, cells: Sequence[Cell]) -> list[Row]:
        """The rows of these cells in their order; a failed cell gives the row that ended it."""
        return rows_of([cell.key for cell in cells], self.attempts)

    def write_config(self, config: Mapping[str, Any]) -> None:
        """Replace config.yaml."""
        _replace(self.folder / CONFIG, yaml.safe_dump(dict(config), sort_keys=False))

    def write_environment(self, environment: Mapping[str, Any]) -> None:
        """Replace environment.json."""
        _replace(self.folder / ENVIRONMENT, json.dumps(environment, indent=1))

    def write_summary(self, status: str, cells: Sequence[Cell], derived: Sequence[Row]) -> None:
        """Replace summary.json; status is "running", "ok", "failed" or "interrupted"."""
        summary = {
            "schema_version": SCHEMA_VERSION,
            "status": status,
            "cells": [self._cell_summary(cell) for cell in cells],
            "derived": [row.model_dump(mode="json") for row in derived],
        }
        _replace(self.folder / SUMMARY, json.dumps(summary, indent=1, allow_nan=False))

    def _cell_summary(self, cell: Cell) -> dict[str, Any]:
        attempt = self.attempts.get(cell.key)
        status = "pending" if attempt is None else attempt.end.status
        error = None if attempt is None else attempt.end.error
        return {"key": cell.key, "label": cell.label, "status": status, "error": error}


@contextmanager
def open_store(folder: Path) -> Iterator[Store]:
    """Open a run folder for writing, creating it if need be, and lock others out.

    Raises:
        ValueError: another process has it open, or its results are damaged.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"--out {folder}: {error.strerror}") from error
    lock = FileLock(folder / LOCK)
    try:
        lock.acquire(timeout=0)
    except Timeout as error:
        raise ValueError(f"{folder}: another process is running in this folder") from error
    try:
        results = folder / RESULTS
        attempts = read_attempts(results)
        _cut_half_line(results)
        yield Store(folder, attempts)
    finally:
        lock.release()


def read_attempts(results: Path) -> dict[str, Attempt]:
    """The last complete attempt at each cell, by key; half a line at the end is ignored.

    Raises:
        ValueError: a line that is not a row, other than half a line at the very end.
    """
    attempts: dict[str, Attempt] = {}
    pending: dict[str, list[Row]] = {}
    content = results.read_bytes() if results.exists() else b""
    for number, line in enumerate(_whole_lines(content), start=1):
        try:
            row = read_row(line.decode())
        except ValueError as error:
            raise ValueError(f"{results}:{number}: damaged line: {error}") from error
        if row.kind == END_OF_CELL:
            attempts[row.key] = _end_attempt(row, pending.pop(row.key, []), f"{results}:{number}")
        else:
            pending.setdefault(row.key, []).append(row)
    return attempts


def _end_attempt(end: Row, rows: Sequence[Row], where: str) -> Attempt:
    """The attempt that `end` closes; an attempt that was cut off may have left rows before its."""
    count = end.facts.get("rows", 0)
    if count > len(rows):
        raise ValueError(f"{where}: damaged: {count} rows belong before it, {len(rows)} are there")
    return Attempt(end, tuple(rows[len(rows) - count :]))


def rows_of(keys: Sequence[str], attempts: Mapping[str, Attempt]) -> list[Row]:
    """The rows of the cells with these keys, in this order."""
    done = [attempts[key] for key in keys if key in attempts]
    return [
        row for attempt in done for row in (attempt.rows if attempt.finished else [attempt.end])
    ]


def read_run(folder: Path) -> Run:
    """Read a run folder: the rows of its last plan, then the derived ones.

    Raises:
        ValueError: not a run folder, or damaged.
    """
    if not (folder / RESULTS).is_file():
        raise ValueError(f"{folder}: not a run folder (it holds no {RESULTS})")
    attempts = read_attempts(folder / RESULTS)
    summary = _read_json(folder / SUMMARY)
    keys = [cell["key"] for cell in summary.get("cells", [])] or list(attempts)
    derived = [read_row(json.dumps(row)) for row in summary.get("derived", [])]
    return Run(
        folder=folder,
        config=_read_config(folder / CONFIG),
        environment=_read_json(folder / ENVIRONMENT),
        summary=summary,
        rows=(*rows_of(keys, attempts), *derived),
    )


def _whole_lines(content: bytes) -> list[bytes]:
    lines = content.split(b"\n")
    if lines.pop():
        logger.warning("%s: half a line at the end is dropped; its cell will be run again", RESULTS)
    return lines


def _cut_half_line(results: Path) -> None:
    """Make the file end with a whole line, so that appending cannot join two halves."""
    if not results.exists():
        return
    whole = results.read_bytes().rfind(b"\n") + 1
    if whole < results.stat().st_size:
        os.truncate(results, whole)


def _read_config(path: Path) -> dict[str, Any]:
    try:
        return yaml.safe_load(path.read_text(encoding="utf-8")) if path.exists() else {}
    except yaml.YAMLError as error:
        raise ValueError(f"{path}: not YAML: {' '.join(str(error).split())}") from error


def _read_json(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise ValueError(f"{path}:{error.lineno}:{error.colno}: {error.msg}") from error
    return data if isinstance(data, dict) else {}


def _replace(path: Path, text: str) -> None:
    """Write a file so that a reader sees the old or the new content, never half of it."""
    temporary = path.with_suffix(path.suffix + ".tmp")
    with temporary.open("w", encoding="utf-8") as file:
        file.write(text if text.endswith("\n") else text + "\n")
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
