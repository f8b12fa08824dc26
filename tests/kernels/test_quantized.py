"""Quantized: layout of codes and scales, and how they decode."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from formats import load_format
from kernels import Counters, quantize


def test_layout_of_codes_and_scales() -> None:
    x = torch.randn(3, 40, generator=torch.Generator().manual_seed(0))
    found = quantize(x, load_format("nvfp4"))
    assert (found.codes.shape, found.codes.dtype) == ((3, 24), torch.uint8)
    assert (found.scales.shape, found.scales.dtype) == ((3, 3), torch.uint8)
    assert found.tensor_scale is not None and found.tensor_scale.shape == ()
    assert found.unpacked().shape == found.values().shape == found.decoded().shape == (3, 48)
    assert quantize(x, load_format("e2m1")).scales.dtype == torch.float32


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -3])
def test_the_other_axes_are_rows_and_the_shape_comes_back(axis: int) -> None:
    x = torch.randn(2, 3, 20, generator=torch.Generator().manual_seed(0))
    found = quantize(x, load_format("nvfp4"), axis=axis)
    assert (found.shape, found.axis) == (x.shape, axis % 3)
    assert found.dequantize().shape == x.shape
    along = x.movedim(axis, -1)
    plain = quantize(along.reshape(-1, along.shape[-1]), load_format("nvfp4")).dequantize()
    assert torch.equal(found.dequantize().movedim(axis, -1).reshape(plain.shape), plain)


def test_values_are_exact_in_bf16_under_byte_scales() -> None:
    x = torch.randn(16, 64, generator=torch.Generator().manual_seed(0))
    for name in ("nvfp4", "nvint4", "mxfp4-rceil", "mxint4"):
        values = quantize(x, load_format(name)).values()
        assert torch.equal(values, values.bfloat16().float())


def test_B07_scale_byte_0_is_a_scale() -> None:
    """BF16 operand 2^112 times elements 4.0 under byte 0, K = 128: exactly 2^-6."""
    elements = torch.full((1, 128), 4.0 * 2.0**-127)
    found = quantize(elements, load_format("mxfp4-floor"))
    assert found.scales.flatten().tolist() == [0] * 4
    left = torch.full((1, 128), 2.0**112, dtype=torch.bfloat16)
    assert (left.float() @ found.values().t()).item() == 2.0**-6
    assert (left.float() @ found.values().bfloat16().float().t()).item() == 2.0**-6


def test_counters_add_up() -> None:
    assert Counters(1, 2, 3) + Counters(10, 20, 30) == Counters(11, 22, 33)


def test_the_gain_correction_is_part_of_the_factor_to_nearest_only() -> None:
    corrected = replace(load_format("e2m1"), gain=0.9959)
    x = torch.randn(4, 32, generator=torch.Generator().manual_seed(0))
    plain = quantize(x, load_format("e2m1")).dequantize()
    factor = torch.tensor(1 / 0.9959)
    assert torch.equal(quantize(x, corrected).dequantize(), plain * factor)
    assert quantize(x, corrected, rounding="stochastic").tensor_scale is None
