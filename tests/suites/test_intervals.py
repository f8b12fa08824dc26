"""The interval of a mean against scipy's."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from suites.intervals import interval_of_mean

SAMPLES = st.lists(st.floats(-100, 100), min_size=2, max_size=50)


@given(SAMPLES)
def test_equals_scipy(samples: list[float]) -> None:
    found = interval_of_mean(samples)
    half_width = stats.t.ppf(0.975, len(samples) - 1) * stats.sem(samples)
    # Beyond 30 degrees of freedom the normal's quantile is used, which is at most 4 % smaller.
    assert found.half_width == pytest.approx(half_width, rel=0.04 if len(samples) > 31 else 1e-4)
    assert found.low <= found.mean <= found.high


def test_one_sample_resolves_nothing() -> None:
    found = interval_of_mean([1.0])
    assert (found.mean, found.half_width, found.excludes_zero) == (1.0, math.inf, False)


@pytest.mark.parametrize(("samples", "resolved"), [([1, 1.1, 0.9], True), ([1, -1, 0.5], False)])
def test_a_sign_is_resolved_when_zero_is_outside(samples: list[float], resolved: bool) -> None:
    assert interval_of_mean(samples).excludes_zero is resolved
