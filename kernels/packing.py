"""4-bit codes, two a byte, the even element in the low nibble; wider codes take a byte each."""

from __future__ import annotations

import torch
from torch import Tensor


def pack(codes: Tensor, bits: int) -> Tensor:
    """uint8 codes [..., K] to bytes [..., ceil(K/2)]; wider than 4 bits, they stay as they are."""
    if bits > 4:
        return codes
    if codes.shape[-1] % 2:
        codes = torch.nn.functional.pad(codes, (0, 1))
    return codes[..., 0::2] | codes[..., 1::2] << 4


def unpack(packed: Tensor, bits: int, length: int) -> Tensor:
    """The inverse of pack: uint8 codes [..., length]."""
    if bits > 4:
        return packed
    return torch.stack((packed & 0xF, packed >> 4), dim=-1).flatten(-2)[..., :length]
