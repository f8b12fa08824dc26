"""Counter-based random bits for stochastic rounding: Philox-4x32-10 (Salmon et al., SC 2011).

A draw depends on where an element *is*, never on who asks or in which order: the key is the run's
seed and the counter is (column // 8, row, step, stream), with the global row and column of the
element in its operand, contraction along the columns. One call yields 128 bits, 16 for each of
eight consecutive columns, low half of word 0 first. So the same draw comes out on any rank, for
any chunk and under recomputation, while tensors, layers, steps and rows are independent of each
other.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import torch
from torch import Tensor

COLUMNS_PER_CALL = 8
OPERAND_STREAMS = 8
ROUNDS = 10
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
UNNAMED_STREAM = 0xFFFFFFFF
WORD = 0xFFFFFFFF

_unnamed_calls = itertools.count()


@dataclass(frozen=True)
class Draws:
    """Names a stream of random bits, and which part of the operand the caller holds.

    Attributes:
        seed: of the run, 64 bits; 0 is as good as any.
        step: of the optimiser or microbatch; an int, or an int64 scalar tensor that a captured
            graph reads afresh at each replay.
        stream: which layer's which operand, 32 bits.
        row: global index of the caller's first row.
        column: global index of the caller's first column, a multiple of eight.
    """

    seed: int = 0
    step: int | Tensor = 0
    stream: int = 0
    row: int = 0
    column: int = 0

    def __post_init__(self) -> None:
        if self.column % COLUMNS_PER_CALL:
            raise ValueError(
                f"column offset {self.column} must be a multiple of {COLUMNS_PER_CALL}: "
                "eight columns share one random draw"
            )

    @classmethod
    def fresh(cls) -> Draws:
        """A stream that no earlier call in this process had: what an unseeded call gets."""
        return cls(step=next(_unnamed_calls), stream=UNNAMED_STREAM)

    def bits16(self, rows: int, columns: int, device: torch.device) -> Tensor:
        """Uniform integers 0..65535, int32 of shape [rows, columns]."""
        groups = -(-columns // COLUMNS_PER_CALL)
        first_group = self.column // COLUMNS_PER_CALL
        column_G = torch.arange(first_group, first_group + groups, device=device).expand(rows, -1)
        row_R1 = torch.arange(self.row, self.row + rows, device=device).unsqueeze(1)
        step = (
            self.step if isinstance(self.step, Tensor) else torch.tensor(self.step, device=device)
        )
        counter = (column_G, row_R1.expand(rows, groups), step & WORD, torch.tensor(self.stream))
        words = philox(counter, (self.seed & WORD, self.seed >> 32 & WORD))
        halves = [half for word in words for half in (word & 0xFFFF, word >> 16)]
        return torch.stack(halves, dim=-1).flatten(1)[:, :columns].to(torch.int32)


def philox(
    counter: tuple[Tensor, Tensor, Tensor, Tensor], key: tuple[int, int]
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Philox-4x32-10 on int64 tensors that hold 32-bit words."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(ROUNDS):
        high0, low0 = _multiply(c0, MULTIPLIERS[0])
        high1, low1 = _multiply(c2, MULTIPLIERS[1])
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0, k1 = (k0 + KEY_STEPS[0]) & WORD, (k1 + KEY_STEPS[1]) & WORD
    return c0, c1, c2, c3


def _multiply(word: Tensor, multiplier: int) -> tuple[Tensor, Tensor]:
    """High and low word of a 32 x 32 bit product; int64 wraps, and its bits are still right."""
    product = word * multiplier
    return product >> 32 & WORD, product & WORD
