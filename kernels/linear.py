"""QuantizedLinear: a linear layer whose three training GEMMs multiply quantised operands.

    fprop   Y  = Q(X) Q(W)^T        dgrad   dX = Q(dY) Q(W)        wgrad   dW = Q(dY)^T Q(X)

Each operand is quantised from the high-precision tensor, once per GEMM direction. The two
directions of a tensor come from one pass over it: X and W leave their backward copies in the
forward pass.
Gradients pass straight through the quantisers, at the clamp limit too. A plain module with a plain
autograd function on plain tensors: torch.compile, activation checkpointing, DDP and FSDP2 (which
hands over the gathered weight) need not know of it. Randomness hangs on seed, step, layer, operand
and position alone.

Shape suffixes: T tokens, K in-features, N out-features.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from formats import OPERANDS, Recipe
from kernels.compiling import compiled_on_gpu
from kernels.dispatch import emulate
from kernels.emulate import Emulated, Treatment
from kernels.hadamard import Hadamard, rotate
from kernels.rounding import OPERAND_STREAMS, Draws

# The contraction axis of each operand in its tensor's own layout: X [T, K], W [N, K], dY [T, N].
CONTRACTION_AXIS = {
    "x.fprop": 1,
    "w.fprop": 1,
    "dy.dgrad": 1,
    "w.dgrad": 0,
    "dy.wgrad": 0,
    "x.wgrad": 0,
}


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


class QuantizedLinear(nn.Linear):
    """nn.Linear's parameters under a recipe; made by ``convert``.

    Attributes:
        layer_name: path of the layer in its model.
        recipe: what each operand goes through.
        seed: of the run.
        observer: called with every GEMM while fidelity is being recorded, else None.
        token_offset: global index of the first token held here, a multiple of eight.
    """

    step: Tensor
    signs: Tensor | None

    def __init__(self, linear: nn.Linear, name: str, index: int, recipe: Recipe, seed: int) -> None:
        nn.Module.__init__(self)
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.weight, self.bias = linear.weight, linear.bias
        self.train(linear.training)
        self.layer_name, self.index, self.recipe, self.seed = name, index, recipe, seed
        self.observer: Observer | None = None
        self.token_offset = 0
        device = linear.weight.device
        # Integer buffers: Module.to(dtype) leaves them as they are.
        self.register_buffer("step", torch.zeros((), dtype=torch.int64, device=device), False)
        signs = hadamard_signs(recipe, seed, step=0)
        self.register_buffer("signs", None if signs is None else signs.to(device), False)

    def forward(self, x: Tensor) -> Tensor:
        """[..., in_features] to [..., out_features], in the autocast dtype or else x's."""
        dtype = compute_dtype(x)
        y = _QuantizedGemms.apply(x.to(dtype), self.weight, self)
        return y if self.bias is None else y + self.bias.to(dtype)

    def treatment(self, operand: str) -> Treatment:
        """What an operand goes through now, as of the layer's step."""
        plan = self.recipe.operands[operand]
        signs = None if plan.hadamard is None else self.signs
        draws = self._draws(operand) if plan.rounding == "stochastic" else None
        return Treatment(plan.format, CONTRACTION_AXIS[operand], signs, draws)

    def _draws(self, operand: str) -> Draws:
        stream = self.index * OPERAND_STREAMS + OPERANDS.index(operand)
        offset = 0 if operand.startswith("w.") else self.token_offset
        along_tokens = operand.endswith(".wgrad")
        row, column = (0, offset) if along_tokens else (offset, 0)
        return Draws(self.seed, self.step, stream, row, column)

    def extra_repr(self) -> str:
        """Shape, as nn.Linear shows it, and the recipe."""
        return f"{super().extra_repr()}, recipe={self.recipe.name}"


