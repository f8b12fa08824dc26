"""The quantised linear layer as one operator, for graphs that torch.compile makes.

Dynamo cannot look into kernels that are compiled by other means, nor hold a recipe: a graph gets
the layer's GEMMs as one opaque node with a shape, a gradient, and a recipe's digest for a name.
All that changes from step to step is in tensors, so a graph is compiled once and draws afresh each
time.

Shape suffixes: T tokens, K in-features, N out-features.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from formats import Recipe
from kernels.emulate import Emulated
from kernels.gemms import Numerics, backward_gemms, forward_gemm
from kernels.quantized import as_rows

NUMERICS = "Tensor step, Tensor? signs, str recipe, int seed, int index, int token_offset"
FORWARD = f"(Tensor x, Tensor weight, {NUMERICS}) -> (Tensor, Tensor, Tensor, Tensor, Tensor)"
BACKWARD = (
    "(Tensor dy, Tensor x_values, Tensor x_factor, Tensor w_values, Tensor w_factor, "
    f"{NUMERICS}, bool needs_dx, bool needs_dw) -> (Tensor, Tensor)"
)
_recipes: dict[str, Recipe] = {}


def register_recipe(recipe: Recipe) -> str:
    """The name by which a graph knows a recipe: its digest."""
    return _recipes.setdefault(recipe.digest, recipe).digest


def _numerics(
    step: Tensor, signs: Tensor | None, recipe: str, seed: int, index: int, token_offset: int
) -> Numerics:
    return Numerics(_recipes[recipe], signs, step, seed, index, token_offset)


@torch.library.custom_op("gridbench::quantized_linear", mutates_args=(), schema=FORWARD)
def quantized_linear(x: Tensor, weight: Tensor, *numerics: Any) -> tuple[Tensor, ...]:
    """Y [..., N] of x [..., K] and weight [N, K]; then what the backward operator takes of both."""
    y_TN, of_x, of_w = forward_gemm(as_rows(x), weight, _numerics(*numerics))
    saved = (*_pack(of_x, x, x.dtype), *_pack(of_w, weight, x.dtype))
    return y_TN.view(*x.shape[:-1], weight.shape[0]), *saved


@quantized_linear.register_fake
def _(x: Tensor, weight: Tensor, *numerics: Any) -> tuple[Tensor, ...]:
    plan = _numerics(*numerics)
    tokens = x.shape[:-1].numel()
    saved: list[Tensor] = []
    for name, length in (("x.wgrad", tokens), ("w.dgrad", weight.shape[0])):
        treatment = plan.treatment(name)
        piece = treatment.hadamard
        values = x.new_empty((length + piece - 1) // piece * piece, weight.shape[1])
        has_factor = treatment.has_factor
        saved += values, x.new_empty(() if has_factor else 0, dtype=torch.float32)
    return x.new_empty(*x.shape[:-1], weight.shape[0]), *saved


@torch.library.custom_op("gridbench::quantized_linear_backward", mutates_args=(), schema=BACKWARD)
def quantized_linear_backward(dy: Tensor, *arguments: Any) -> tuple[Tensor, Tensor]:
    """The gradients dX [..., K] and dW [N, K] in dy's dtype; one that is not needed is empty."""
    x_values, x_factor, w_values, w_factor, *numerics, needs_dx, needs_dw = arguments
    of_x, of_w = _unpack(x_values, x_factor), _unpack(w_values, w_factor)
    needed = needs_dx, needs_dw
    dx, dw = backward_gemms(as_rows(dy), of_x, of_w, _numerics(*numerics), needed)
    dx = None if dx is None else dx.view(*dy.shape[:-1], w_values.shape[1])
    return dy.new_empty(0) if dx is None else dx, dy.new_empty(0) if dw is None else dw


@quantized_linear_backward.register_fake
def _(dy: Tensor, *arguments: Any) -> tuple[Tensor, Tensor]:
    w_values, needs_dx, needs_dw = arguments[2], *arguments[-2:]
    width = w_values.shape[1]
    dx = dy.new_empty((*dy.shape[:-1], width) if needs_dx else 0)
    return dx, dy.new_empty((dy.shape[-1], width) if needs_dw else 0)


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    _, weight, step, signs, *ctx.names = inputs
    ctx.weight_dtype = weight.dtype
    ctx.save_for_backward(*output[1:], step, signs)


def _backward(ctx: Any, dy: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
    needs_dx, needs_dw = ctx.needs_input_grad[:2]
    arguments = (*ctx.saved_tensors, *ctx.names, needs_dx, needs_dw)
    dx, dw = quantized_linear_backward(dy, *arguments)
    gradients = dx if needs_dx else None, dw.to(ctx.weight_dtype) if needs_dw else None
    return *gradients, *[None] * (2 + len(ctx.names))


quantized_linear.register_autograd(_backward, setup_context=_setup_context)


def _pack(operand: Emulated, source: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """An operand as an operator returns it: contiguous, no view of an input, and no None."""
    values = operand.values.to(dtype).contiguous()
    if values.untyped_storage().data_ptr() == source.untyped_storage().data_ptr():
        values = values.clone()
    factor = operand.factor
    return values, values.new_empty(0, dtype=torch.float32) if factor is None else factor


def _unpack(values: Tensor, factor: Tensor) -> Emulated:
    return Emulated(values, factor if factor.dim() == 0 else None)
