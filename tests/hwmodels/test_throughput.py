from dataclasses import replace

import pytest

from formats import load_format, load_recipe, plain_recipe
from hwmodels.device import Device, load_device
from hwmodels.throughput import BF16_BYTES, gemm_piece, step_time
from hwmodels.workload import Linear, load_model

B200 = load_device("b200")
MODEL = load_model("dense-1.5b")


def test_operands_of_different_routes_meet_in_bf16():
    gemm = next(Linear("l", 64, 64, 1, 64).gemms)
    mixed = gemm_piece(B200, gemm, load_format("nvfp4"), load_format("e1m2"))
    assert mixed.rate == "bf16" and mixed.bytes == 3 * 64 * 64 * BF16_BYTES


def test_fp4_is_faster_where_it_is_native_and_slower_where_it_is_emulated():
    bf16, nvfp4 = (load_recipe(name) for name in ("bf16", "nvfp4"))
    h200 = load_device("h200")
    assert step_time(B200, MODEL, nvfp4).seconds < step_time(B200, MODEL, bf16).seconds
    assert step_time(h200, MODEL, nvfp4).seconds > step_time(h200, MODEL, bf16).seconds


def test_rotations_and_kept_blocks_cost_time():
    plain, ufp4 = plain_recipe(load_format("e1m2")), load_recipe("ufp4")
    what_if = load_device("b200-uniform")
    assert step_time(what_if, MODEL, ufp4).seconds > step_time(what_if, MODEL, plain).seconds
    kept = replace(ufp4, keep_last=0.5)
    assert step_time(what_if, MODEL, kept).seconds > step_time(what_if, MODEL, ufp4).seconds


def test_the_optimiser_counts_only_by_name():
    without = step_time(B200, MODEL, load_recipe("bf16"))
    with_it = step_time(B200, MODEL, load_recipe("bf16"), "adamw")
    extra = with_it.seconds - without.seconds
    assert extra == pytest.approx((12 + 28 + 4) * MODEL.parameters / 7.7e12)
    assert "optimiser" in with_it.shares and "optimiser" not in without.shares
    with pytest.raises(ValueError, match="unknown optimiser 'muon'"):
        step_time(B200, MODEL, load_recipe("bf16"), "muon")


def test_shares_of_a_step_add_up():
    shares = step_time(load_device("h200"), MODEL, load_recipe("nvfp4"), "adamw").shares
    assert sum(shares.values()) == pytest.approx(1)
    assert {"fprop", "attention", "norm", "swiglu", "loss", "quantise", "amax"} <= set(shares)


def test_a_device_without_bf16_cannot_time_a_step():
    with pytest.raises(ValueError, match="device 'mi455x' has no bf16 rate"):
        step_time(load_device("mi455x"), MODEL, load_recipe("bf16"))


def test_B106_changing_a_rate_changes_the_step():
    fast = B200.record.rates["bf16"].model_copy(update={"value": 4500.0})
    record = B200.record.model_copy(update={"rates": {**B200.record.rates, "bf16": fast}})
    twice = Device(record, B200.memory, B200.bandwidth, B200.path)
    step, faster = (step_time(one, MODEL, load_recipe("bf16")) for one in (B200, twice))
    for before, after in zip(step.pieces, faster.pieces, strict=True):
        half = before.piece.flops and after.bound == "compute"
        assert after.seconds == (before.seconds / 2 if half else pytest.approx(before.seconds))
