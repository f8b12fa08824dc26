"""QuantizedLinear: a linear layer whose three training GEMMs multiply quantised operands.

The GEMMs are those of ``kernels.gemms``. Gradients pass straight through the quantisers, at the
clamp limit too. A plain module with a plain autograd function on plain tensors: activation
checkpointing, DDP and FSDP2 (which hands over the gathered weight) need not know of it, and
torch.compile sees one operator, ``kernels.linear_op``.

Shape suffixes: T tokens, K in-features, N out-features.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from formats import Recipe
from kernels.emulate import Emulated, Treatment
from kernels.gemms import (
    Numerics,
    backward_gemms,
    compute_dtype,
    forward_gemm,
    hadamard_signs,
)
from kernels.linear_op import quantized_linear, register_recipe
from kernels.quantized import as_rows


@dataclass(frozen=True)
class Multiplied:
    """A GEMM that just ran: what an observer is told.

    ``left`` and ``right`` are the high-precision tensors, ``output`` is the quantised result.
    """

    gemm: str
    left: Tensor
    right: Tensor
    output: Tensor


Observer = Callable[["QuantizedLinear", Multiplied], None]


class UnderRecipe(nn.Module):
    """What a layer keeps of the recipe that it runs under.

    Attributes:
        layer_name: path of the layer in its model.
        index: which its random streams are numbered by.
        recipe: what each operand goes through.
        seed: of the run.
        token_offset: global index of the first token held here, a multiple of eight.
    """

    step: Tensor
    signs: Tensor | None

    def enter(self, name: str, index: int, recipe: Recipe, seed: int, device: torch.device) -> None:
        """Start at step 0 of a run."""
        self.layer_name, self.index, self.recipe, self.seed = name, index, recipe, seed
        self.recipe_name = register_recipe(recipe)
        self.token_offset = 0
        # Integer buffers: Module.to(dtype) leaves them as they are.
        self.register_buffer("step", torch.zeros((), dtype=torch.int64, device=device), False)
        signs = hadamard_signs(recipe, seed, step=0)
        self.register_buffer("signs", None if signs is None else signs.to(device), False)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Unpickle, perhaps in another process."""
        super().__setstate__(state)
        register_recipe(self.recipe)


class QuantizedLinear(UnderRecipe, nn.Linear):
    """nn.Linear's parameters under a recipe; made by ``convert``.

    Attributes:
        observer: called with every GEMM while fidelity is being recorded, else None.
    """

    def __init__(self, linear: nn.Linear, name: str, index: int, recipe: Recipe, seed: int) -> None:
        nn.Module.__init__(self)
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.weight, self.bias = linear.weight, linear.bias
        self.train(linear.training)
        self.enter(name, index, recipe, seed, linear.weight.device)
        self.observer: Observer | None = None

    def forward(self, x: Tensor) -> Tensor:
        """[..., in_features] to [..., out_features], in the autocast dtype or else x's."""
        dtype = compute_dtype(x)
        x = x.to(dtype)
        if torch.compiler.is_compiling() and self.observer is None:
            names = self.recipe_name, self.seed, self.index, self.token_offset
            y = quantized_linear(x, self.weight, self.step, self.signs, *names)[0]
        else:
            y = _QuantizedGemms.apply(x, self.weight, self)
        return y if self.bias is None else y + self.bias.to(dtype)

    @property
    def numerics(self) -> Numerics:
        """What the operands go through now, as of the layer's step."""
        return Numerics(
            self.recipe, self.signs, self.step, self.seed, self.index, self.token_offset
        )

    def treatment(self, operand: str) -> Treatment:
        """What an operand goes through now."""
        return self.numerics.treatment(operand)

    def extra_repr(self) -> str:
        """Shape, as nn.Linear shows it, and the recipe."""
        return f"{super().extra_repr()}, recipe={self.recipe.name}"


class _QuantizedGemms(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, layer: QuantizedLinear) -> Tensor:
        x_TK = as_rows(x)
        y_TN, x_backward, w_backward = forward_gemm(x_TK, weight, layer.numerics)
        if layer.observer is not None:
            layer.observer(layer, Multiplied("fprop", x_TK, weight, y_TN))
            ctx.observed = (x_TK, weight)
        ctx.layer, ctx.x_shape = layer, x.shape
        ctx.x_factor, ctx.w_factor = x_backward.factor, w_backward.factor
        ctx.save_for_backward(x_backward.values, w_backward.values)
        return y_TN.view(*x.shape[:-1], weight.shape[0])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        dy_TN = as_rows(grads[0])
        layer: QuantizedLinear = ctx.layer
        x_values, w_values = ctx.saved_tensors
        dx_TK, dw_NK = backward_gemms(
            dy_TN,
            Emulated(x_values, ctx.x_factor),
            Emulated(w_values, ctx.w_factor),
            layer.numerics,
            ctx.needs_input_grad[:2],
        )
        dw_NK = None if dw_NK is None else dw_NK.to(layer.weight.dtype)
        if layer.observer is not None:
            x_TK, weight = ctx.observed
            if dx_TK is not None:
                layer.observer(layer, Multiplied("dgrad", dy_TN, weight, dx_TK))
            if dw_NK is not None:
                layer.observer(layer, Multiplied("wgrad", dy_TN, x_TK, dw_NK))
        return None if dx_TK is None else dx_TK.view(ctx.x_shape), dw_NK, None
