"""The random Hadamard transform (RHT): signs, then a radix-2 butterfly, along the contraction axis.

    rotate(x) = x.view(-1, n) @ (diag(signs) @ H_n / sqrt(n))

H_n is Sylvester's, so the matrix is orthonormal and a GEMM whose two operands are both rotated by
it keeps its value. The butterfly runs in FP32 over strides 1, 2, 4, ... and multiplies by 1/sqrt(n)
once at the end. That order of additions is part of the meaning: another would flip codes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from kernels.rounding import Draws

SIGN_STREAM = 0xFFFFFFFE


@dataclass(frozen=True)
class Hadamard:
    """One transform, for both operands of a GEMM: its size is the number of signs."""

    signs: tuple[int, ...]

    def __post_init__(self) -> None:
        check_size(self.size)
        if set(self.signs) - {1, -1}:
            raise ValueError("Hadamard signs are +1 and -1")

    @property
    def size(self) -> int:
        """Length of the transformed pieces."""
        return len(self.signs)

    @classmethod
    def from_seed(cls, size: int, seed: int, step: int = 0) -> Hadamard:
        """Signs drawn from the run's seed, or afresh per step.

        Raises:
            ValueError: size is not a power of two.
        """
        check_size(size)
        bits = Draws(seed=seed, step=step, stream=SIGN_STREAM).bits16(1, size, torch.device("cpu"))
        return cls(tuple(1 - 2 * (bit & 1) for bit in bits[0].tolist()))

    def rotate(self, x: Tensor) -> Tensor:
        """FP32 of x's shape, rotated along the last axis (a multiple of the size long)."""
        return rotate(x, torch.tensor(self.signs, dtype=torch.int8, device=x.device))

    def matrix(self) -> Tensor:
        """diag(signs) @ H_n / sqrt(n), FP32 of shape [n, n]."""
        return self.rotate(torch.eye(self.size))


def check_size(size: int) -> None:
    """Raise ValueError unless size is a power of two."""
    if size < 1 or size & (size - 1):
        raise ValueError(f"a Hadamard size is a power of two, got {size}")


def rotate(x: Tensor, signs: Tensor) -> Tensor:
    """The transform with its signs as a tensor of shape [n] on x's device."""
    size = signs.numel()
    if x.shape[-1] % size:
        raise ValueError(f"length {x.shape[-1]} is not a multiple of the Hadamard size {size}")
    rotated = x.float().reshape(x.numel() // size, size) * signs.float()
    stride = 1
    while stride < size:
        pairs = rotated.view(x.numel() // size, size // (2 * stride), 2, stride)
        left, right = pairs.unbind(2)
        rotated = torch.stack((left + right, left - right), dim=2)
        stride *= 2
    return (rotated * (1.0 / math.sqrt(size))).view(x.shape)
