"""Block formats: storage, exactness in BF16, and what makes two formats the same."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from formats import list_formats, load_format
from tests.numerics.library import write_format

BITS = {
    "bf16": 16.0,
    "e2m1": 6.0,
    "nvfp4": 4.5,
    "nvint4": 4.5,
    "mxfp4-rceil": 4.25,
    "mxfp8": 8.25,
    "nvfp4-2d": 4.03125,
}


@pytest.mark.parametrize("name", sorted(BITS))
def test_bits_per_element_count_the_scales(name: str) -> None:
    assert load_format(name).bits_per_element == BITS[name]


def test_B108_storage_counts_scales_and_padding(tmp_path: Path) -> None:
    square = (4096, 4096)
    assert load_format("nvfp4").storage_bytes(square) == 9_437_184 + 4
    assert load_format("mxfp4-rceil").storage_bytes(square) == 4096 * 4096 * 17 // 32
    group = write_format(tmp_path, element="int4", block="128", scale="{format: bf16}")
    assert group.storage_bytes(square) == 4096 * 4096 // 2 + 4096 * 32 * 2
    grid = write_format(tmp_path, element="{values: [0, 1, 3]}", block="[16, 16]")
    assert grid.storage_bytes(square) == 4096 * 4096 // 2 + 256 * 256 * 4
    assert load_format("nvfp4").storage_bytes((1, 17)) == 32 // 2 + 2 + 4
    assert load_format("nvfp4-2d").storage_bytes((17, 1)) == 512 // 2 + 2 + 4
    assert load_format("bf16").storage_bytes((3, 5)) == 30


def test_exactness_in_bf16_is_that_of_element_times_scale() -> None:
    exact = {entry.name for entry in list_formats() if load_format(entry.name).is_exact_in_bf16}
    assert {"bf16", "nvfp4", "nvint4", "nve1m2", "mxfp4-rceil", "mxint4", "nvfp4-2d"} <= exact
    assert not {"e2m1", "e1m2", "int4"} & exact


def test_arbitrary_reals_are_not_exact_in_bf16(tmp_path: Path) -> None:
    values = "{values: [0, 0.1, 1]}"
    assert not write_format(tmp_path, element=values, scale="{format: e4m3}").is_exact_in_bf16


def test_the_digest_tells_numerics_apart_and_nothing_else() -> None:
    nvfp4 = load_format("nvfp4")
    assert replace(nvfp4, name="other", summary="other", source="").digest == nvfp4.digest
    assert len({load_format(entry.name).digest for entry in list_formats()}) == len(list_formats())
    assert replace(nvfp4, gain=0.99).digest != nvfp4.digest


def test_B20_equal_digests_mean_equal_scales_under_the_even_rule(tmp_path: Path) -> None:
    """The even rule rounds to mantissa bits, which a table of values does not show."""
    scale = "{format: e8m0, rule: even}"
    as_float = write_format(
        tmp_path, element="{float: {exponent: 2, mantissa: 1, max: 4}}", scale=scale
    )
    as_values = write_format(tmp_path, element="{values: [0, 0.5, 1, 1.5, 2, 3, 4]}", scale=scale)
    assert as_float.element is not None and as_values.element is not None
    assert str(as_float.element.decode_table[:7]) == str(as_values.element.decode_table[:7])
    assert as_float.digest != as_values.digest
