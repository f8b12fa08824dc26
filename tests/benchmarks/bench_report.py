"""How long a report of about sixty training cells takes to write.

    python -m pytest tests/benchmarks/bench_report.py

Nothing is asserted: the target, under five seconds on two cores, is for an otherwise idle machine.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from reports import write_report
from tests.reports.rows_fixture import ENVIRONMENTS, all_rows, training

RECIPES = {f"recipe-{i}": (i / 10, 1.0, 20.0) for i in range(20)}


@pytest.mark.benchmark(group="report")
def test_write_a_report_of_sixty_cells(benchmark: BenchmarkFixture, tmp_path: Path) -> None:
    rows = [*training(seeds=3, steps=3000, recipes=RECIPES), *all_rows()]
    benchmark.pedantic(
        write_report, (rows, ENVIRONMENTS, tmp_path / "report.html"), rounds=3, warmup_rounds=1
    )
