"""Networks whose signals are followed through depth, and how they are followed.

A *tap* is a module whose output is a signal worth comparing. While a network runs, every tap keeps
its output and later that output's gradient, together with the number of GEMMs that have run by
then, forward or backward: those are the GEMMs that the signal has gone through.

Shape suffixes: N tokens, D width.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor, nn

from formats import Recipe
from kernels import convert, fidelity, observe
from kernels.observe import Observation
from suites.depth_settings import DepthSettings, Network
from suites.elementwise import cross_entropy
from suites.models import Block, LanguageModel
from suites.sizes import ModelConfig

Direction = Literal["forward", "backward"]
HEAD_WIDTH = 32
SEQUENCE = 64
VOCABULARY = 512
# The GEMM that carries a signal onward in each direction.
CARRIER = {"forward": "fprop", "backward": "dgrad"}


@dataclass(frozen=True)
class Signal:
    """One signal of the quantised network beside its twin's.

    Attributes:
        layer: counted from the input, from 1.
        gain: <x, x_q> / <x, x>.
        predicted_gain: product of the gains of the GEMMs that the signal has gone through.
        cosine: <x, x_q> / (|x| |x_q|), the part of the gain that no rescaling brings back.
    """

    name: str
    direction: Direction
    layer: int
    gain: float
    predicted_gain: float
    cosine: float


class Stack(nn.Module):
    """x <- W x over and over, with RMSNorm before each W or without."""

    def __init__(self, layers: int, width: int, normalised: bool, seed: int) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.layers = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(layers))
        self.norms = nn.ModuleList(
            nn.RMSNorm(width) if normalised else nn.Identity() for _ in range(layers)
        )
        for weight in self.layers.parameters():
            nn.init.normal_(weight, std=1 / math.sqrt(width), generator=generator)

    def forward(self, x_ND: Tensor) -> Tensor:
        """The last layer's output."""
        for norm, layer in zip(self.norms, self.layers, strict=True):
            x_ND = layer(norm(x_ND))
        return x_ND


@dataclass
class Tapped:
    """What a tap gave, and how many GEMM outputs had been observed by then."""

    tensors: dict[Direction, Tensor] = field(default_factory=dict)
    behind: dict[Direction, int] = field(default_factory=dict)


def measure(
    settings: DepthSettings, network: Network, recipe: Recipe, seed: int, device: str
) -> Iterator[Signal]:
    """Every signal of a network under a recipe, beside the network in high precision."""
    plain, run = build(settings, network, seed, device)
    quantised, _ = build(settings, network, seed, device)
    quantised = convert(quantised, recipe, seed)
    expected = follow(plain, run, [])
    with observe(quantised) as records:
        found = follow(quantised, run, records)
    for (name, layer), tapped in found.items():
        for direction, tensor in tapped.tensors.items():
            twin = expected[name, layer].tensors[direction]
            gain = fidelity(twin, tensor).gain
            predicted = product_law(records[: tapped.behind[direction]], direction)
            cosine = nn.functional.cosine_similarity(twin.flatten(), tensor.flatten(), dim=0)
            yield Signal(name, direction, layer, gain, predicted, cosine.item())


def product_law(records: list[Observation], direction: Direction) -> float:
    """Product of the gains of the GEMM outputs that lie behind a signal."""
    gemm = CARRIER[direction]
    return math.prod(r.gain for r in records if r.gemm == gemm and r.operand == "output")


def build(
    settings: DepthSettings, network: Network, seed: int, device: str
) -> tuple[nn.Module, Callable[[nn.Module], None]]:
    """A network at its initial weights, and what sends a signal through it and back."""
    generator = torch.Generator().manual_seed(seed)
    if network == "decoder":
        heads = settings.width // HEAD_WIDTH
        config = ModelConfig(
            network, settings.layers, settings.width, heads, 3 * settings.width, VOCABULARY
        )
        shape = (2, settings.tokens // SEQUENCE, SEQUENCE)
        tokens, targets = torch.randint(VOCABULARY, shape, generator=generator).to(device)
        model: nn.Module = LanguageModel(config, SEQUENCE, seed)
        return model.to(device), lambda m: cross_entropy(m(tokens).logits, targets).backward()
    x_ND, dy_ND = torch.randn(2, settings.tokens, settings.width, generator=generator).to(device)
    x_ND.requires_grad_()  # without it the first layer would have no dgrad
    model = Stack(settings.layers, settings.width, network == "stack, normalised", seed)
    return model.to(device), lambda m: m(x_ND).backward(dy_ND)


def taps(model: nn.Module) -> Iterator[tuple[str, int, nn.Module]]:
    """(name, layer, module) of every signal that is followed."""
    if isinstance(model, Stack):
        for layer, linear in enumerate(model.layers, start=1):
            yield "layer", layer, linear
        return
    blocks = [module for module in model.modules() if isinstance(module, Block)]
    for layer, block in enumerate(blocks, start=1):
        yield "attention", layer, block.attention
        yield "mlp", layer, block.mlp
        yield "stream", layer, block


def follow(
    model: nn.Module, run: Callable[[nn.Module], None], records: list[Observation]
) -> dict[tuple[str, int], Tapped]:
    """Run a network and keep what its taps give; `records` grows meanwhile if it is observed."""
    found: dict[tuple[str, int], Tapped] = {}

    def keep(tapped: Tapped, direction: Direction, tensor: Tensor) -> None:
        tapped.tensors[direction] = tensor.detach().float()
        tapped.behind[direction] = len(records)

    def tap(tapped: Tapped, output: Tensor | tuple[Tensor, ...]) -> None:
        tensor = output[0] if isinstance(output, tuple) else output
        keep(tapped, "forward", tensor)
        tensor.register_hook(lambda gradient: keep(tapped, "backward", gradient))

    handles = []
    for name, layer, module in taps(model):
        tapped = found[name, layer] = Tapped()
        handles.append(module.register_forward_hook(lambda m, x, y, t=tapped: tap(t, y)))
    run(model)
    for handle in handles:
        handle.remove()
    return found
