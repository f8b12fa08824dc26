"""What emulating one operand costs, next to the FP32 GEMM that it feeds (width 256, 4096 tokens).

Minima of one run are comparable; the saved results (`--benchmark-json FILE`) hold their ratio too.
"""

from __future__ import annotations

import timeit

import pytest
import torch
from pytest_benchmark.fixture import BenchmarkFixture

from formats import load_format
from kernels.cpu import cpu_path
from kernels.emulate import Treatment, emulate
from kernels.hadamard import Hadamard
from kernels.rounding import Draws

TOKENS, WIDTH = 4096, 256

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def gemm_seconds() -> float:
    x, weight = torch.randn(TOKENS, WIDTH), torch.randn(WIDTH, WIDTH)
    return min(timeit.repeat(lambda: x @ weight.t(), number=1, repeat=30))


@pytest.mark.parametrize("size", [None, 16])
@pytest.mark.parametrize("draws", [None, Draws(seed=1)], ids=["nearest", "stochastic"])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("name", ["e2m1", "nvfp4"])
def test_operand(
    benchmark: BenchmarkFixture,
    gemm_seconds: float,
    name: str,
    axis: int,
    draws: Draws | None,
    size: int | None,
) -> None:
    signs = None
    if size is not None:
        signs = torch.tensor(Hadamard.from_seed(size, seed=1).signs, dtype=torch.int8)
    treatment = Treatment(load_format(name), axis, signs, draws)
    benchmark.extra_info["path"] = f"{cpu_path().name}: {cpu_path().reason}"
    benchmark.pedantic(
        emulate, (torch.randn(TOKENS, WIDTH), [treatment]), rounds=20, warmup_rounds=2
    )
    benchmark.extra_info["ratio_to_gemm"] = benchmark.stats.stats.min / gemm_seconds
