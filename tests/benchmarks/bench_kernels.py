"""The cases of the suite `kernels` under pytest-benchmark, beside the roof of each.

    python -m pytest tests/benchmarks/bench_kernels.py

Times include launching. Nothing is asserted but that results are right.
"""

from __future__ import annotations

import pytest
import torch
from pytest_benchmark.fixture import BenchmarkFixture

from suites.catalog import load_suite, resolve_settings
from suites.experiment import Cell, Selection
from suites.kernel_cases import make_case
from suites.kernel_speed import KernelSpeed, KernelSpeedSettings

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def cells() -> list[Cell]:
    settings = resolve_settings(load_suite("kernels"), KernelSpeedSettings, DEVICE, [])
    assert isinstance(settings, KernelSpeedSettings)
    return KernelSpeed().cells(settings, Selection(device=DEVICE))


@pytest.mark.parametrize("what", ["roof", "candidate"])
@pytest.mark.parametrize("cell", cells(), ids=lambda cell: cell.label)
def test_kernel(benchmark: BenchmarkFixture, cell: Cell, what: str) -> None:
    case = make_case(cell.config, DEVICE)
    case.check()
    benchmark.group = cell.label
    call = case.candidate if what == "candidate" else case.roof

    def run() -> None:
        call(case.inputs[0])
        if DEVICE == "cuda":
            torch.cuda.synchronize()

    benchmark(run)
