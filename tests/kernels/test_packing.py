"""Codes in bytes."""

from __future__ import annotations

import pytest
import torch

from kernels.packing import pack, unpack


def test_the_even_element_lies_in_the_low_nibble() -> None:
    codes = torch.tensor([[0x1, 0x2, 0xF, 0x0]], dtype=torch.uint8)
    assert pack(codes, 4).tolist() == [[0x21, 0x0F]]


def test_all_pairs_of_codes_come_back() -> None:
    codes = torch.cartesian_prod(torch.arange(16), torch.arange(16)).to(torch.uint8)
    assert torch.equal(unpack(pack(codes, 4), 4, 2), codes)


@pytest.mark.parametrize("length", [0, 1, 5])
def test_odd_lengths_end_in_code_zero(length: int) -> None:
    codes = torch.full((3, length), 9, dtype=torch.uint8)
    packed = pack(codes, 4)
    assert packed.shape == (3, (length + 1) // 2)
    assert torch.equal(unpack(packed, 4, length), codes)
    assert length % 2 == 0 or (packed[:, -1] == 9).all()


def test_wider_codes_take_a_byte_each() -> None:
    codes = torch.arange(256, dtype=torch.uint8).view(2, 128)
    assert torch.equal(pack(codes, 8), codes)
    assert torch.equal(unpack(codes, 8, 128), codes)
