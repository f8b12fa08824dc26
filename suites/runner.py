"""Running the cells of a plan, one after another, into a run folder.

A cell that raises one of `CELL_ERRORS` failed: it is recorded, the others still run, and the run
ends with exit status 1. Anything else that a cell raises is a fault of ours and ends the run with a
traceback. Whatever happens, finished cells stay finished and the summary says how the run ended.
"""

from __future__ import annotations

import logging
import signal
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import FrameType

from suites.experiment import Cell, Context, Experiment
from suites.progress import RunProgress
from suites.rows import Row
from suites.store import Store

logger = logging.getLogger(__name__)

# torch.OutOfMemoryError and most of what CUDA reports are RuntimeErrors.
CELL_ERRORS = (ArithmeticError, MemoryError, OSError, RuntimeError, ValueError)


def run_cells(
    experiment: Experiment, cells: Sequence[Cell], store: Store, context: Context, resume: bool
) -> list[Row]:
    """Run what is not finished yet, and return the rows of all cells with the derived ones.

    Args:
        resume: whether cells that an earlier run finished are skipped.

    Raises:
        KeyboardInterrupt: on SIGINT or SIGTERM, after the summary was marked "interrupted".
    """
    pending = [cell for cell in cells if not (resume and store.is_finished(cell))]
    if len(pending) < len(cells):
        logger.info("%d of %d cells are finished already", len(cells) - len(pending), len(cells))
    estimates = [experiment.estimate_seconds(cell) for cell in pending]
    store.write_summary("running", cells, [])
    ended = "failed"
    try:
        with _sigterm_interrupts(), RunProgress(estimates) as progress:
            context = replace(context, progress=progress.step)
            for cell in pending:
                progress.start_cell(cell.label)
                error = _run_cell(experiment, cell, store, context)
                progress.end_cell(error)
        ended = "ok" if all(store.is_finished(cell) for cell in cells) else "failed"
    except KeyboardInterrupt:
        ended = "interrupted"
        raise
    finally:
        rows = store.rows(cells)
        derived = experiment.derive(rows)
        store.write_summary(ended, cells, derived)
    return [*rows, *derived]


def _run_cell(experiment: Experiment, cell: Cell, store: Store, context: Context) -> str | None:
    """Run one cell and record it; returns what went wrong, if anything did."""
    started = time.monotonic()
    error = trace = None
    rows: list[Row] = []
    try:
        rows = list(experiment.run(cell, context))
        error = None if rows else "no data: the cell gave no rows"
    except CELL_ERRORS as failure:
        error = f"{type(failure).__name__}: {' '.join(str(failure).split())}"
        trace = traceback.format_exc()
    store.append(cell, rows, time.monotonic() - started, error, trace)
    return error


@contextmanager
def _sigterm_interrupts() -> Iterator[None]:
    """Let SIGTERM, which schedulers send, end a run as Ctrl-C does."""

    def interrupt(signum: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    previous = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)
