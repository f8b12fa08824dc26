"""convert: swap a model's linear layers for quantised ones, as a recipe says, and report it.

What stays in high precision is named by role or by pattern. Roles are recognised by what a module
*is*, so that a renamed head is not quantised by accident:

    embedding, norm   hold no GEMM of this kind; nothing to do
    head              a linear layer as wide as an embedding's vocabulary, or tied to its weight
    router            a linear layer beside ``experts``

Anything else is a shell pattern over module paths, and one that matches nothing is an error.
Wrapper prefixes (compile, checkpoint, FSDP, DDP) are not part of a path.
"""

from __future__ import annotations

import fnmatch
import math
import re
from dataclasses import dataclass

import torch
from torch import nn

from formats import Recipe
from kernels.gemms import hadamard_signs
from kernels.grouped import GroupedLinear, QuantizedGroupedLinear
from kernels.linear import QuantizedLinear

# What is swapped, and what for.
Plain = nn.Linear | GroupedLinear
Converted = QuantizedLinear | QuantizedGroupedLinear
ROLES = ("embedding", "head", "norm", "router")
ROUTER_NAMES = ("router", "gate")
WRAPPERS = re.compile(
    r"(^|\.)(_orig_mod|_checkpoint_wrapped_module|_fsdp_wrapped_module|module)(?=\.|$)"
)


@dataclass
class Conversion:
    """What became of a model: ``model.quantization``.

    Attributes:
        converted: paths of the layers that are quantised.
        kept: paths of the linear layers that stay in high precision, with the reason.
    """

    recipe: Recipe
    seed: int
    converted: tuple[str, ...]
    kept: dict[str, str]
    layers: tuple[Converted, ...]

    @property
    def gemms(self) -> int:
        """Number of quantised GEMMs in a training step."""
        return 3 * sum(count_gemms(layer) for layer in self.layers)

    @property
    def path(self) -> str:
        """How the GEMMs run: "emulated", or "high precision" when nothing is quantised."""
        return "emulated" if self.layers else "high precision"

    @property
    def reason(self) -> str:
        """Why they run so, and how exact that is."""
        if not self.layers:
            return "the recipe quantises nothing"
        formats = {operand.format.name: operand.format for operand in self.recipe.operands.values()}
        inexact = [name for name, fmt in formats.items() if not fmt.is_exact_in_bf16]
        reason = "decoded operands are multiplied in the compute dtype"
        return (
            f"{reason}; FP32 is exact, BF16 rounds {', '.join(inexact)}"
            if inexact
            else (f"{reason}, in which they are exact")
        )

    def set_step(self, step: int, token_offset: int = 0) -> None:
        """Move every layer to a step, before its forward pass; the same step draws the same bits.

        Args:
            step: counts optimiser steps, or microbatches where gradients are accumulated.
            token_offset: global index of this rank's first token, a multiple of eight.
        """
        for layer in self.layers:
            layer.step.fill_(step)
            layer.token_offset = token_offset
        if self.recipe.signs == "step":
            self._redraw_signs(step)

    def _redraw_signs(self, step: int) -> None:
        signs = hadamard_signs(self.recipe, self.seed, step)
        for layer in self.layers:
            if signs is not None and layer.signs is not None:
                layer.signs.copy_(signs)


def convert(model: nn.Module, recipe: Recipe, seed: int = 0) -> nn.Module:
    """Convert a model in place and return it (a bare nn.Linear is returned converted).

    The parameters stay the same objects: optimisers, tied weights and checkpoints are unaffected.
    ``model.quantization`` tells what was converted and sets the step.

    Raises:
        ValueError: already converted, nothing to convert, a keep pattern without a match, or expert
            weights that are not linear layers.
    """
    linears = _linear_layers(model)
    if any(isinstance(linear, Converted) for linear in linears.values()):
        raise ValueError("the model is already converted; convert a fresh copy for another recipe")
    kept = _kept(model, linears, recipe)
    swaps: dict[Plain, Converted] = {}
    index = 0
    if not recipe.is_high_precision:
        _refuse_bare_experts(model, recipe)
        for name, linear in linears.items():
            if name not in kept and linear not in swaps:
                swaps[linear] = _quantise(linear, name, index, recipe, seed)
                index += count_gemms(linear)
        if not swaps:
            raise ValueError(f"recipe '{recipe.name}' would convert nothing in this model")
    converted = tuple(name for name in linears if name not in kept and swaps)
    model = _swap(model, swaps)
    layers = tuple(swaps.values())
    kept = kept if swaps else dict.fromkeys(linears, "high-precision recipe")
    model.quantization = Conversion(recipe, seed, converted, kept, layers)  # type: ignore[assignment]
    return model


def count_gemms(layer: nn.Module) -> int:
    """GEMMs in a layer's forward pass: one, or one for each expert."""
    return layer.experts if isinstance(layer, GroupedLinear) else 1