class _QuantizedGemms(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, layer: QuantizedLinear) -> Tensor:
        x_TK = x.reshape(x.shape[:-1].numel(), x.shape[-1])
        x_forward, x_backward = operands(layer, x_TK, x.dtype, "x.fprop", "x.wgrad")
        w_forward, w_backward = operands(layer, weight, x.dtype, "w.fprop", "w.dgrad")
        y_TN = multiply(x_forward, w_forward, x.dtype, transpose_right=True)
        if layer.observer is not None:
            layer.observer(layer, Multiplied("fprop", x_TK, weight, y_TN))
            ctx.observed = (x_TK, weight)
        ctx.layer, ctx.x_shape = layer, x.shape
        ctx.x_factor, ctx.w_factor = x_backward.factor, w_backward.factor
        ctx.save_for_backward(x_backward.values, w_backward.values)
        return y_TN.view(*x.shape[:-1], weight.shape[0])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        dy_TN = grads[0].reshape(grads[0].shape[:-1].numel(), grads[0].shape[-1])
        layer: QuantizedLinear = ctx.layer
        x_values, w_values = ctx.saved_tensors
        dy_rows, dy_columns = operands(layer, dy_TN, dy_TN.dtype, "dy.dgrad", "dy.wgrad")
        dx_TK = dw_NK = None
        if ctx.needs_input_grad[0]:
            dx_TK = multiply(dy_rows, Emulated(w_values, ctx.w_factor), dy_TN.dtype)
        if ctx.needs_input_grad[1]:
            dw_NK = multiply(
                dy_columns, Emulated(x_values, ctx.x_factor), dy_TN.dtype, transpose_left=True
            ).to(layer.weight.dtype)
        if layer.observer is not None:
            x_TK, weight = ctx.observed
            if dx_TK is not None:
                layer.observer(layer, Multiplied("dgrad", dy_TN, weight, dx_TK))
            if dw_NK is not None:
                layer.observer(layer, Multiplied("wgrad", dy_TN, x_TK, dw_NK))
        return None if dx_TK is None else dx_TK.view(ctx.x_shape), dw_NK, None


def operands(
    layer: QuantizedLinear, tensor: Tensor, dtype: torch.dtype, *names: str
) -> list[Emulated]:
    """The named operands of one tensor, as GEMMs in this dtype take them."""
    treatments = [layer.treatment(name) for name in names]
    quantised = [t for t in treatments if not t.format.is_high_precision]
    emulated = iter(emulate(tensor, quantised, dtype)) if quantised else iter(())
    return [
        high_precision(tensor, t) if t.format.is_high_precision else next(emulated)
        for t in treatments
    ]


def high_precision(tensor: Tensor, treatment: Treatment) -> Emulated:
    """An operand that is not quantised; rotated if its partner in the GEMM is."""
    if treatment.signs is None:
        return Emulated(tensor, None)
    along = tensor.movedim(treatment.axis, -1)
    padding = -along.shape[-1] % treatment.signs.numel()
    rotated = rotate(nn.functional.pad(along, (0, padding)), treatment.signs)
    return Emulated(rotated.movedim(-1, treatment.axis), None)


def multiply(
    left: Emulated,
    right: Emulated,
    dtype: torch.dtype,
    transpose_left: bool = False,
    transpose_right: bool = False,
) -> Tensor:
    """The GEMM in the compute dtype with its factors in the epilogue."""
    a = left.values.to(dtype).t() if transpose_left else left.values.to(dtype)
    b = right.values.to(dtype).t() if transpose_right else right.values.to(dtype)
    with torch.autocast(a.device.type, enabled=False):
        product = a @ b
    factors = [factor for factor in (left.factor, right.factor) if factor is not None]
    if not factors:
        return product
    return _scale(product, factors[0] * factors[1] if len(factors) == 2 else factors[0])


@compiled_on_gpu(dynamic=True)
def _scale(product: Tensor, factor: Tensor) -> Tensor:
    """The epilogue, in FP32: a factor rounded to BF16 would be a gain of its own, up to 0.4 %."""
    return (product.float() * factor).to(product.dtype)


def compute_dtype(x: Tensor) -> torch.dtype:
    """What a linear layer computes in: the autocast dtype where autocast is on, else x's own."""
    kind = x.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else x.dtype


def hadamard_signs(recipe: Recipe, seed: int, step: int) -> Tensor | None:
    """The recipe's sign vector, int8 [n], or None; a step matters only to signs drawn per step."""
    sizes = {plan.hadamard for plan in recipe.operands.values() if plan.hadamard is not None}
    if not sizes:
        return None
    drawn_at = step if recipe.signs == "step" else 0
    return torch.tensor(Hadamard.from_seed(sizes.pop(), seed, drawn_at).signs, dtype=torch.int8)
