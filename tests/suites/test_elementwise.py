"""Elementwise work: right, and one graph each, so that a GPU runs what is tested here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from suites.elementwise import cross_entropy, gated, gated_ragged, rms_norm, rotate, split_heads
from suites.models import rotary_tables


def random(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0), requires_grad=True)


COSINE, SINE = rotary_tables(8, 6)
TARGETS = torch.tensor([[1, 2], [0, 4]])
CALLS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "rms_norm": (rms_norm, (random(3, 16), random(16), torch.bfloat16)),
    "gated": (gated, (random(3, 16),)),
    "gated-ragged": (gated_ragged, (random(3, 16),)),
    "split_heads": (split_heads, (random(2, 6, 3 * 32), COSINE, SINE, 4)),
    "cross_entropy": (cross_entropy, (random(2, 2, 5), TARGETS)),
}


@pytest.mark.parametrize("name", CALLS)
def test_each_is_one_graph_forward_and_backward(name: str) -> None:
    function, arguments = CALLS[name]
    written = function.__wrapped__  # type: ignore[attr-defined]
    torch.compiler.reset()
    traced = torch.compile(written, backend="aot_eager", fullgraph=True)
    results = [written(*arguments), traced(*arguments)]
    sums = [sum(y.float().sum() for y in (r if isinstance(r, tuple) else (r,))) for r in results]
    gradients = [torch.autograd.grad(total, arguments[0])[0] for total in sums]
    assert torch.allclose(*sums) and torch.allclose(*gradients, atol=1e-6)


def test_rms_norm_is_that_of_torch_in_the_dtype_asked_for() -> None:
    x, norm = random(3, 16), nn.RMSNorm(16)
    assert torch.equal(rms_norm(x, norm.weight, torch.float32), norm(x))
    assert torch.equal(rms_norm(x, norm.weight, torch.bfloat16), norm(x).bfloat16())


def test_gate_is_the_first_half() -> None:
    x = random(3, 16)
    assert torch.equal(gated(x), F.silu(x[:, :8]) * x[:, 8:])


def test_heads_are_cut_in_order_and_values_are_not_rotated() -> None:
    qkv = random(2, 6, 3 * 32)
    q, k, v = split_heads(qkv, COSINE, SINE, 4)
    assert q.shape == k.shape == v.shape == (2, 4, 6, 8)
    assert torch.equal(v[0, 1, 2], qkv[0, 2, 64 + 8 : 64 + 16])
    assert torch.equal(k[1, 3], rotate(qkv[1, :, 32 + 24 : 64], COSINE, SINE))
    assert torch.equal(q[:, :, 0], qkv[:, 0, :32].unflatten(-1, (4, 8)))  # position 0: no angle
