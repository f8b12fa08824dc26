"""The layer inside torch.compile: one graph, the eager numbers, fresh draws at each step."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from formats import Recipe, load_format, load_recipe, plain_recipe
from kernels import QuantizedLinear, convert, observe
from kernels.linear_op import quantized_linear

DEVICES = pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
RECIPES = ["e2m1-ref", "ufp4", "nvfp4", "mxfp4"]


@pytest.fixture(autouse=True)
def no_graphs() -> None:
    """Those of other tests are not counted."""
    torch._dynamo.reset()


def everywhere(name: str) -> Recipe:
    return replace(load_recipe(name), keep=(), keep_first=0.0, keep_last=0.0)


def network(recipe: Recipe, device: str = "cpu") -> nn.Module:
    """Two layers whose sizes are no multiples of a block, without a bias to be added up."""
    torch.manual_seed(0)
    layers = nn.Linear(40, 56, bias=False), nn.Linear(56, 24, bias=False)
    return convert(nn.Sequential(*layers).to(device), recipe)


def results(run: Callable[[Tensor], Tensor], model: nn.Module, x: Tensor) -> list[Tensor]:
    """Output, dX and dW of each layer."""
    model.zero_grad()
    x = x.clone().requires_grad_()
    y = run(x)
    y.backward(torch.linspace(-1, 1, y.numel(), device=x.device).view_as(y))
    gradients = [x.grad, *(p.grad for p in model.parameters())]
    return [y.detach(), *(g.clone() for g in gradients if g is not None)]


def graphs() -> int:
    return torch._dynamo.utils.counters["stats"]["unique_graphs"]


def check(recipe: Recipe, device: str, backend: str) -> None:
    model = network(recipe, device)
    compiled = torch.compile(model, fullgraph=True, backend=backend)
    before = graphs()
    for step in range(3):
        model.quantization.set_step(step)
        x = torch.randn(2, 9, 40, device=device)
        plain, graphed = results(model, model, x), results(compiled, model, x)
        assert len(plain) == 4
        assert all(torch.equal(a, b) for a, b in zip(plain, graphed, strict=True))
    assert graphs() - before == 1


@DEVICES
@pytest.mark.parametrize("name", RECIPES)
def test_one_graph_equals_the_eager_layers_at_every_step(name: str, device: str) -> None:
    check(everywhere(name), device, "aot_eager")


@pytest.mark.slow
@DEVICES
@pytest.mark.parametrize("name", ["ufp4", "nvfp4"])
def test_compiled_code_equals_the_eager_layers(name: str, device: str) -> None:
    if device == "cpu" and not (shutil.which("c++") or shutil.which("g++")):
        pytest.skip("torch.compile needs a C++ compiler")
    check(everywhere(name), device, "inductor")


def test_operands_in_high_precision_are_no_views_of_the_inputs() -> None:
    recipe = plain_recipe(load_format("nvfp4"))
    exact = load_recipe("bf16").operands
    kept = {name: exact[name] for name in ("x.wgrad", "w.dgrad", "dy.dgrad", "dy.wgrad")}
    check(replace(recipe, operands={**recipe.operands, **kept}), "cpu", "aot_eager")


def test_a_frozen_weight_and_an_input_without_gradient() -> None:
    model = network(everywhere("ufp4"))
    model[0].requires_grad_(False)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    found = []
    for run in (model, compiled):
        model.zero_grad()
        run(torch.ones(4, 40)).sum().backward()
        assert model[0].weight.grad is None
        found.append(model[1].weight.grad.clone())
    assert torch.equal(*found)


@pytest.mark.parametrize("name", RECIPES)
def test_the_operators_schema_shapes_and_gradient_agree(name: str) -> None:
    layer = network(everywhere(name))[0]
    x = torch.randn(2, 9, 40, requires_grad=True)
    arguments = x, layer.weight, layer.step, layer.signs, layer.recipe_name, 0, 0, 0
    torch.library.opcheck(quantized_linear, arguments)


def test_autocast_decides_the_dtype_inside_a_graph() -> None:
    model = network(everywhere("nvfp4"))
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    with torch.autocast("cpu", torch.bfloat16):
        x = torch.randn(4, 40)
        assert compiled(x).dtype == torch.bfloat16
        assert torch.equal(compiled(x), model(x))


def test_an_observed_layer_of_a_compiled_model_runs_eagerly() -> None:
    model = network(everywhere("ufp4"))
    compiled = torch.compile(model, backend="aot_eager")
    x = torch.randn(16, 40)
    expected = compiled(x)
    with observe(model) as records:
        assert torch.equal(compiled(x), expected)
    assert {record.gemm for record in records} == {"fprop"}
    assert len(records) == 6


def test_an_unpickled_layer_knows_its_recipe(monkeypatch: pytest.MonkeyPatch) -> None:
    from kernels import linear_op

    layer = network(everywhere("ufp4"))[0]
    x = torch.randn(3, 40)
    expected = layer(x)
    stored = pickle.dumps(layer)
    monkeypatch.setattr(linear_op, "_recipes", {})
    again = pickle.loads(stored)
    assert isinstance(again, QuantizedLinear)
    assert torch.equal(torch.compile(again, fullgraph=True, backend="aot_eager")(x), expected)


@pytest.mark.gpu
def test_a_replayed_graph_of_a_compiled_model_draws_afresh() -> None:
    recipe = everywhere("ufp4")
    model = network(recipe, "cuda")
    compiled = torch.compile(model, fullgraph=True, mode="reduce-overhead")
    x = torch.randn(16, 40, device="cuda")
    weights = []
    for step in (0, 1, 2, 3, 3):
        model.quantization.set_step(step)
        expected = results(model, model, x)
        found = results(compiled, model, x)
        assert all(torch.equal(a, b) for a, b in zip(expected, found, strict=True))
        weights.append(found[-1])
    assert torch.equal(weights[-1], weights[-2])
    assert not torch.equal(weights[-2], weights[-3])
