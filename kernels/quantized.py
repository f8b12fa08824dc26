"""Quantized: a tensor as codes and scales, and how they decode."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from formats import BlockFormat, Grid
from kernels.packing import unpack
from kernels.scaling import decode_scales, spread


def as_rows(x: Tensor) -> Tensor:
    """[..., K] as [R, K], the other axes flattened; also where there is nothing in them."""
    return x.reshape(x.shape[:-1].numel(), x.shape[-1])


@dataclass(frozen=True)
class Counters:
    """What happened to a tensor's elements.

    Attributes:
        saturated: elements beyond the grid's ends.
        flushed: elements that are not zero but decode to zero.
        non_finite: NaN and Inf among the inputs.
    """

    saturated: int = 0
    flushed: int = 0
    non_finite: int = 0

    def __add__(self, other: Counters) -> Counters:
        return Counters(
            self.saturated + other.saturated,
            self.flushed + other.flushed,
            self.non_finite + other.non_finite,
        )


@dataclass(frozen=True)
class Quantized:
    """A quantised tensor. Its rows are the flattened other axes, its columns the contraction axis.

    Attributes:
        codes: uint8, two 4-bit codes a byte with the even element in the low nibble (wider elements
            take a byte each), [R, K/2] with R and K padded to whole blocks.
        scales: as stored, uint8, bfloat16 or float32, [R / block rows, K / block columns].
        tensor_scale: FP32 scalar that decoded values are multiplied with, or None.
        shape: of the tensor that was quantised.
        axis: its contraction axis, not negative.
    """

    codes: Tensor
    scales: Tensor
    tensor_scale: Tensor | None
    format: BlockFormat
    shape: torch.Size
    axis: int
    counters: Counters

    @property
    def grid(self) -> Grid:
        """The element's code book."""
        assert self.format.element is not None
        return self.format.element

    def unpacked(self) -> Tensor:
        """uint8 codes, one a byte, [R, K] with the padding of whole blocks."""
        return unpack(self.codes, self.grid.bits, self.scales.shape[1] * self.format.block[1])

    def values(self) -> Tensor:
        """FP32 [R, K]: element times block scale, which E4M3 and E8M0 scales keep exact in BF16."""
        table = torch.tensor(self.grid.decode_table, device=self.codes.device)
        return table[self.unpacked().long()] * spread(
            decode_scales(self.scales, self.format), self.format
        )

    def decoded(self) -> Tensor:
        """FP32 [R, K] with the padding of whole blocks, the tensor's scale multiplied in."""
        values = self.values()
        return values if self.tensor_scale is None else values * self.tensor_scale

    def dequantize(self) -> Tensor:
        """FP32 of the quantised tensor's shape (rotated, when a Hadamard transform was given)."""
        last = self.shape[self.axis]
        others = self.shape[: self.axis] + self.shape[self.axis + 1 :]
        rows = others.numel()
        return self.decoded()[:rows, :last].reshape(*others, last).movedim(-1, self.axis)