def _quantise(linear: Plain, name: str, index: int, recipe: Recipe, seed: int) -> Converted:
    if isinstance(linear, GroupedLinear):
        return QuantizedGroupedLinear(linear, name, index, recipe, seed)
    return QuantizedLinear(linear, name, index, recipe, seed)


def _linear_layers(model: nn.Module) -> dict[str, Plain]:
    """Linear layers by path without wrappers; a shared layer is listed at each of its places."""
    modules = model.named_modules(remove_duplicate=False)
    return {_clean(path): m for path, m in modules if isinstance(m, Plain)}


def _clean(path: str) -> str:
    return WRAPPERS.sub("", path).lstrip(".")


def _swap(model: nn.Module, swaps: dict[Plain, Converted]) -> nn.Module:
    # At every place of a shared layer, which named_children would show once.
    for path, child in list(model.named_modules(remove_duplicate=False)):
        parent, _, name = path.rpartition(".")
        if name and isinstance(child, Plain) and child in swaps:
            setattr(model.get_submodule(parent), name, swaps[child])
    return swaps.get(model, model) if isinstance(model, Plain) else model


def _kept(model: nn.Module, linears: dict[str, Plain], recipe: Recipe) -> dict[str, str]:
    kept: dict[str, str] = {}
    for entry in recipe.keep:
        if entry in ROLES:
            names = [name for name in linears if _has_role(model, linears, name, entry)]
        else:
            names = [name for name in linears if _matches(name, entry)]
            if not names:
                raise ValueError(
                    f"keep entry '{entry}' of recipe '{recipe.name}' matches no linear layer; "
                    f"there are {', '.join(linears)}"
                )
        kept |= dict.fromkeys(names, entry)
    return kept | _edge_blocks(model, linears, recipe)


def _matches(name: str, pattern: str) -> bool:
    """Whether a pattern matches a path, or one of the modules that contain it."""
    parts = name.split(".")
    prefixes = [".".join(parts[: end + 1]) for end in range(len(parts))]
    return any(fnmatch.fnmatchcase(p, pattern) for p in prefixes) or pattern == parts[-1]


def _has_role(model: nn.Module, linears: dict[str, Plain], name: str, role: str) -> bool:
    linear = linears[name]
    if role == "head":
        embeddings = [m for m in model.modules() if isinstance(m, nn.Embedding)]
        return any(
            linear.weight is e.weight or linear.out_features == e.num_embeddings for e in embeddings
        )
    if role == "router":
        parent, _, last = name.rpartition(".")
        siblings = {_clean(path) for path, _ in model.named_modules(remove_duplicate=False)}
        experts = f"{parent}.experts" if parent else "experts"
        return last == "router" or (last in ROUTER_NAMES and experts in siblings)
    return False


def _edge_blocks(model: nn.Module, linears: dict[str, Plain], recipe: Recipe) -> dict[str, str]:
    """Layers of the first and last transformer blocks, as shares rounded up to whole blocks."""
    if not recipe.keep_first and not recipe.keep_last:
        return {}
    path, count = _block_list(model, recipe)
    first, last = (math.ceil(share * count) for share in (recipe.keep_first, recipe.keep_last))
    edges = {index: "first blocks" for index in range(first)}
    edges |= {index: "last blocks" for index in range(count - last, count)}
    kept = {}
    for name in linears:
        inside = name.removeprefix(f"{path}." if path else "").split(".")[0]
        if name.startswith(path) and inside.isdecimal() and int(inside) in edges:
            kept[name] = edges[int(inside)]
    return kept


def _block_list(model: nn.Module, recipe: Recipe) -> tuple[str, int]:
    """The transformer blocks: the outermost, longest ModuleList that holds linear layers."""
    lists = [
        (_clean(path), len(module))
        for path, module in model.named_modules()
        if isinstance(module, nn.ModuleList) and _linear_layers(module)
    ]
    if not lists:
        raise ValueError(
            f"recipe '{recipe.name}' keeps first or last blocks, but the model has no ModuleList"
        )
    return min(lists, key=lambda entry: (entry[0].count("."), -entry[1]))


def _refuse_bare_experts(model: nn.Module, recipe: Recipe) -> None:
    for name, parameter in model.named_parameters():
        if parameter.dim() == 3 and not _is_known(model, name):
            raise ValueError(
                f"'{name}' {tuple(parameter.shape)} looks like stacked expert weights, which "
                f"recipe '{recipe.name}' cannot convert; hold experts as linear layers or in a "
                "GroupedLinear"
            )


def _is_known(model: nn.Module, parameter_name: str) -> bool:
    owner = model.get_submodule(parameter_name.rpartition(".")[0])
    return isinstance(owner, torch.nn.modules.conv._ConvNd | GroupedLinear)
