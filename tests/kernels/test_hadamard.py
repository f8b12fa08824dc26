"""The random Hadamard transform: orthonormal, one order of additions, the same for both sides."""

from __future__ import annotations

import math

import pytest
import torch

from kernels import Hadamard
from kernels.hadamard import rotate

SIZES = [1, 2, 4, 8, 16, 32, 64, 128, 1024]


@pytest.mark.parametrize("size", SIZES)
def test_B58_the_transform_of_the_identity_is_orthonormal(size: int) -> None:
    matrix = Hadamard.from_seed(size, seed=3).matrix()
    assert torch.allclose(matrix @ matrix.t(), torch.eye(size), atol=1e-6)


@pytest.mark.parametrize("size", [0, 3, 12, 20, 100])
def test_B58_other_sizes_are_refused(size: int) -> None:
    with pytest.raises(ValueError, match=f"power of two, got {size}"):
        Hadamard.from_seed(size, seed=0)


def test_signs_are_plus_and_minus_one() -> None:
    with pytest.raises(ValueError, match=r"\+1 and -1"):
        Hadamard((1, 0))


def test_signs_depend_on_seed_and_step_only() -> None:
    signs = [Hadamard.from_seed(64, *at).signs for at in ((0, 0), (1, 0), (0, 1))]
    assert len(set(signs)) == 3
    torch.manual_seed(5)
    torch.rand(3)
    assert Hadamard.from_seed(64, 0, 0).signs == signs[0]
    assert {1, -1} == set(signs[0])


def test_rotation_is_the_matrix_product() -> None:
    x = torch.randn(5, 64, generator=torch.Generator().manual_seed(0))
    hadamard = Hadamard.from_seed(16, seed=1)
    product = (x.double().view(-1, 16) @ hadamard.matrix().double()).view(5, 64)
    assert torch.allclose(hadamard.rotate(x).double(), product, atol=1e-6)


def test_B60_the_order_of_additions_is_the_butterflys() -> None:
    """Strides 1, 2, 4, ... and one product at the end, in FP32: written out for size 4."""
    x = torch.randn(1000, 4, generator=torch.Generator().manual_seed(0)).bfloat16()
    a, b, c, d = x.float().unbind(-1)
    d = -d
    left, right = (a + b, a - b), (c + d, c - d)
    sums = [low + high for low, high in zip(left, right, strict=True)]
    differences = [low - high for low, high in zip(left, right, strict=True)]
    written_out = torch.stack(sums + differences, dim=-1) * (1 / math.sqrt(4))
    assert torch.equal(Hadamard((1, 1, 1, -1)).rotate(x), written_out)


def test_rotation_leaves_its_input_alone_and_takes_any_strides() -> None:
    x = torch.randn(32, 6, generator=torch.Generator().manual_seed(0))
    before = x.clone()
    hadamard = Hadamard.from_seed(32, seed=1)
    assert torch.equal(hadamard.rotate(x.t()), hadamard.rotate(x.t().contiguous()))
    assert torch.equal(x, before)


def test_lengths_are_whole_pieces() -> None:
    with pytest.raises(ValueError, match="length 24 is not a multiple of the Hadamard size 16"):
        Hadamard.from_seed(16, seed=0).rotate(torch.zeros(2, 24))


def test_B59_both_sides_with_the_same_signs_cancel_and_nothing_else_does() -> None:
    """dW = G^T X over 32 tokens."""
    generator = torch.Generator().manual_seed(0)
    g, x = torch.randn(8, 32, generator=generator), torch.randn(12, 32, generator=generator)
    exact = g @ x.t()
    one, other = (Hadamard.from_seed(16, seed) for seed in (1, 2))

    def error(left: torch.Tensor, right: torch.Tensor) -> float:
        return float((left @ right.t() - exact).norm() / exact.norm())

    assert error(one.rotate(g), one.rotate(x)) < 1e-6
    assert error(one.rotate(g), x) > 1
    assert error(one.rotate(g), other.rotate(x)) > 1


def test_the_tensor_form_is_the_same_transform() -> None:
    x = torch.randn(3, 32, generator=torch.Generator().manual_seed(0))
    hadamard = Hadamard.from_seed(16, seed=1)
    signs = torch.tensor(hadamard.signs, dtype=torch.int8)
    assert torch.equal(rotate(x, signs), hadamard.rotate(x))
