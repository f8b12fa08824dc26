from dataclasses import replace

import pytest

from formats import load_format, load_recipe, plain_recipe
from hwmodels.device import Device, load_device
from hwmodels.throughput import BF16_BYTES, Piece, gemm_piece, operand_bytes, step_time, time_piece
from hwmodels.workload import Linear, load_model

B200 = load_device("b200")
MODEL = load_model("dense-1.5b")


@pytest.mark.parametrize(
    ("name", "size"),
    [("nvfp4", 4096 * 4096 * 4.5 / 8 + 4), ("mxfp4-rceil", 4096 * 4096 * 4.25 / 8)],
)
def test_B108_scales_count_as_memory(name, size):
    """The bytes that throughput moves are the format's storage, scales included."""
    fmt = load_format(name)
    moved = operand_bytes(B200, fmt, (4096, 4096), "fp4")
    assert moved == size == fmt.storage_bytes((4096, 4096))


def test_B108_a_wider_carrier_takes_its_width():
    fmt = load_format("mxint4")
    assert operand_bytes(B200, fmt, (4096, 4096), "fp8") == 4096 * 4096 * 8.25 / 8


def test_B108_padded_blocks_are_moved_too():
    assert operand_bytes(B200, load_format("nvfp4"), (3, 17), "fp4") == 3 * (16 + 2) + 4


def test_a_piece_takes_the_longer_of_compute_and_memory():
    compute = time_piece(B200, Piece("g", flops=9e15, rate="fp4", bytes=7.7e11))
    memory = time_piece(B200, Piece("g", flops=9e14, rate="fp4", bytes=7.7e12))
    assert (compute.seconds, compute.bound) == (pytest.approx(1.0), "compute")
    assert (memory.seconds, memory.bound) == (pytest.approx(1.0), "memory")


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
    assert extra == pytest.approx(30 * MODEL.parameters / 7.7e12)
    with pytest.raises(ValueError, match="unknown optimiser 'muon'"):
        step_time(B200, MODEL, load_recipe("bf16"), "muon")


def test_a_device_without_bf16_cannot_time_a_step():
    with pytest.raises(ValueError, match="device 'mi455x' has no bf16 rate"):
        step_time(load_device("mi455x"), MODEL, load_recipe("bf16"))


def test_B106_changing_a_rate_changes_the_step():
    fast = B200.record.rates["bf16"].model_copy(update={"value": 4500.0})
    record = B200.record.model_copy(update={"rates": {**B200.record.rates, "bf16": fast}})
    twice = Device(record, B200.memory, B200.bandwidth, B200.path)
    attention = Piece("attention", MODEL.attention_flops, "bf16", 0.0)
    assert time_piece(twice, attention).seconds == time_piece(B200, attention).seconds / 2
