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


def test_errors_are_of_the_checked_times_only():
    measured = Measured(
        device="h200",
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


def test_shipped_measurements_are_within_the_target():
    """15% on GEMMs and 20% on steps, wherever times were measured."""
    for measured in load_measured():
        found = list(compare(measured))
        assert (worst_error(found, "gemm") or 0) < 15
        assert (worst_error(found, "step") or 0) < 20
