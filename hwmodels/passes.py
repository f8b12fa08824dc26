"""Passes: what a step moves through memory between its GEMMs, pass by pass, as the suites train.

The residual stream and the weights are FP32, what GEMMs read and write is BF16; every line below is
one kernel that reads its inputs and writes its result once. In units of the stream, (tokens, width)
in FP32 ("wide") or BF16 ("narrow"), each number of passes per block:

    norm         2 (and one before the head)   forward wide + narrow, backward 2 wide + narrow
    residual     2   forward 2 wide + narrow, backward to BF16 (wide + narrow) and added (3 wide)
    heads        1   Q, K and V taken apart, Q and K rotated, the result put together; and back
    swiglu       1   in units of (tokens, hidden): forward 3, backward 5
    dispatch     1   of a mixture: rows copied to their experts, results put back and weighted

and once a step: the embedding, the loss over the vocabulary, each weight's BF16 copy and gradient.
"""

from __future__ import annotations

from collections.abc import Iterator

from hwmodels.device import BF16
from hwmodels.piece import Piece
from hwmodels.workload import BF16_BYTES, FP32_BYTES, ModelShape

# FP32: weight, two moments and gradient read; weight and moments written.
ADAMW = (4 + 3) * FP32_BYTES
CLIP = (1 + 2) * FP32_BYTES  # gradient read for its norm, then read and written
CLEAR = FP32_BYTES
SORT = 12  # launches that sort the tokens, so that an embedding's gradient is added up in order
WEIGHT_COPY = FP32_BYTES + BF16_BYTES
# BF16 as the GEMM wrote it made FP32, and added to what micro-batches before left there.
WEIGHT_GRADIENT = (BF16_BYTES + FP32_BYTES) + 3 * FP32_BYTES


def passes(model: ModelShape) -> Iterator[Piece]:
    """All passes of a step but the optimiser's."""
    yield from _stream_passes(model)
    yield from _mlp_passes(model)
    yield from _end_passes(model)
    matrices = sum(linear.copies for linear in model.linears)
    weights = sum(lin.copies * lin.out_features * lin.in_features for lin in model.linears)
    yield _pass("weight copies", "weights", WEIGHT_COPY * weights, matrices)
    yield _pass("weight gradients", "weights", WEIGHT_GRADIENT * weights, 2 * matrices)


def optimiser_passes(model: ModelShape, optimiser: str) -> Iterator[Piece]:
    """Clipping, the update and clearing of gradients.

    Raises:
        ValueError: the optimiser is unknown.
    """
    if optimiser != "adamw":
        raise ValueError(f"unknown optimiser '{optimiser}'; adamw, or none at all")
    for name, size, launches in (("clip", CLIP, 2), ("adamw", ADAMW, 1), ("clear", CLEAR, 1)):
        yield _pass(f"optimiser {name}", "optimiser", size * model.parameters, launches)


def _stream_passes(model: ModelShape) -> Iterator[Piece]:
    """Those over (tokens, width)."""
    narrow = BF16_BYTES * model.tokens * model.width
    wide = FP32_BYTES * model.tokens * model.width
    blocks, norms = model.layers, 2 * model.layers + 1
    yield _pass("norm forward", "norm", norms * (wide + narrow), norms)
    # The weight's gradient is added up over the tokens by a second kernel, and then to the last's.
    yield _pass("norm backward", "norm", norms * (2 * wide + narrow), 3 * norms)
    yield _pass("residual forward", "residual", 2 * blocks * (2 * wide + narrow), 2 * blocks)
    backward = (wide + narrow) + 3 * wide
    yield _pass("residual backward", "residual", 2 * blocks * backward, 4 * blocks)
    # Read and written: Q and K rotated, V copied, the result put together.
    yield _pass("heads forward", "heads", blocks * (6 + 2) * narrow, 3 * blocks)
    # Backward rotates the gradients of Q and K first, and joins the three in a pass of its own.
    yield _pass("heads backward", "heads", blocks * (4 + 6 + 2) * narrow, 3 * blocks)


def _mlp_passes(model: ModelShape) -> Iterator[Piece]:
    visits = model.top_k + model.shared_experts if model.experts else 1
    hidden = BF16_BYTES * model.tokens * model.hidden * visits
    units = model.layers * (model.experts + bool(model.shared_experts) if model.experts else 1)
    yield _pass("swiglu forward", "swiglu", model.layers * 3 * hidden, units)
    yield _pass("swiglu backward", "swiglu", model.layers * 5 * hidden, units)
    if model.experts:
        narrow = BF16_BYTES * model.tokens * model.width
        # Rows repeated, sorted, joined and sorted back, each read and written; then added up.
        there = 4 * 2 * model.top_k + (model.top_k + 1)
        moved = 2 * model.layers * there * narrow
        yield _pass("dispatch", "dispatch", moved, 2 * 5 * model.layers)


def _end_passes(model: ModelShape) -> Iterator[Piece]:
    wide = FP32_BYTES * model.tokens * model.width
    logits = BF16_BYTES * model.tokens * model.vocabulary
    # Rows gathered and scaled, each read and written; backward scaled again, read and added up.
    yield _pass("embedding", "embedding", 4 * wide + 3 * wide, 4 + SORT)
    yield _pass("loss forward", "loss", logits, 1)
    yield _pass("loss backward", "loss", 2 * logits, 1)


def _pass(name: str, kind: str, moved: int, launches: int) -> Piece:
    return Piece(name, kind, 0.0, BF16, float(moved), launches)
