"""convert: what it swaps, what it keeps, and what it refuses to do quietly."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper

from formats import Recipe, load_recipe
from kernels import QuantizedLinear, convert

UFP4 = load_recipe("ufp4")


@pytest.fixture(autouse=True)
def eager() -> Iterator[None]:
    with torch.compiler.set_stance("force_eager"):
        yield


class Block(nn.Module):
    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 64), nn.Linear(64, width)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(torch.relu(self.up(self.norm(x))))


class Model(nn.Module):
    """A model whose head goes by a name that no list of names would have."""

    def __init__(self, blocks: int = 3, tied: bool = False) -> None:
        super().__init__()
        self.tokens = nn.Embedding(100, 32)
        self.blocks = nn.ModuleList(Block() for _ in range(blocks))
        self.readout = nn.Linear(32, 100, bias=False)
        if tied:
            self.readout.weight = self.tokens.weight

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.tokens(tokens)
        for block in self.blocks:
            x = block(x)
        return self.readout(x)


def keeping(*keep: str, **facts: float) -> Recipe:
    return replace(UFP4, keep=keep, **facts)


def test_what_was_done_is_told() -> None:
    model = convert(Model(), UFP4, seed=3)
    done = model.quantization
    assert done.converted == tuple(
        f"blocks.{n}.{part}" for n in range(3) for part in ("up", "down")
    )
    assert done.kept == {"readout": "head"}
    assert (done.gemms, done.path, done.seed, done.recipe.name) == (18, "emulated", 3, "ufp4")
    assert "BF16 rounds e1m2" in done.reason


def test_parameters_stay_the_same_objects() -> None:
    model = Model()
    before = dict(model.named_parameters())
    state = {name: value.clone() for name, value in model.state_dict().items()}
    convert(model, UFP4)
    assert all(before[name] is parameter for name, parameter in model.named_parameters())
    assert set(model.state_dict()) == set(state)


def test_B70_a_bare_layer_is_returned_converted() -> None:
    linear = nn.Linear(64, 64)
    converted = convert(linear, UFP4)
    assert isinstance(converted, QuantizedLinear) and converted.weight is linear.weight
    assert converted.quantization.gemms == 3


@pytest.mark.parametrize("model", [nn.Sequential(nn.ReLU()), nn.Embedding(4, 4)])
def test_B70_converting_nothing_is_an_error(model: nn.Module) -> None:
    with pytest.raises(ValueError, match="recipe 'ufp4' would convert nothing"):
        convert(model, UFP4)
    with pytest.raises(ValueError, match="would convert nothing"):
        convert(Model(), keeping("blocks", "head"))


def test_B70_stacked_expert_weights_are_refused_by_name() -> None:
    class Experts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.router = nn.Linear(32, 4)
            self.weights = nn.Parameter(torch.zeros(4, 32, 32))

    with pytest.raises(ValueError, match=r"'weights' \(4, 32, 32\) looks like stacked expert"):
        convert(nn.Sequential(nn.Linear(32, 32), Experts()).get_submodule("1"), UFP4)


def test_double_conversion_is_refused() -> None:
    model = convert(Model(), UFP4)
    with pytest.raises(ValueError, match="already converted"):
        convert(model, UFP4)


def test_the_high_precision_recipe_converts_nothing_and_says_so() -> None:
    model = convert(Model(), load_recipe("bf16"))
    assert model.quantization.converted == () and model.quantization.gemms == 0
    assert model.quantization.path == "high precision"
    assert set(model.quantization.kept.values()) == {"high-precision recipe"}
    assert not any(isinstance(module, QuantizedLinear) for module in model.modules())


@pytest.mark.parametrize("tied", [False, True])
def test_B69_B83_a_head_is_a_head_whatever_its_name(tied: bool) -> None:
    model = convert(Model(tied=tied), UFP4)
    assert type(model.readout) is nn.Linear
    assert (model.readout.weight is model.tokens.weight) == tied


def test_B83_a_router_is_recognised_by_its_experts() -> None:
    class Mixture(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gate = nn.Linear(32, 2)
            self.experts = nn.ModuleList(nn.Linear(32, 32) for _ in range(2))

    class Gated(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gate, self.up = nn.Linear(32, 32), nn.Linear(32, 32)

    assert convert(nn.Sequential(Mixture()), UFP4).quantization.kept == {"0.gate": "router"}
    assert "gate" in convert(Gated(), UFP4).quantization.converted


def test_B69_a_pattern_without_a_match_is_an_error_that_lists_what_there_is() -> None:
    with pytest.raises(ValueError, match="keep entry 'output' .* matches no linear layer.*readout"):
        convert(Model(), keeping("output"))


@pytest.mark.parametrize(
    ("pattern", "kept"),
    [
        ("readout", 1),
        ("blocks.0", 2),
        ("blocks.*.up", 3),
        ("up", 3),
        ("blocks.1.down", 1),
        ("*", 7),
    ],
)
def test_B69_patterns_match_paths(pattern: str, kept: int) -> None:
    if kept == 7:
        with pytest.raises(ValueError, match="would convert nothing"):
            convert(Model(), keeping(pattern))
        return
    assert len(convert(Model(), keeping(pattern)).quantization.kept) == kept


def test_B69_an_empty_list_keeps_nothing() -> None:
    done = convert(Model(), keeping()).quantization
    assert done.kept == {} and "readout" in done.converted


@pytest.mark.parametrize("wrap", ["compiled", "checkpointed", "both"])
def test_B69_wrappers_are_no_part_of_a_path(wrap: str) -> None:
    model: nn.Module = Model()
    if wrap != "compiled":
        model.blocks = nn.ModuleList(checkpoint_wrapper(block) for block in model.blocks)
    if wrap != "checkpointed":
        model = torch.compile(model, backend="eager")
    done = convert(model, keeping("readout", "blocks.0")).quantization
    assert set(done.kept) == {"readout", "blocks.0.up", "blocks.0.down"}
    assert done.converted == tuple(f"blocks.{n}.{part}" for n in (1, 2) for part in ("up", "down"))


def test_the_first_and_last_blocks_by_share() -> None:
    done = convert(Model(blocks=4), keeping("head", keep_first=0.1, keep_last=0.5)).quantization
    assert {name.split(".")[1] for name in done.converted} == {"1"}
    assert set(done.kept.values()) == {"head", "first blocks", "last blocks"}
    with pytest.raises(ValueError, match="has no ModuleList"):
        convert(nn.Sequential(nn.Linear(8, 8)), replace(UFP4, keep=(), keep_last=0.5))


def test_a_shared_layer_is_converted_once_and_stays_shared() -> None:
    shared = nn.Linear(32, 32)
    model = nn.Sequential(shared, nn.ReLU(), shared)
    convert(model, replace(UFP4, keep=()))
    assert model[0] is model[2] and len(model.quantization.layers) == 1
    assert model.quantization.converted == ("0", "2")


def test_tied_embeddings_get_both_gradients() -> None:
    torch.manual_seed(0)
    model = convert(Model(tied=True), keeping())  # the tied head is quantised
    model(torch.tensor([[1, 2, 3]])).sum().backward()
    gradient = model.tokens.weight.grad
    assert gradient is not None and gradient.shape == (100, 32)
    untouched = gradient[50:]
    assert untouched.abs().sum() > 0  # by way of the head
    assert not torch.equal(gradient[1], gradient[50])  # and of the embedding


def test_moving_to_a_step_moves_every_layer() -> None:
    model = convert(Model(), replace(UFP4, signs="step"))
    signs = model.quantization.layers[0].signs.clone()
    model.quantization.set_step(5, token_offset=64)
    assert {int(layer.step) for layer in model.quantization.layers} == {5}
    assert {layer.token_offset for layer in model.quantization.layers} == {64}
    assert not torch.equal(model.quantization.layers[0].signs, signs)


def test_token_offsets_are_multiples_of_eight() -> None:
    model = convert(Model(), UFP4)
    model.quantization.set_step(0, token_offset=4)
    with pytest.raises(ValueError, match="multiple of 8"):
        model(torch.zeros(1, 8, dtype=torch.int64)).sum().backward()


def test_training_lowers_the_loss() -> None:
    torch.manual_seed(0)
    model = convert(Model(), UFP4)
    tokens = torch.randint(0, 100, (4, 16))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for step in range(30):
        model.quantization.set_step(step)
        loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.3 * losses[0]
