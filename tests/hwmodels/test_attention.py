import pytest

from hwmodels.attention import attention_pieces, product_flops
from hwmodels.workload import load_model

MODEL = load_model("dense-1.5b")


def test_long_sequences_meet_half_their_keys():
    half = 2 * MODEL.tokens * MODEL.sequence / 2 * MODEL.width * MODEL.layers
    assert product_flops(MODEL) == pytest.approx(half, rel=0.04)


def test_a_sequence_of_one_block_is_computed_in_full():
    short = MODEL.model_copy(update={"sequence": 64})
    assert product_flops(short) == 2 * MODEL.tokens * 64 * MODEL.width * MODEL.layers


def test_backward_makes_five_products_for_two_forward():
    forward, backward, around = attention_pieces(MODEL)
    assert backward.flops == 2.5 * forward.flops and around.flops == 0
    # Q, K, V and the result, BF16: scores are not among what is moved.
    assert forward.bytes == 4 * 2 * MODEL.tokens * MODEL.width * MODEL.layers
