"""Quantisers: what it costs to make the operands of GEMMs, as traffic and measured slowdowns.

Each tensor is read once for both of its orientations, and each orientation written; once more read
where a format needs the whole tensor's amax first. Kernels are slower than that traffic:

* where a matrix unit takes the format, by the ratio published for fused rotations
* where it is emulated on a device that was measured, by what ``emulator`` says of the program's own
  kernels; where the two orientations differ, by the mean of theirs

A factor per tensor costs nothing more: where it is emulated, the GEMM takes it in too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from statistics import mean

from formats import BlockFormat, Operand, Recipe
from hwmodels.device import BF16, Device
from hwmodels.emulator import amax_slowdown, kernel_constants, quantise_slowdown, treatment_of
from hwmodels.piece import Piece
from hwmodels.workload import BF16_BYTES, Linear

BYTE_FORMAT_BITS = 8  # an element carried in a wider native type takes a byte
# The GEMMs that contract a tensor's columns (as it lies), then its rows (transposed).
ORIENTATIONS = {"x": ("fprop", "wgrad"), "w": ("fprop", "dgrad"), "dy": ("dgrad", "wgrad")}


def quantise_pieces(device: Device, linear: Linear, recipe: Recipe) -> Iterator[Piece]:
    """Quantising the three tensors of a linear layer."""
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
        if any(operand.format.is_two_level for operand, _ in quantised):
            yield _amax_piece(device, linear, tensor, quantised)
        if quantised:
            yield _quantise_piece(device, linear, tensor, quantised)


def operand_bytes(device: Device, fmt: BlockFormat, shape: tuple[int, int], rate: str) -> int:
    """Bytes of an operand as the matrix unit reads it: codes and scales, or decoded BF16."""
    path = device.route(fmt).path
    if path == "emulated" or rate == BF16:
        return BF16_BYTES * shape[0] * shape[1]
    stored = fmt.storage_bytes(shape)
    if path == "wider" and fmt.element is not None:
        stored += (BYTE_FORMAT_BITS - fmt.element.bits) * shape[0] * shape[1] // 8
    return stored


def _amax_piece(
    device: Device, linear: Linear, tensor: str, quantised: list[tuple[Operand, tuple[int, int]]]
) -> Piece:
    moved = float(linear.copies * BF16_BYTES * math.prod(quantised[0][1]))
    found = 1.0
    if _is_measured(device, quantised):
        count = len(quantised)
        found = mean(amax_slowdown(count, operand.hadamard is not None) for operand, _ in quantised)
    name = f"{linear.name} amax {tensor}"
    return Piece(name, "amax", 0.0, BF16, moved, linear.copies, "stream", slowdown=found)


def _quantise_piece(
    device: Device, linear: Linear, tensor: str, quantised: list[tuple[Operand, tuple[int, int]]]
) -> Piece:
    moved = BF16_BYTES * math.prod(quantised[0][1])
    for operand, at in quantised:
        moved += operand_bytes(device, operand.format, at, device.route(operand.format).rate)
    if _is_measured(device, quantised):
        count = len(quantised)
        found = mean(quantise_slowdown(count, treatment_of(operand)) for operand, _ in quantised)
    else:
        rotated = any(operand.hadamard for operand, _ in quantised)
        found = kernel_constants().rotation.value if rotated else 1.0
    name, total = f"{linear.name} quantise {tensor}", float(linear.copies * moved)
    return Piece(name, "quantise", 0.0, BF16, total, linear.copies, "stream", slowdown=found)


def _is_measured(device: Device, quantised: list[tuple[Operand, tuple[int, int]]]) -> bool:
    """Whether the program's own kernels do this, on a device that was measured."""
    emulated = any(device.route(operand.format).path == "emulated" for operand, _ in quantised)
    return emulated and device.record.achievable is not None
