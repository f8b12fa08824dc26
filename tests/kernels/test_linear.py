"""The quantised linear layer: exact gradients where nothing is rounded, else straight-through."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from formats import OPERANDS, Recipe, list_recipes, load_format, load_recipe, plain_recipe
from kernels import Hadamard, QuantizedLinear, convert, quantize
from kernels.gemms import compute_dtype, hadamard_signs

QUANTISING = [
    entry.name for entry in list_recipes() if not load_recipe(entry.name).is_high_precision
]


@pytest.fixture(autouse=True)
def eager() -> Iterator[None]:
    """Emulation compiles itself, which is other files' business and takes seconds."""
    with torch.compiler.set_stance("force_eager"):
        yield


def identity(hadamard: int | None = None) -> Recipe:
    """A recipe that rounds nothing, with or without rotation."""
    recipe = load_recipe("bf16")
    operands = {name: replace(recipe.operands[name], hadamard=hadamard) for name in OPERANDS}
    return replace(recipe, operands=operands)


def layer(
    recipe: Recipe, inside: int = 32, outside: int = 48, bias: bool = True, **facts: object
) -> QuantizedLinear:
    torch.manual_seed(0)
    linear = nn.Linear(inside, outside, bias=bias, **facts)  # type: ignore[arg-type]
    return QuantizedLinear(linear, "layer", 0, recipe, seed=0)


