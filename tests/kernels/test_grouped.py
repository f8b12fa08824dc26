"""Experts in one parameter equal the same experts run alone, with or without tokens."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from formats import Recipe, load_recipe
from kernels import GroupedLinear, QuantizedLinear, convert
from kernels.grouped import QuantizedGroupedLinear

SPLITS = [[5, 0, 33, 26], [0, 64, 0, 0], [0, 0, 0, 0], [3, 5, 1, 16]]
RECIPES = pytest.mark.parametrize("name", ["e2m1-ref", "ufp4", "nvfp4", "mxfp4"])


def everywhere(name: str) -> Recipe:
    return replace(load_recipe(name), keep=(), keep_first=0.0, keep_last=0.0)


def experts(name: str, depth: int = 40) -> QuantizedGroupedLinear:
    torch.manual_seed(0)
    grouped = convert(GroupedLinear(4, depth, 24), everywhere(name), seed=3)
    assert isinstance(grouped, QuantizedGroupedLinear)
    return grouped


def alone(grouped: QuantizedGroupedLinear, expert: int) -> QuantizedLinear:
    linear = nn.Linear(grouped.in_features, grouped.out_features, bias=False)
    linear.weight = nn.Parameter(grouped.weight[expert].detach().clone())
    index = grouped.index + expert
    return QuantizedLinear(linear, "alone", index, grouped.recipe, grouped.seed)


def run(layer: nn.Module, x: Tensor, dy: Tensor, *arguments: object) -> tuple[Tensor, ...]:
    x = x.clone().requires_grad_()
    y = layer(x, *arguments)
    y.backward(dy)
    gradient = layer.weight.grad
    assert x.grad is not None and isinstance(gradient, Tensor)
    return y.detach(), x.grad, gradient


@RECIPES
@pytest.mark.parametrize("splits", SPLITS, ids=str)
@pytest.mark.parametrize("depth", [40, 464])
def test_B31_B41_B81_each_expert_equals_itself_alone(
    name: str, splits: list[int], depth: int
) -> None:
    grouped = experts(name, depth)
    x, dy = torch.randn(sum(splits), depth), torch.randn(sum(splits), 24)
    x *= torch.arange(1, sum(splits) + 1)[:, None]  # a scale shared with a neighbour would show
    y, dx, dw = run(grouped, x, dy, splits)
    assert y.shape == (sum(splits), 24)
    parts = zip(*(t.split(splits) for t in (x, dy, y, dx)), strict=True)
    for expert, (x_part, dy_part, y_part, dx_part) in enumerate(parts):
        expected = run(alone(grouped, expert), x_part, dy_part)
        for found, exact in zip((y_part, dx_part, dw[expert]), expected, strict=True):
            assert torch.equal(found, exact)


def test_B41_B82_an_expert_without_tokens_gets_a_zero_gradient() -> None:
    grouped = experts("nvfp4")
    *_, dw = run(grouped, torch.randn(8, 40), torch.randn(8, 24), [0, 8, 0, 0])
    assert dw[1].any() and not dw[[0, 2, 3]].any()


@pytest.mark.parametrize("splits", [[1, 2, 3], [1, 2, 3, 4], [9, -1, 0, 0]], ids=str)
def test_B81_counts_that_do_not_fit_are_refused(splits: list[int]) -> None:
    for layer in (GroupedLinear(4, 40, 24), experts("nvfp4")):
        with pytest.raises(
            ValueError, match="must be 4 counts, not negative, that add up to the 8"
        ):
            layer(torch.randn(8, 40), splits)


def test_unquantised_experts_multiply_their_own_rows() -> None:
    grouped = GroupedLinear(3, 8, 4)
    x = torch.randn(7, 8)
    expected = [x[row] @ grouped.weight[e].t() for row, e in enumerate([0, 0, 2, 2, 2, 2, 2])]
    assert torch.allclose(grouped(x, [2, 0, 5]), torch.stack(expected), atol=1e-6)


def test_convert_swaps_experts_between_linear_layers_and_numbers_their_streams() -> None:
    class Mixture(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.router = nn.Linear(8, 8), nn.Linear(8, 4)
            self.experts, self.last = GroupedLinear(4, 8, 8), nn.Linear(8, 8)

    model = convert(Mixture(), replace(everywhere("ufp4"), keep=("router",)))
    assert model.quantization.converted == ("first", "experts", "last")
    assert model.quantization.kept == {"router": "router"}
    assert model.quantization.gemms == 3 * 6
    assert [layer.index for layer in model.quantization.layers] == [0, 1, 5]
    model.quantization.set_step(7)
    assert int(model.experts.step) == 7
    kept = convert(Mixture(), replace(everywhere("ufp4"), keep=("experts",)))
    assert type(kept.experts) is GroupedLinear


def test_experts_compile_into_one_graph() -> None:
    grouped = experts("ufp4")
    x = torch.randn(16, 40)
    expected = grouped(x, [3, 0, 12, 1])
    compiled = torch.compile(grouped, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(x, [3, 0, 12, 1]), expected)
