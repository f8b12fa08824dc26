import pytest

from hwmodels.device import load_device
from hwmodels.piece import MICRO, Piece, copy_rate, time_piece

B200, H200 = load_device("b200"), load_device("h200")
REACHED = H200.record.achievable


def test_without_measurements_a_piece_takes_the_longer_of_compute_and_memory():
    compute = time_piece(B200, Piece("g", "gemm", flops=9e15, rate="fp4", bytes=7.7e11))
    memory = time_piece(B200, Piece("g", "gemm", flops=9e14, rate="fp4", bytes=7.7e12))
    assert (compute.seconds, compute.bound) == (pytest.approx(1.0), "compute")
    assert (memory.seconds, memory.bound) == (pytest.approx(1.0), "memory")


def test_without_measurements_neither_tiles_nor_launches_count():
    square = Piece("g", "gemm", 2.0 * 100**3, "bf16", 1.0, 7, "gemm", (100, 100, 100))
    assert time_piece(B200, square).seconds == pytest.approx(2.0 * 100**3 / 2250e12)


def test_a_pass_moves_its_bytes_at_what_passes_reach_and_a_stream_at_what_copies_do():
    moved, launches = 4.8e9, 3
    slow = time_piece(H200, Piece("p", "norm", 0.0, "bf16", moved, launches))
    fast = time_piece(H200, Piece("p", "norm", 0.0, "bf16", moved, launches, "stream"))
    launch = launches * REACHED.launch.value * MICRO
    assert slow.seconds == pytest.approx(1e-3 / REACHED.passes.value + launch)
    assert fast.seconds == pytest.approx(1e-3 / REACHED.bandwidth.value + launch)
    assert slow.bound == "memory"


def test_a_slowdown_multiplies_the_time_of_the_traffic():
    plain = Piece("q", "quantise", 0.0, "bf16", 4.8e9, 1, "stream")
    twice = Piece("q", "quantise", 0.0, "bf16", 4.8e9, 1, "stream", slowdown=2.0)
    more = time_piece(H200, twice).seconds - time_piece(H200, plain).seconds
    assert more == pytest.approx(4.8e9 / copy_rate(H200, REACHED))


def test_attention_does_not_hide_its_loads():
    flops, moved = 989e9, 4.8e9
    both = time_piece(H200, Piece("a", "attention", flops, "bf16", moved, 1, "attention"))
    apart = 1e-3 / REACHED.attention.value + 1e-3 / REACHED.bandwidth.value
    assert both.seconds == pytest.approx(apart + REACHED.launch.value * MICRO)


def test_a_gemm_pays_for_whole_waves_and_part_of_its_result():
    m, n, k = 128 * 132, 256, 4096  # one full wave of 128x256
    full = time_piece(H200, gemm(m, n, k)).seconds
    more = time_piece(H200, gemm(m + 128, n, k)).seconds  # one tile more: another wave
    inner = 2.0 * m * n * k / (989e12 * REACHED.compute["bf16"].value)
    exposed = REACHED.exposed.value * 2 * m * n / copy_rate(H200, REACHED)
    assert full == pytest.approx(inner + exposed + REACHED.launch.value * MICRO)
    assert more > 1.4 * full


def test_a_small_result_with_a_long_k_is_cut_and_added_up_by_one_more_kernel():
    cut = time_piece(H200, gemm(256, 256, 65536))
    one_tile_after_the_other = 2.0 * 132 * 128 * 256 * 65536 / 989e12
    assert cut.seconds < one_tile_after_the_other / 5
    assert cut.seconds > 2.0 * 256 * 256 * 65536 / 989e12 + 2 * REACHED.launch.value * MICRO


def test_a_rate_that_was_not_measured_is_taken_at_its_peak():
    assert "int8" not in REACHED.compute
    fast = time_piece(H200, gemm(8192, 8192, 8192, "int8")).seconds
    slow = time_piece(H200, gemm(8192, 8192, 8192, "fp8")).seconds
    assert fast < slow


def gemm(m: int, n: int, k: int, rate: str = "bf16") -> Piece:
    return Piece("g", "gemm", 2.0 * m * n * k, rate, 0.0, 1, "gemm", (m, n, k))