def randn(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def gradients(module: nn.Module, x: Tensor, dy: Tensor) -> tuple[Tensor, ...]:
    """Output, dX and the parameters' gradients."""
    x = x.clone().requires_grad_()
    module.zero_grad()
    y = module(x)
    y.backward(dy)
    assert x.grad is not None
    return (
        y.detach(),
        x.grad,
        *(p.grad.clone() for p in module.parameters() if p.grad is not None),
    )


def test_gradcheck_with_an_identity_quantiser() -> None:
    module = layer(identity(), 5, 3).double()
    x = randn(2, 4, 5).double().requires_grad_()
    assert torch.autograd.gradcheck(lambda x, w: _with_weight(module, x, w), (x, module.weight))


def _with_weight(module: QuantizedLinear, x: Tensor, weight: Tensor) -> Tensor:
    return torch.func.functional_call(module, {"weight": weight}, (x,))


@pytest.mark.parametrize("shape", [(16, 32), (3, 32), (2, 5, 32), (0, 32)])
def test_B59_rotation_cancels_when_nothing_is_rounded(shape: tuple[int, ...]) -> None:
    module = layer(identity(hadamard=16))
    plain = nn.Linear(32, 48)
    plain.load_state_dict(module.state_dict())
    x, dy = randn(*shape), randn(*shape[:-1], 48, seed=2)
    for found, exact in zip(gradients(module, x, dy), gradients(plain, x, dy), strict=True):
        assert torch.allclose(found, exact, atol=1e-5)


@pytest.mark.parametrize("name", QUANTISING)
def test_gradients_are_the_gemms_of_the_quantised_operands(name: str) -> None:
    """Straight through: dX = Q(dY) Q(W), dW = Q(dY)^T Q(X), each operand along its own axis."""
    recipe = load_recipe(name)
    module = layer(recipe)
    x, dy = randn(64, 32), randn(64, 48, seed=2)
    y, dx, dw, db = gradients(module, x, dy)
    tensors = {"x": x, "w": module.weight.detach(), "dy": dy}
    q = {
        operand: _quantised(module, operand, tensors[operand.split(".")[0]]) for operand in OPERANDS
    }
    assert torch.allclose(y, q["x.fprop"] @ q["w.fprop"].t() + module.bias, atol=1e-5)
    assert torch.allclose(dx, q["dy.dgrad"] @ q["w.dgrad"], atol=1e-5)
    assert torch.allclose(dw, q["dy.wgrad"].t() @ q["x.wgrad"], atol=1e-4)
    assert torch.allclose(db, dy.sum(0), atol=1e-5)


def _quantised(module: QuantizedLinear, operand: str, tensor: Tensor) -> Tensor:
    treatment = module.treatment(operand)
    signs = treatment.signs
    hadamard = None if signs is None else Hadamard(tuple(signs.tolist()))
    rounding = "nearest" if treatment.draws is None else "stochastic"
    found = quantize(
        tensor, treatment.format, treatment.axis, rounding, hadamard, seed=treatment.draws
    )
    return found.dequantize()


@pytest.mark.parametrize("name", ["e2m1", "int4"])
def test_B68_the_gradient_is_one_at_and_beyond_the_clamp_limit(name: str) -> None:
    """A quantiser behind an identity weight: elements on the limit, beyond it and below it."""
    fmt = replace(load_format(name), scale=load_format("mxfp4-floor").scale, block=(1, 32))
    exact = replace(identity().operands["w.fprop"])
    operands = {**identity().operands, "x.fprop": replace(exact, format=fmt)}
    module = layer(replace(identity(), operands=operands), 32, 32, bias=False)
    with torch.no_grad():
        module.weight.copy_(torch.eye(32))
    assert fmt.element is not None
    gmax = fmt.element.max
    x = torch.zeros(1, 32)
    x[0, :4] = torch.tensor([gmax, -gmax, gmax * 1.1, gmax * 0.98])
    y, dx, _ = gradients(module, x, torch.ones(1, 32))
    assert y[0, :3].tolist() == [gmax, -gmax, gmax]
    assert dx.tolist() == [[1.0] * 32]


@pytest.mark.parametrize("name", QUANTISING)
@pytest.mark.parametrize(("inside", "outside"), [(256, 16), (48, 80), (40, 464)])
def test_B30_B31_no_shape_fails_late(name: str, inside: int, outside: int) -> None:
    """Sizes that are no multiples of any block or transform, three tokens; near FP32's result."""
    module = layer(load_recipe(name), inside, outside)
    plain = nn.Linear(inside, outside)
    plain.load_state_dict(module.state_dict())
    x, dy = randn(3, inside), randn(3, outside, seed=2)
    for found, exact in zip(gradients(module, x, dy), gradients(plain, x, dy), strict=True):
        assert found.shape == exact.shape
        assert (found - exact).norm() < 0.5 * exact.norm()


@pytest.mark.parametrize("name", ["ufp4", "nvfp4", "mxfp4"])
def test_B41_no_tokens_give_no_output_and_zero_gradients(name: str) -> None:
    module = layer(load_recipe(name))
    y, dx, dw, db = gradients(module, torch.zeros(0, 32), torch.zeros(0, 48))
    assert y.shape == (0, 48) and dx.shape == (0, 32)
    assert dw.shape == (48, 32) and not dw.any() and not db.any()


def test_B63_accumulated_gradients_add_up() -> None:
    """Four microbatches with gradients 1, 2, 3, 4 give 10, and equal one large batch."""
    module = layer(identity(), 1, 1, bias=False)
    module.zero_grad()
    for gradient in (1.0, 2.0, 3.0, 4.0):
        module(torch.ones(1, 1)).backward(torch.full((1, 1), gradient))
    assert module.weight.grad is not None and module.weight.grad.item() == 10.0
    large = gradients(module, torch.ones(4, 1), torch.tensor([[1.0], [2.0], [3.0], [4.0]]))
    assert large[2].item() == 10.0


@pytest.mark.parametrize("name", ["ufp4", "nvfp4"])
def test_B63_microbatches_of_a_quantised_layer_add_up(name: str) -> None:
    module = layer(load_recipe(name))
    batches = [(randn(16, 32, seed=s), randn(16, 48, seed=s + 9)) for s in range(3)]
    alone = [gradients(module, x, dy)[2] for x, dy in batches]
    module.zero_grad()
    for x, dy in batches:
        module(x).backward(dy)
    assert module.weight.grad is not None
    assert torch.allclose(module.weight.grad, sum(alone), atol=1e-5)


def test_a_layer_used_twice_gathers_both_gradients() -> None:
    module, once = layer(identity(), 32, 32), layer(identity(), 32, 32)
    x = randn(8, 32)
    module(module(x)).sum().backward()
    inner = once(x).detach()
    once(inner).sum().backward()
    second = once.weight.grad.clone()
    once.zero_grad()
    once(x).backward(torch.ones(8, 32) @ once.weight.detach())
    assert module.weight.grad is not None and once.weight.grad is not None
    assert torch.allclose(module.weight.grad, second + once.weight.grad, atol=1e-4)


@pytest.mark.parametrize("preserve", [True, False])
def test_B50_B67_recomputation_replays_the_same_bits(preserve: bool) -> None:
    """Stochastic rounding in the forward pass too, with the generator's state kept or not."""
    recipe = plain_recipe(load_format("nvint4"))
    operands = {n: replace(op, rounding="stochastic") for n, op in recipe.operands.items()}
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 32))
    convert(net, replace(recipe, operands=operands))

    def recomputed(x: Tensor) -> Tensor:
        return checkpoint(net, x, use_reentrant=False, preserve_rng_state=preserve)

    found = []
    for run in (net, recomputed):
        net.zero_grad()
        x = randn(16, 32).requires_grad_()
        run(x).square().sum().backward()
        found.append([x.grad, *(p.grad.clone() for p in net.parameters())])
    for plain, again in zip(*found, strict=True):
        assert torch.equal(plain, again)


