"""From amax to stored scale and back, rule by rule."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from formats import SCALE_FORMATS, load_format
from formats.scale import FLT_MAX
from kernels import quantize
from kernels.scaling import (
    decode_scales,
    encode_scales,
    power_of_two,
    round_minifloat,
    stored_scale,
    tensor_scale,
)
from tests.numerics.library import write_format

E2M1 = load_format("e2m1").element
assert E2M1 is not None
AMAX = torch.tensor([6.0, 6.5, 6.99, 7.0, 8.0])


@pytest.mark.parametrize(
    ("rule", "exponents"),
    [
        ("floor", [0, 0, 0, 0, 1]),
        ("ceil", [1, 1, 1, 1, 1]),
        ("rceil", [0, 1, 1, 1, 1]),
        ("even", [0, 0, 0, 1, 1]),
    ],
)
def test_B20_the_four_rules_of_e8m0(rule: str, exponents: list[int]) -> None:
    assert power_of_two(AMAX, E2M1, rule).tolist() == exponents


def test_B20_clipping_under_floor_is_counted() -> None:
    block = torch.full((1, 32), 1.0)
    block[0, 0] = 7.99
    assert quantize(block, load_format("mxfp4-floor")).counters.saturated == 1
    assert quantize(block, load_format("mxfp4-rceil")).counters.saturated == 0


def test_B20_957_becomes_896_by_the_floor_rule() -> None:
    """A user's example: floor(log2 957) - 8 = 1, and 957/2 saturates E4M3 at 448."""
    element = replace(load_format("mxfp8"), scale=load_format("mxfp4-floor").scale)
    assert float(quantize(torch.full((1, 32), 957.0), element).dequantize()[0, 0]) == 896.0


def test_B11_the_floor_rule_sees_fp32() -> None:
    amax = torch.tensor(7.9999995)
    assert amax.bfloat16() == 8.0
    assert power_of_two(amax, E2M1, "floor") == 0


@pytest.mark.parametrize("rule", ["floor", "ceil", "rceil", "even"])
def test_B09_the_ends_of_e8m0(rule: str) -> None:
    ends = torch.tensor([0.0, 2.0**-149, 2.0**-126, 3.4e38, FLT_MAX])
    exponents = power_of_two(ends, E2M1, rule).tolist()
    assert exponents[:3] == [-127, -127, -127]
    assert all(124 <= exponent <= 127 for exponent in exponents[3:])


def test_the_even_rule_takes_maxima_of_24_significant_bits(tmp_path: Path) -> None:
    """Rounding amax to all of FP32's bits rounds nothing, so even is floor."""
    fmt = write_format(
        tmp_path, element="{values: [0, 0.3, 0.7]}", scale="{format: e8m0, rule: even}"
    )
    assert fmt.element is not None and fmt.element.mantissa_bits == 23
    amax = torch.tensor([0.69, 0.7, 0.9999, 1.0])
    assert torch.equal(
        power_of_two(amax, fmt.element, "even"), power_of_two(amax, fmt.element, "floor")
    )


def test_B14_B91_minifloats_saturate_at_their_own_limit() -> None:
    ratios = torch.tensor([448.0, 464.0, 465.0, 480.0, 1000.0, math.inf])
    rule = load_format("nvfp4").scale
    assert rule is not None
    assert round_minifloat(ratios, rule).tolist() == [448.0] * 6
    wide = replace(rule, format=SCALE_FORMATS["ue5m3"])
    assert round_minifloat(torch.tensor([200000.0]), wide).item() == 114688.0


@pytest.mark.parametrize("name", ["nvfp4", "mxfp4-floor", "mxfp4-even"])
def test_B19_every_byte_decodes_and_encodes_to_itself(name: str) -> None:
    fmt = load_format(name)
    assert fmt.scale is not None and fmt.scale.format.nan_code is not None
    used = torch.arange(fmt.scale.format.nan_code + 1, dtype=torch.uint8)
    assert torch.equal(encode_scales(decode_scales(used, fmt), fmt), used)


