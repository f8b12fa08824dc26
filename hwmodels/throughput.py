"""Throughput: the roofline time of a training step on a device, and what bounds each piece.

    time = max(FLOP / (peak * c), bytes / (bandwidth * b)) + overhead per launch

c, b and the overhead are 1, 1 and 0 (a lower bound: "roofline") unless the device file has values
fitted to measurements (``achievable``). Bytes are those of a fused implementation:

* GEMM: both operands as stored (codes and scales; BF16 when emulated), the BF16 result written
* quantise: each BF16 tensor read once for both of its orientations, and each orientation written;
  once more read where a format needs the whole tensor's amax first; rotations cost what fused
  kernels measure
* attention and element-wise passes as in workload.py; AdamW only if asked for

No communication, no pipeline bubbles, no memory limit: time of the work, on one device.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from formats import GEMM_OPERANDS, BlockFormat, Recipe
from formats.schema import Record
from formats.yamlfile import load_yaml
from hwmodels.device import BF16, Device, Route
from hwmodels.figures import Figure
from hwmodels.workload import ADAMW_BYTES_PER_PARAMETER, BF16_BYTES, Gemm, Linear, ModelShape

TERA = 1e12
KERNEL_CONSTANTS = Path(__file__).parent / "data" / "kernels.yaml"
BYTE_FORMAT_BITS = 8  # an element carried in a wider native type takes a byte
# The GEMMs that contract a tensor's columns (as it lies), then its rows (transposed).
ORIENTATIONS = {"x": ("fprop", "wgrad"), "w": ("fprop", "dgrad"), "dy": ("dgrad", "wgrad")}


class KernelConstants(Record):
    """What fused kernels were measured to cost."""

    rotation: Figure  # time of fused rotate-and-quantise over quantise alone


@dataclass(frozen=True)
class Piece:
    """A piece of a step: FLOP at a rate, bytes, launches."""

    name: str
    flops: float
    rate: str
    bytes: float
    launches: int = 1


@dataclass(frozen=True)
class Timed:
    """A piece with its time (s) and what bounds it."""

    piece: Piece
    seconds: float
    bound: str


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


def step_time(
    device: Device, model: ModelShape, recipe: Recipe, optimiser: str | None = None
) -> Step:
    """Time a training step of a model under a recipe on a device.

    Args:
        optimiser: "adamw" to count its memory traffic, None to leave it out.

    Raises:
        ValueError: the device lacks a rate that is needed, or the optimiser is unknown.
    """
    pieces = [*_linear_pieces(device, model, recipe)]
    pieces.append(Piece("attention", model.attention_flops, BF16, 0.0, 3 * model.layers))
    pieces.append(Piece("element-wise", 0.0, BF16, model.elementwise_bytes, 15 * model.layers))
    if optimiser == "adamw":
        pieces.append(
            Piece("adamw", 0.0, BF16, float(ADAMW_BYTES_PER_PARAMETER * model.parameters))
        )
    elif optimiser is not None:
        raise ValueError(f"unknown optimiser '{optimiser}'; adamw, or none at all")
    routes = {name: device.route(operand.format) for name, operand in recipe.operands.items()}
    return Step(tuple(time_piece(device, piece) for piece in pieces), routes, model.tokens)


def time_piece(device: Device, piece: Piece) -> Timed:
    """Roofline time of one piece.

    Raises:
        ValueError: the device lacks the piece's rate.
    """
    reached = device.record.achievable
    compute, bandwidth, overhead = (
        (reached.compute.value, reached.bandwidth.value, reached.overhead.value * 1e-6)
        if reached
        else (1.0, 1.0, 0.0)
    )
    on_compute = 0.0
    if piece.flops:
        on_compute = piece.flops / (device.rate(piece.rate).value * TERA * compute)
    on_memory = piece.bytes / (device.bandwidth.value * TERA * bandwidth)
    launch = piece.launches * overhead
    times = {"compute": on_compute, "memory": on_memory, "launch": launch}
    bound = max(times, key=lambda kind: times[kind])
    return Timed(piece, max(on_compute, on_memory) + launch, bound)


def gemm_piece(device: Device, gemm: Gemm, a: BlockFormat, b: BlockFormat) -> Piece:
    """A GEMM of operands in two formats, all copies of it.

    Operands of different routes (one of them kept in BF16, say) meet in BF16.
    """
    routes = {device.route(a), device.route(b)}
    rate = next(iter(routes)).rate if len(routes) == 1 else BF16
    operands = sum(
        operand_bytes(device, fmt, (rows, gemm.k), rate) for fmt, rows in ((a, gemm.m), (b, gemm.n))
    )
    moved = gemm.linear.copies * (operands + BF16_BYTES * gemm.m * gemm.n)
    name = f"{gemm.linear.name} {gemm.name}"
    return Piece(name, 2.0 * gemm.macs, rate, float(moved), gemm.linear.copies)


def layer_pieces(device: Device, linear: Linear, recipe: Recipe) -> Iterator[Piece]:
    """Forward and backward of a linear layer: its three GEMMs, and quantising their operands."""
    for gemm in linear.gemms:
        left, right = (recipe.operands[name].format for name in GEMM_OPERANDS[gemm.name])
        yield gemm_piece(device, gemm, left, right)
    yield from _quantise_pieces(device, linear, recipe)


def operand_bytes(device: Device, fmt: BlockFormat, shape: tuple[int, int], rate: str) -> int:
    """Bytes of an operand as the matrix unit reads it: codes and scales, or decoded BF16."""
    path = device.route(fmt).path
    if path == "emulated" or rate == BF16:
        return BF16_BYTES * shape[0] * shape[1]
    stored = fmt.storage_bytes(shape)
    if path == "wider" and fmt.element is not None:
        stored += (BYTE_FORMAT_BITS - fmt.element.bits) * shape[0] * shape[1] // 8
    return stored


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


def _quantise_pieces(device: Device, linear: Linear, recipe: Recipe) -> Iterator[Piece]:
    """Quantising the three tensors of a linear layer, each read once for both of its GEMMs."""
    shapes = {
        "x": (linear.rows, linear.in_features),
        "w": (linear.out_features, linear.in_features),
        "dy": (linear.rows, linear.out_features),
    }
    for tensor, gemms in ORIENTATIONS.items():
        shape = shapes[tensor]
        oriented = zip(
            (recipe.operands[f"{tensor}.{gemm}"] for gemm in gemms),
            (shape, shape[::-1]),
            strict=True,
        )
        quantised = [(op, at) for op, at in oriented if not op.format.is_high_precision]
        if not quantised:
            continue
        reads = 1 + any(operand.format.tensor_scale for operand, _ in quantised)
        moved = float(reads * BF16_BYTES * math.prod(shape))
        for operand, at in quantised:
            moved += operand_bytes(device, operand.format, at, device.route(operand.format).rate)
        if any(operand.hadamard for operand, _ in quantised):
            moved *= kernel_constants().rotation.value
        yield Piece(
            f"{linear.name} quantise {tensor}", 0.0, BF16, linear.copies * moved, linear.copies
        )


@cache
def kernel_constants() -> KernelConstants:
    """The kernel constants that this part of the model rests on."""
    return load_yaml(KERNEL_CONSTANTS, KernelConstants)


@cache
def _high_precision() -> BlockFormat:
    return BlockFormat(BF16, "high precision", None)
