"""Attention: the work of flash attention (arXiv:2307.08691), forward and backward, causal.

Both go through blocks of 128 queries by 128 keys, and compute a block that the diagonal cuts in
full, so a query meets (sequence + 128) / 2 keys on average. Forward makes two products of each
block (QK' and AV), backward five (QK' again, and the gradients of V, of the scores, of Q and of K).
Scores never reach memory. Backward adds the parts of Q's gradient up in FP32, in a buffer that is
cleared before and converted to BF16 after.
"""

from __future__ import annotations

from collections.abc import Iterator

from hwmodels.device import BF16
from hwmodels.piece import Piece
from hwmodels.workload import BF16_BYTES, FP32_BYTES, ModelShape

BLOCK = 128
FORWARD_PRODUCTS, BACKWARD_PRODUCTS = 2, 5
AROUND_BACKWARD = 5  # launches: dO times the result, three buffers cleared, dQ converted


def attention_pieces(model: ModelShape) -> Iterator[Piece]:
    """Attention of all blocks: two kernels that multiply, and the passes around the second."""
    narrow = float(BF16_BYTES * model.tokens * model.width * model.layers)
    wide = narrow * FP32_BYTES / BF16_BYTES
    product = product_flops(model)
    for name, products, moved in (
        ("forward", FORWARD_PRODUCTS, 4 * narrow),  # Q, K, V; the result
        ("backward", BACKWARD_PRODUCTS, 6 * narrow + 2 * wide),  # Q to V, dO; dK, dV; dQ added to
    ):
        yield Piece(
            f"attention {name}",
            "attention",
            products * product,
            BF16,
            moved,
            model.layers,
            "attention",
        )
    # dO and the result multiplied element by element; dQ cleared, and converted.
    around = 2 * narrow + wide + (wide + narrow)
    yield Piece("attention dQ", "attention", 0.0, BF16, around, AROUND_BACKWARD * model.layers)


def product_flops(model: ModelShape) -> float:
    """FLOP of one product over all blocks that are not masked as a whole."""
    keys = min(model.sequence, (model.sequence + BLOCK) / 2)
    return 2.0 * model.tokens * keys * model.width * model.layers