def test_B22_scales_are_worked_out_in_fp32_whatever_the_input() -> None:
    block = torch.ones(1, 16, dtype=torch.bfloat16)
    for name in ("e2m1", "nvfp4"):
        assert torch.equal(
            quantize(block, load_format(name)).scales,
            quantize(block.float(), load_format(name)).scales,
        )
    assert quantize(block, load_format("e2m1")).scales.item() == np.float32(1) / np.float32(6)


def test_tensor_scale_is_capped_and_is_one_for_zeros() -> None:
    rule = load_format("nvfp4").scale
    assert rule is not None
    tiny = tensor_scale(torch.tensor(2.0**-149), E2M1, rule)
    assert float(tiny.encode) == FLT_MAX
    assert float(tensor_scale(torch.tensor(0.0), E2M1, rule).encode) == 1.0
    assert float(tensor_scale(torch.tensor(2688.0), E2M1, rule).encode) == 1.0


@pytest.mark.parametrize("scale", ["fp32", "bf16"])
def test_wide_scales_of_small_grids_saturate_rather_than_overflow(
    tmp_path: Path, scale: str
) -> None:
    """amax / gmax leaves FP32 where gmax < 1, and BF16 where it rounds up to 2^128."""
    fmt = write_format(tmp_path, element="{values: [0, 0.25, 0.5]}", scale=f"{{format: {scale}}}")
    found = quantize(torch.full((1, 16), 3.4e38), fmt)
    assert torch.isfinite(found.scales).all()
    assert found.dequantize()[0, 0].item() == 0.5 * float(found.scales)
    top = write_format(tmp_path, element="{values: [0, 1]}", scale=f"{{format: {scale}}}")
    assert torch.isfinite(quantize(torch.full((1, 16), FLT_MAX), top).scales).all()


def test_a_small_grid_with_a_tiny_tensor_keeps_zero_blocks_ordinary(tmp_path: Path) -> None:
    """S * (1/gmax) passes FLT_MAX, and 0 * infinity would be NaN."""
    fmt = write_format(
        tmp_path,
        element="{values: [0, 0.25, 0.5]}",
        scale="{format: e4m3}",
        tensor_scale="fp32",
    )
    x = torch.zeros(1, 32)
    x[0, 16:] = 2.0**-140
    assert quantize(x, fmt).scales[0, 0] == 0


def test_headroom_is_a_factor_of_amax() -> None:
    plain, roomy = load_format("nvfp4"), load_format("nvfp4-headroom")
    amax = torch.tensor([6.0])
    assert plain.element is not None and plain.scale is not None
    scale = tensor_scale(torch.tensor(2688.0), plain.element, plain.scale)
    assert stored_scale(amax, plain, scale).item() == 1.0
    assert stored_scale(amax, roomy, scale).item() == 1.0  # 1.0625 is a tie of 1 and 1.125
    assert stored_scale(1.1 * amax, roomy, scale).item() == 1.125


def test_headroom_above_the_largest_number_saturates(tmp_path: Path) -> None:
    """17/16 of the largest number is no number; its scale is that of the largest number."""
    fmt = write_format(tmp_path, scale="{format: bf16, headroom: 17/16}")
    found = quantize(torch.full((1, 16), FLT_MAX), fmt)
    assert found.scales.item() == pytest.approx(FLT_MAX / 6, rel=2**-8)
    assert found.counters.flushed == 0


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["e2m1", "e1m2", "int4", "nvfp4", "mxfp4-even"])
def test_scales_are_divided_on_a_gpu_too(name: str) -> None:
    """Where the divisor is a Python number, CUDA multiplies by its reciprocal."""
    x = torch.randn(512, 512, generator=torch.Generator().manual_seed(0))
    fmt = load_format(name)
    assert torch.equal(quantize(x.cuda(), fmt).scales.cpu(), quantize(x, fmt).scales)
