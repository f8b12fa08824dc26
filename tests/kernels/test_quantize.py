"""quantize: what it takes and what it refuses."""

from __future__ import annotations

import pytest
import torch

from formats import load_format
from kernels import Draws, quantize

X = torch.randn(4, 64, generator=torch.Generator().manual_seed(0))
NVFP4 = load_format("nvfp4")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_narrow_floats_are_widened_exactly(dtype: torch.dtype) -> None:
    narrow = X.to(dtype)
    assert torch.equal(
        quantize(narrow, NVFP4).dequantize(), quantize(narrow.float(), NVFP4).dequantize()
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"x": X.double()}, "float32, bfloat16 or float16, not torch.float64"),
        ({"x": X.int()}, "not torch.int32"),
        ({"axis": 2}, r"axis 2 does not exist in a tensor of shape \(4, 64\)"),
        ({"x": torch.tensor(1.0)}, "axis -1 does not exist"),
        ({"rounding": "up"}, "'nearest' or 'stochastic', not 'up'"),
        ({"backend": "nonsense"}, "'auto' or 'reference', not 'nonsense'"),
        ({"fmt": load_format("bf16")}, "high precision"),
    ],
)
def test_what_cannot_be_quantised(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        quantize(**{"x": X, "fmt": NVFP4, **arguments})  # type: ignore[arg-type]


def test_B47_calls_without_a_seed_differ_and_seed_0_is_a_seed() -> None:
    first, second = (quantize(X, NVFP4, rounding="stochastic").codes for _ in range(2))
    assert not torch.equal(first, second)
    zero, again, one = (
        quantize(X, NVFP4, rounding="stochastic", seed=seed).codes for seed in (0, 0, 1)
    )
    assert torch.equal(zero, again) and not torch.equal(zero, one)


def test_a_seed_is_short_for_a_stream_of_draws() -> None:
    by_seed, by_name = (
        quantize(X, NVFP4, rounding="stochastic", seed=seed).codes for seed in (7, Draws(seed=7))
    )
    assert torch.equal(by_seed, by_name)


def test_autograd_is_not_part_of_quantisation() -> None:
    assert not quantize(X.clone().requires_grad_(), NVFP4).dequantize().requires_grad
