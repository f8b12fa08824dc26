import pytest

from hwmodels.device import load_device
from hwmodels.validation import (
    Measured,
    MeasuredGemm,
    compare,
    fit_achievable,
    load_measured,
    worst_error,
)


def gemm(size: int, time_us: float, use: str = "check") -> MeasuredGemm:
    return MeasuredGemm(m=size, n=size, k=size, operands="bf16", time_us=time_us, use=use)


def peak_us(size: int) -> float:
    return 2 * size**3 / 989e12 * 1e6


def peak_us_of(rows: int, outs: int, ins: int) -> float:
    return 3 * 2 * rows * outs * ins / 989e12 * 1e6


def test_errors_are_of_the_checked_times_only():
    measured = Measured(
        device="h100",
        source="a test",
        date="2026-11",
        gemms=(gemm(4096, 2 * peak_us(4096), "fit"), gemm(8192, 1.25 * peak_us(8192))),
    )
    found = list(compare(measured))
    assert [round(c.error_percent, 6) for c in found] == [-50, -20]
    assert worst_error(found, "gemm") == pytest.approx(20)
    assert worst_error(found, "step") is None


def test_the_fit_recovers_share_and_overhead():
    gemms = tuple(gemm(n, peak_us(n) / 0.75 + 5, "fit") for n in (2048, 4096, 8192))
    share, overhead = fit_achievable(load_device("h200"), gemms)
    assert (share, overhead) == (pytest.approx(0.75), pytest.approx(5))


def test_a_fit_in_the_device_file_does_not_enter_the_next():
    fitted = load_device("h200")
    assert fitted.record.achievable is not None
    gemms = tuple(gemm(n, peak_us(n) / 0.75 + 5, "fit") for n in (2048, 4096))
    assert fit_achievable(fitted, gemms) == (pytest.approx(0.75), pytest.approx(5))


def test_one_time_is_too_few_to_fit():
    with pytest.raises(ValueError, match="at least two"):
        fit_achievable(load_device("h200"), (gemm(4096, 200.0, "fit"), gemm(8192, 900.0)))


def test_the_device_file_holds_what_the_measured_file_gives():
    for measured in load_measured():
        device = load_device(measured.device)
        share, overhead = fit_achievable(device, (*measured.gemms, *measured.layers))
        reached = device.record.achievable
        assert reached is not None
        assert reached.compute.value == pytest.approx(share, abs=5e-4)
        assert reached.overhead.value == pytest.approx(overhead, abs=5e-3)


def test_either_layer_alone_predicts_the_other_in_bf16():
    """Two times fix two constants; a share alone, from one of them, must then hold for both."""
    (measured,) = load_measured()
    bf16 = [layer for layer in measured.layers if layer.recipe == "bf16"]
    shares = [
        peak_us_of(layer.rows, layer.out_features, layer.in_features) / layer.time_us
        for layer in bf16
    ]
    assert len(shares) == 2 and shares[0] / shares[1] == pytest.approx(1, abs=0.02)


def test_layers_are_within_the_target_and_steps_are_not():
    """The target was 15% where a GEMM is the work and 20% on steps, over times not fitted to.

    Emulated layers reach it. Steps of a small model miss it by far: docs/hardware-model.md says
    why, and this test says when that text is out of date.
    """
    (measured,) = load_measured()
    found = list(compare(measured))
    assert worst_error(found, "layer") < 15
    assert worst_error(found, "gemm") is None
    steps = {c.recipe: round(c.error_percent) for c in found if c.what == "step"}
    assert steps == {"bf16": -48, "e2m1-ref": -56, "ufp4": -58}
