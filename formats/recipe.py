"""Recipe: what each operand of each training GEMM goes through.

A linear layer trains with three GEMMs, each of two operands along a contraction axis:

    fprop   Y  = X W^T      contracts in-features     operands x.fprop,  w.fprop
    dgrad   dX = dY W       contracts out-features    operands dy.dgrad, w.dgrad
    wgrad   dW = dY^T X     contracts tokens          operands dy.wgrad, x.wgrad

Both operands of a GEMM are rotated by the same random Hadamard transform or neither is: rotating
one of them, or each by its own signs, cannot be written down here.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from formats.block import BlockFormat

GEMMS = ("fprop", "dgrad", "wgrad")
TENSORS = ("x", "w", "dy")
GEMM_OPERANDS = {
    "fprop": ("x.fprop", "w.fprop"),
    "dgrad": ("dy.dgrad", "w.dgrad"),
    "wgrad": ("dy.wgrad", "x.wgrad"),
}
OPERANDS = tuple(name for pair in GEMM_OPERANDS.values() for name in pair)
DEFAULT_KEEP = ("embedding", "head", "norm", "router")

Rounding = Literal["nearest", "stochastic"]
Signs = Literal["run", "step"]


@dataclass(frozen=True)
class Operand:
    """One operand's treatment; ``hadamard`` is the size of its GEMM's transform, None for none."""

    format: BlockFormat
    rounding: Rounding = "nearest"
    hadamard: int | None = None

    @property
    def has_factor(self) -> bool:
        """Whether its products take in a factor."""
        return self.format.has_factor(self.rounding == "stochastic")


@dataclass(frozen=True)
class Recipe:
    """A training recipe.

    Attributes:
        operands: the six operands by name, as in OPERANDS.
        signs: whether the Hadamard's random signs are drawn once per run or at every step.
        keep: roles (embedding, head, norm, router) and name patterns that stay in high precision.
        keep_first: share of the transformer blocks, counted from the input, that stays so too.
        keep_last: the same, counted from the output. Shares are rounded up to whole blocks.
    """

    name: str
    summary: str
    operands: Mapping[str, Operand]
    signs: Signs = "run"
    keep: tuple[str, ...] = DEFAULT_KEEP
    keep_first: float = 0.0
    keep_last: float = 0.0
    source: str = ""
    path: Path | None = field(default=None, compare=False)

    @property
    def is_high_precision(self) -> bool:
        """Whether no operand is quantised."""
        return all(operand.format.is_high_precision for operand in self.operands.values())

    @property
    def has_factors(self) -> bool:
        """Whether any product takes in a factor."""
        return any(operand.has_factor for operand in self.operands.values())

    def facts(self) -> dict[str, Any]:
        """What determines the numerics, as plain JSON."""
        operands = {
            name: {"format": op.format.facts(), "rounding": op.rounding, "hadamard": op.hadamard}
            for name, op in self.operands.items()
        }
        keep = {"keep": list(self.keep), "first": self.keep_first, "last": self.keep_last}
        return {"operands": operands, "signs": self.signs, **keep}

    @property
    def digest(self) -> str:
        """SHA-256 of the facts (hex)."""
        return hashlib.sha256(json.dumps(self.facts(), sort_keys=True).encode()).hexdigest()

    def with_format(self, fmt: BlockFormat) -> Recipe:
        """This recipe with another format on every quantised operand, named ``recipe+format``."""
        operands = {
            name: operand if operand.format.is_high_precision else replace(operand, format=fmt)
            for name, operand in self.operands.items()
        }
        return replace(self, name=f"{self.name}+{fmt.name}", operands=operands)


def plain_recipe(fmt: BlockFormat) -> Recipe:
    """The simplest recipe of a format: it on all operands, stochastic rounding on dY, no RHT."""
    operands = {
        name: Operand(fmt, "stochastic" if name.startswith("dy.") else "nearest")
        for name in OPERANDS
    }
    return Recipe(fmt.name, f"{fmt.name} on all operands, SR on dY", operands)
