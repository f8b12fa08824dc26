"""Running cells: what fails, fails alone; what is ours, is not hidden."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from suites.experiment import Cell, Context, Selection
from suites.rows import Row
from suites.runner import run_cells
from suites.store import open_store
from tests.tiny import Settings, Tiny


def run(folder: Path, settings: Settings, resume: bool = True) -> list[Row]:
    experiment = Tiny()
    cells = experiment.cells(settings, Selection())
    context = Context("cpu", "cpu", cache_dir=folder, run_dir=folder)
    with open_store(folder) as store:
        return run_cells(experiment, cells, store, context, resume)


def status(folder: Path) -> str:
    return json.loads((folder / "summary.json").read_text())["status"]


def test_rows_come_in_order_with_the_derived_ones_last(tmp_path: Path) -> None:
    rows = run(tmp_path, Settings(cells=3))
    assert [row.config.get("recipe") for row in rows] == ["r0", "r1", "r2", None]
    assert (rows[-1].kind, rows[-1].facts) == ("comparison", {"rows": 3})
    assert status(tmp_path) == "ok"


def test_a_failure_is_recorded_and_the_others_run(tmp_path: Path) -> None:
    rows = run(tmp_path, Settings(cells=3, failing=[1]))
    failure = rows[1]
    assert (failure.kind, failure.error) == ("cell", "RuntimeError: out of luck")
    assert "tiny.py" in failure.facts["trace"]
    assert [row.status for row in rows] == ["ok", "failed", "ok", "ok"]
    assert status(tmp_path) == "failed"


def test_a_divergence_is_a_result_and_not_a_failure(tmp_path: Path) -> None:
    rows = run(tmp_path, Settings(cells=2, diverging=[0]))
    assert rows[0].quantity("validation_loss").status == "diverged"
    assert status(tmp_path) == "ok"


def test_a_fault_of_ours_is_raised_and_the_run_counts_as_failed(tmp_path: Path) -> None:
    with pytest.raises(KeyError):
        run(tmp_path, Settings(cells=3, crashing=[1]))
    assert status(tmp_path) == "failed"


def test_an_interrupt_is_raised_and_the_run_counts_as_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(self: Tiny, cell: Cell, context: Context) -> list[Row]:
        raise KeyboardInterrupt

    monkeypatch.setattr(Tiny, "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, Settings())
    assert status(tmp_path) == "interrupted"


def test_progress_is_handed_to_the_cells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[tuple[int, int, str]] = []
    monkeypatch.setattr("suites.progress.RunProgress.step", lambda self, *step: steps.append(step))
    run(tmp_path, Settings(cells=2))
    assert steps == [(1, 2, "half")] * 2
