"""CodeBook: a 4-bit grid as small integers, which is what a multiplier sees.

Every level of a grid is an integer times one common step (E2M1: 0, 1, 2, 3, 4, 6, 8, 12 halves),
and the step leaves the dot product as a factor that the scales absorb. So a grid is priced by the
integers it decodes to, not by its 4 bits: the product array is as wide as the widest *significand*
n / 2^shift, and the exact sum as wide as the largest product. E2M1 needs 2-bit significands and
shifts 0..2, E1M2 3-bit significands and no shift, a grid of eight arbitrary reals may need more
bits than it is worth.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from formats import Grid

CODE_BITS = 4
MAX_INTEGER_BITS = 10


@dataclass(frozen=True)
class CodeBook:
    """The integers behind the codes of a grid; None marks an unused code."""

    name: str
    step: Fraction
    integers: tuple[int | None, ...]
    sign_magnitude: bool

    @classmethod
    def from_grid(cls, grid: Grid) -> CodeBook:
        """Divide a grid by its common step.

        Raises:
            ValueError: more than 16 codes, or no common step that leaves at most 10-bit integers.
        """
        if grid.bits > CODE_BITS:
            raise ValueError(
                f"grid '{grid.name}' has {1 << grid.bits} codes; circuits are generated for at "
                f"most {1 << CODE_BITS} (4-bit elements)"
            )
        step = _common_step(grid.levels)
        integers = tuple(
            None if math.isnan(value) else int(Fraction(value) / step)
            for value in grid.decode_table
        )
        book = cls(grid.name, step, integers, grid.sign_magnitude)
        if book.integer_bits > MAX_INTEGER_BITS:
            raise ValueError(
                f"grid '{grid.name}' decodes to {book.integer_bits}-bit integers (common step "
                f"{float(step):g}); at most {MAX_INTEGER_BITS} bits are built: choose values "
                "that are small multiples of one step"
            )
        return book

    @cached_property
    def max(self) -> int:
        """Largest magnitude."""
        return max(abs(n) for n in self.integers if n is not None)

    @property
    def integer_bits(self) -> int:
        """Bits of the largest magnitude."""
        return self.max.bit_length()

    @cached_property
    def significand_bits(self) -> int:
        """Bits of the widest odd part: the narrowest multiplier that serves this grid."""
        return max((n // (n & -n)).bit_length() for n in map(abs, self.used) if n)

    @cached_property
    def used(self) -> tuple[int, ...]:
        """The integers of the codes in use."""
        return tuple(n for n in self.integers if n is not None)

    @property
    def used_codes(self) -> tuple[int, ...]:
        """The codes that have a value."""
        return tuple(code for code, n in enumerate(self.integers) if n is not None)

    @property
    def is_twos_complement(self) -> bool:
        """Whether a code read as a 4-bit two's-complement number already is its integer."""
        half = 1 << (CODE_BITS - 1)
        return len(self.integers) == 2 * half and all(
            n is None or n == (code ^ half) - half for code, n in enumerate(self.integers)
        )

    def split(self, code: int, width: int) -> tuple[int, int, int] | None:
        """(sign, significand, shift) of a code, with the smallest shift that fits the width.

        The sign of a sign-magnitude code is its top bit, also that of -0.
        """
        value = self.integers[code]
        if value is None:
            return None
        sign = code >> (CODE_BITS - 1) if self.sign_magnitude else int(value < 0)
        shift = 0
        while abs(value) >> shift >= 1 << width:
            shift += 1
        return sign, abs(value) >> shift, shift


def _common_step(levels: tuple[float, ...]) -> Fraction:
    """The greatest step of which every level is a multiple."""
    exact = [Fraction(level) for level in levels if level]
    denominator = math.lcm(*(level.denominator for level in exact))
    return Fraction(math.gcd(*(int(level * denominator) for level in exact)), denominator)