def test_B64_nothing_of_a_weight_is_cached() -> None:
    module, x = layer(load_recipe("nvfp4")), randn(8, 32)
    with torch.no_grad():
        before = module(x)
        module.weight.mul_(2)
        assert not torch.equal(module(x), before)
        state = module.state_dict()
        module.load_state_dict({**state, "weight": state["weight"] / 2})
        assert torch.equal(module(x), before)


def test_B66_no_scale_is_delayed() -> None:
    """Each operand is scaled by its own amax: what came before leaves no trace."""
    module = layer(load_recipe("nvfp4"))
    small = randn(16, 32)
    fresh = module(small)
    module(8 * small)
    assert torch.equal(module(small), fresh)
    assert {name for name, _ in module.named_buffers()} == {"step", "signs"}


def test_B22_changing_the_dtype_leaves_signs_and_step_alone() -> None:
    module = layer(load_recipe("ufp4"))
    signs = module.signs
    assert signs is not None
    expected = signs.clone()
    for change in (lambda m: m.to(torch.bfloat16), lambda m: m.half(), lambda m: m.double()):
        changed = change(module)
        assert changed.signs.dtype == torch.int8 and changed.step.dtype == torch.int64
        assert torch.equal(changed.signs, expected)
    assert set(module.state_dict()) == {"weight", "bias"}


def test_B22_scales_of_a_bf16_layer_are_those_of_fp32() -> None:
    module = layer(load_recipe("nvint4-ufp4")).bfloat16()
    weight = module.weight.detach()
    narrow = _quantised(module, "w.fprop", weight)
    assert torch.equal(narrow, _quantised(module, "w.fprop", weight.float()))


def test_the_tensor_scale_is_applied_in_fp32() -> None:
    """Rounded to BF16, it would be a gain error of its own, up to 2^-8."""
    module = layer(load_recipe("nvfp4"), 512, 16, bias=False).bfloat16()
    x = randn(256, 512).bfloat16()
    q_x, q_w = (
        _quantised(module, name, tensor)
        for name, tensor in (("x.fprop", x), ("w.fprop", module.weight.detach()))
    )
    exact = q_x.double() @ q_w.double().t()
    found = module(x).detach().double()
    assert float((found * exact).sum() / (exact * exact).sum()) == pytest.approx(1, abs=2e-4)


def test_autocast_decides_the_dtype_and_parameters_stay() -> None:
    module, x = layer(load_recipe("ufp4")), randn(8, 32)
    with torch.autocast("cpu", torch.bfloat16):
        assert compute_dtype(x) == torch.bfloat16
        y = module(x)
    assert y.dtype == torch.bfloat16
    y.sum().backward()
    assert module.weight.grad is not None and module.weight.grad.dtype == torch.float32


def test_no_grad_gives_the_same_output_and_keeps_nothing() -> None:
    module, x = layer(load_recipe("ufp4")), randn(8, 32)
    with torch.no_grad():
        y = module(x)
    assert not y.requires_grad and torch.equal(y, module(x).detach())
    frozen = layer(load_recipe("ufp4")).requires_grad_(False)
    grad_x = x.clone().requires_grad_()
    frozen(grad_x).sum().backward()
    assert grad_x.grad is not None and frozen.weight.grad is None


def test_steps_and_token_offsets_name_the_draws() -> None:
    module, x, dy = layer(load_recipe("ufp4")), randn(32, 32), randn(32, 48, seed=2)
    first = gradients(module, x, dy)
    assert all(torch.equal(a, b) for a, b in zip(first, gradients(module, x, dy), strict=True))
    module.step.fill_(1)
    assert not torch.equal(gradients(module, x, dy)[1], first[1])
    module.step.fill_(0)
    module.token_offset = 32
    assert not torch.equal(gradients(module, x, dy)[1], first[1])


def test_signs_drawn_per_step_change_with_it() -> None:
    per_step = replace(load_recipe("ufp4"), signs="step")
    by_step = [hadamard_signs(per_step, seed=0, step=step) for step in (0, 1)]
    fixed = [hadamard_signs(load_recipe("ufp4"), seed=0, step=step) for step in (0, 1)]
    assert by_step[0] is not None and by_step[1] is not None
    assert fixed[0] is not None and fixed[1] is not None
    assert not torch.equal(by_step[0], by_step[1]) and torch.equal(fixed[0], fixed[1])
    assert hadamard_signs(load_recipe("bf16"), seed=0, step=0) is None
