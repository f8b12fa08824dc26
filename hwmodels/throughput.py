"""Throughput: the time of a training step on a device, piece by piece, and what bounds each.

A step is its GEMMs, quantising their operands, attention, the passes over memory in between and,
only if asked for, the optimiser. ``piece.py`` says what each takes: its roofline, or on a device
that was measured what such kernels reached there. No communication, no pipeline bubbles, no memory
limit: time of the work, on one device, of launches replayed as a graph.

GEMMs read both operands as stored (codes and scales; BF16 when emulated) and write BF16.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache

from formats import GEMM_OPERANDS, BlockFormat, Recipe
from hwmodels.attention import attention_pieces
from hwmodels.device import BF16, Device, Route
from hwmodels.passes import optimiser_passes, passes
from hwmodels.piece import Piece, Timed, time_piece
from hwmodels.quantisers import operand_bytes, quantise_pieces
from hwmodels.workload import BF16_BYTES, Gemm, Linear, ModelShape


@dataclass(frozen=True)
class Step:
    """All pieces of a step, timed, and the route that each operand's format took."""

    pieces: tuple[Timed, ...]
    routes: dict[str, Route]
    tokens: int

    @property
    def seconds(self) -> float:
        """Sum over pieces."""
        return sum(timed.seconds for timed in self.pieces)

    @property
    def tokens_per_second(self) -> float:
        """Tokens of the step over its time."""
        return self.tokens / self.seconds

    @property
    def bytes(self) -> float:
        """Memory traffic."""
        return sum(timed.piece.bytes for timed in self.pieces)

    @property
    def bound(self) -> str:
        """What bounds most of the time."""
        kinds = sorted({timed.bound for timed in self.pieces})
        return max(kinds, key=lambda kind: sum(t.seconds for t in self.pieces if t.bound == kind))

    @property
    def shares(self) -> dict[str, float]:
        """Share of the time by kind of piece."""
        kinds = dict.fromkeys(timed.piece.kind for timed in self.pieces)
        return {
            kind: sum(t.seconds for t in self.pieces if t.piece.kind == kind) / self.seconds
            for kind in kinds
        }


def step_time(
    device: Device, model: ModelShape, recipe: Recipe, optimiser: str | None = None
) -> Step:
    """Time a training step of a model under a recipe on a device.

    Args:
        optimiser: "adamw" to count its passes, None to leave them out.

    Raises:
        ValueError: the device lacks a rate that is needed, or the optimiser is unknown.
    """
    pieces = [*_linear_pieces(device, model, recipe), *attention_pieces(model), *passes(model)]
    if optimiser is not None:
        pieces += optimiser_passes(model, optimiser)
    routes = {name: device.route(operand.format) for name, operand in recipe.operands.items()}
    return Step(tuple(time_piece(device, piece) for piece in pieces), routes, model.tokens)


def gemm_piece(device: Device, gemm: Gemm, a: BlockFormat, b: BlockFormat) -> Piece:
    """A GEMM of operands in two formats, all copies of it.

    Operands of different routes (one of them kept in BF16, say) meet in BF16.
    """
    routes = {device.route(a), device.route(b)}
    rate = next(iter(routes)).rate if len(routes) == 1 else BF16
    operands = sum(
        operand_bytes(device, fmt, (rows, gemm.k), rate) for fmt, rows in ((a, gemm.m), (b, gemm.n))
    )
    copies = gemm.linear.copies
    moved = copies * (operands + BF16_BYTES * gemm.m * gemm.n)
    return Piece(
        f"{gemm.linear.name} {gemm.name}",
        gemm.name,
        2.0 * gemm.macs,
        rate,
        float(moved),
        copies,
        "gemm",
        (gemm.m, gemm.n, gemm.k),
    )


def layer_pieces(device: Device, linear: Linear, recipe: Recipe) -> Iterator[Piece]:
    """Forward and backward of a linear layer: its three GEMMs, and quantising their operands."""
    for gemm in linear.gemms:
        left, right = (recipe.operands[name].format for name in GEMM_OPERANDS[gemm.name])
        yield gemm_piece(device, gemm, left, right)
    yield from quantise_pieces(device, linear, recipe)


def _linear_pieces(device: Device, model: ModelShape, recipe: Recipe) -> Iterator[Piece]:
    for linear in model.linears:
        kept = _kept_share(model, recipe) if linear.quantised else 1
        high = replace(linear, copies=round(linear.copies * kept), quantised=False)
        low = replace(linear, copies=linear.copies - high.copies)
        if high.copies:
            plain = _high_precision()
            yield from (gemm_piece(device, gemm, plain, plain) for gemm in high.gemms)
        if low.copies:
            yield from layer_pieces(device, low, recipe)


def _kept_share(model: ModelShape, recipe: Recipe) -> float:
    """Share of the blocks that the recipe keeps in high precision, in whole blocks."""
    shares = (recipe.keep_first, recipe.keep_last)
    kept = sum(math.ceil(share * model.layers) for share in shares)
    return min(kept, model.layers) / model.layers


@cache
def _high_precision() -> BlockFormat:
    return BlockFormat(BF16, "high precision", None)
