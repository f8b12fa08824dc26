"""The three GEMMs of a linear layer on quantised operands, as functions of plain tensors.

    fprop   Y  = Q(X) Q(W)^T        dgrad   dX = Q(dY) Q(W)        wgrad   dW = Q(dY)^T Q(X)

Each operand is quantised from the high-precision tensor, once per GEMM direction. The two
directions of a tensor come from one pass over it: X and W leave their backward copies in the
forward pass. Randomness hangs on seed, step, layer, operand and position alone.

Shape suffixes: T tokens, K in-features, N out-features.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from formats import OPERANDS, Recipe
from kernels.dispatch import emulate, scaled_product
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
class Numerics:
    """What the operands of one layer go through in one step.

    Attributes:
        signs: int8 [n] of the Hadamard transform, or None if the recipe has none.
        step: int64 scalar, on the layer's device.
        index: of the layer, which its random streams are numbered by.
        token_offset: global index of the first token held here, a multiple of eight.
    """

    recipe: Recipe
    signs: Tensor | None
    step: Tensor
    seed: int
    index: int
    token_offset: int = 0

    def treatment(self, operand: str) -> Treatment:
        """What an operand goes through."""
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


def forward_gemm(
    x_TK: Tensor, w_NK: Tensor, numerics: Numerics
) -> tuple[Tensor, Emulated, Emulated]:
    """Y [T, N] in x's dtype, and the operands that wgrad and dgrad take of X and W."""
    dtype = x_TK.dtype
    x_forward, x_backward = operands(numerics, x_TK, dtype, "x.fprop", "x.wgrad")
    w_forward, w_backward = operands(numerics, w_NK, dtype, "w.fprop", "w.dgrad")
    return multiply(x_forward, w_forward, dtype, transpose_right=True), x_backward, w_backward


def backward_gemms(
    dy_TN: Tensor, x: Emulated, w: Emulated, numerics: Numerics, needed: tuple[bool, bool]
) -> tuple[Tensor | None, Tensor | None]:
    """The gradients dX [T, K] and dW [N, K] in dy's dtype, each None unless it is needed."""
    dtype = dy_TN.dtype
    dy_rows, dy_columns = operands(numerics, dy_TN, dtype, "dy.dgrad", "dy.wgrad")
    dx_TK = multiply(dy_rows, w, dtype) if needed[0] else None
    dw_NK = multiply(dy_columns, x, dtype, transpose_left=True) if needed[1] else None
    return dx_TK, dw_NK


def operands(numerics: Numerics, tensor: Tensor, dtype: torch.dtype, *names: str) -> list[Emulated]:
    """The named operands of one tensor, as GEMMs in this dtype take them."""
    treatments = [numerics.treatment(name) for name in names]
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
    factors = [factor for factor in (left.factor, right.factor) if factor is not None]
    with _no_autocast(a.device.type):
        return scaled_product(a, b, factors) if factors else a @ b


def _no_autocast(device_type: str) -> AbstractContextManager[Any]:
    if not torch.is_autocast_enabled(device_type):
        return nullcontext()  # a context that changes nothing would still take the host a while
    return torch.autocast(device_type, enabled=False)


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
