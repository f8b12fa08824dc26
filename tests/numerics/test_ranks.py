"""Several ranks, with gloo on this machine: what is replicated stays equal, the rest differs."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from formats import load_recipe
from kernels import convert
from suites.models import LanguageModel
from tests.numerics.ranks import MIXTURE, WORLD, everywhere, inputs, outlier_layer, run

Found = list[dict[str, Any]]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Found:
    """What each rank saved."""
    folder = tmp_path_factory.mktemp("ranks")
    torch.multiprocessing.spawn(run, args=(str(folder),), nprocs=WORLD)
    return [torch.load(Path(folder) / f"rank{rank}.pt") for rank in range(WORLD)]


def test_B46_replicas_stay_bitwise_equal_and_move(found: Found) -> None:
    first = found[0]["replicas"]
    for other in found[1:]:
        assert all(torch.equal(a, b) for a, b in zip(first, other["replicas"], strict=True))
    assert not torch.equal(first[0], first[1])


@pytest.mark.parametrize("name", ["nvfp4", "nvint4-ufp4"])
@pytest.mark.parametrize("rows", [5, 48])
def test_B42_B73_a_sharded_weight_is_quantised_as_the_whole(
    found: Found, name: str, rows: int
) -> None:
    """FSDP2 hands over the gathered weight; with 5 rows on 4 ranks one rank holds none."""
    model = outlier_layer(rows)
    convert(model, everywhere(name))
    y = model(inputs(0, 0))
    y.sum().backward()
    gradient = model[0].weight.grad
    assert gradient is not None
    for rank in range(WORLD):
        sharded = found[rank]["sharded"]
        assert torch.equal(sharded[f"{name} {rows}"], y.detach())
        assert torch.allclose(sharded[f"{name} {rows} gradient"], gradient, rtol=1e-6)


@pytest.mark.parametrize("operand", ["dy.dgrad", "dy.wgrad"])
def test_B49_every_rank_draws_its_own_bits_for_its_own_tokens(found: Found, operand: str) -> None:
    bits = [rank["seeds"][operand].double() for rank in found]
    for left, right in combinations(bits, 2):
        assert not torch.equal(left, right)
        both = torch.stack((left.flatten(), right.flatten()))
        assert abs(float(torch.corrcoef(both)[0, 1])) < 5 / left.numel() ** 0.5


def test_B82_experts_without_tokens_hold_nobody_up(found: Found) -> None:
    """The step completes, and idle experts have gradients of zero, not None."""
    parameters = {name for name, _ in LanguageModel(MIXTURE, 8, 0).named_parameters()}
    for rank in found:
        gradients = rank["idle experts"]
        assert set(gradients) == parameters
        idle = [g for name, g in gradients.items() if "experts.2" in name or "experts.3" in name]
        assert idle and not any(g.any() for g in idle)


def test_the_unsharded_layer_is_an_ordinary_one() -> None:
    """So that equality with it means something: without the outlier the scales are others."""
    loud = outlier_layer(48)
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Linear(32, 48, bias=False))
    outputs = [convert(m, load_recipe("nvint4-ufp4"))(inputs(0, 0)) for m in (plain, loud)]
    assert not torch.equal(outputs[0][:, 1:], outputs[1][:, 1:])
