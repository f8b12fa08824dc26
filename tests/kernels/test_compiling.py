"""Compiling: only for tensors on a GPU."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from kernels.compiling import compiled_on_gpu

calls: list[bool] = []


@compiled_on_gpu()
def double(x: Tensor) -> Tensor:
    """Twice x."""
    calls.append(torch.compiler.is_compiling())
    return 2 * x


def test_cpu_runs_the_function_as_written() -> None:
    calls.clear()
    assert double(torch.tensor(2.0)).item() == 4.0
    assert calls == [False]
    assert double.__doc__ == "Twice x."


@compiled_on_gpu(dynamic=True)
def triple(x: Tensor) -> Tensor:
    """Three times x."""
    return 3 * x


@pytest.mark.gpu
def test_gpu_compiles_once_for_all_shapes() -> None:
    before = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    for size in (2, 3, 5):
        assert torch.equal(triple(torch.ones(size, device="cuda")).cpu(), torch.full((size,), 3.0))
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] - before == 1
