"""Scale formats: every byte, and the rules that exist."""

from __future__ import annotations

import math

import pytest

from formats import SCALE_FORMATS
from formats.scale import E4M3_SCALE, E8M0_SCALE, FOUR_OVER_SIX, UE5M3_SCALE, ScaleRule


def test_B07_e8m0_bytes_decode_to_powers_of_two_and_nan() -> None:
    values = E8M0_SCALE.values
    assert values[:255] == tuple(2.0**exponent for exponent in range(-127, 128))
    assert math.isnan(values[255])


def test_B19_subnormal_bytes_of_minifloats() -> None:
    assert E4M3_SCALE.values[:9] == tuple(k / 512 for k in range(9))
    assert UE5M3_SCALE.values[:9] == tuple(k / 2**17 for k in range(9))


def test_largest_scales_and_nan_bytes() -> None:
    assert (E4M3_SCALE.values[0x7E], UE5M3_SCALE.values[0xFE]) == (448.0, 114688.0)
    assert all(math.isnan(E4M3_SCALE.values[byte]) for byte in (0x7F, 0xFF))
    assert math.isnan(UE5M3_SCALE.values[0xFF])


@pytest.mark.parametrize("name", ["e4m3", "ue5m3"])
def test_thresholds_lie_between_neighbouring_scales(name: str) -> None:
    scale = SCALE_FORMATS[name]
    thresholds = scale.thresholds()
    for low, threshold, high in zip(scale.values, thresholds, scale.values[1:], strict=False):
        assert low < threshold <= high


def test_rules_by_kind() -> None:
    assert E8M0_SCALE.rules == ("floor", "rceil", "ceil", "even")
    assert E4M3_SCALE.rules == ("amax", FOUR_OVER_SIX)
    assert SCALE_FORMATS["fp32"].rules == SCALE_FORMATS["bf16"].rules == ("amax",)


def test_B91_limits_come_from_the_scale_format() -> None:
    assert ScaleRule(E4M3_SCALE).max == 448.0
    assert ScaleRule(UE5M3_SCALE).max == 114688.0
    assert ScaleRule(E4M3_SCALE, FOUR_OVER_SIX).max == 256.0  # arXiv:2512.02010
