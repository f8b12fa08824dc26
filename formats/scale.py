"""ScaleFormat: how a block's scale is stored, and ScaleRule: how an amax becomes that scale.

A stored scale is a code book too. E4M3 and UE5M3 round to nearest, ties to even, and saturate. E8M0
holds powers of two only, and which power an amax becomes is a *rule* that changes results, so it
has no default (OCP MX 1.0 says floor; hardware and libraries also use the other three):

    floor   floor(log2 amax) - emax                      may clip the top of the block
    ceil    ceil(log2 amax) - emax                       never clips, may waste a binade
    rceil   the smallest e with gmax * 2^e >= amax       never clips
    even    floor after rounding amax half up to the element's mantissa bits

with emax = floor(log2 gmax) of the element. Byte 0 decodes to 2^-127, byte 255 to NaN.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from formats.grid import nearest_even_thresholds

E8M0_BIAS = 127
E8M0_NAN = 255
AMAX = "amax"
FOUR_OVER_SIX = "four-over-six"
E8M0_RULES = ("floor", "rceil", "ceil", "even")
MINIFLOAT_RULES = (AMAX, FOUR_OVER_SIX)

ScaleKind = Literal["power-of-two", "minifloat", "wide"]


@dataclass(frozen=True)
class ScaleFormat:
    """The storage of a scale. Minifloats are unsigned here: the sign bit of E4M3 stays 0.

    ``nan_code`` is the code that marks a block with NaN or Inf in it.
    """

    name: str
    kind: ScaleKind
    bits: int
    exponent: int
    mantissa: int
    bias: int
    max: float
    nan_code: int | None = None

    @cached_property
    def values(self) -> tuple[float, ...]:
        """Decoded value of every byte of an 8-bit format (256 entries); empty for wide formats."""
        if self.kind == "wide":
            return ()
        if self.kind == "power-of-two":
            return (*(math.ldexp(1.0, byte - self.bias) for byte in range(E8M0_NAN)), math.nan)
        return tuple(self._minifloat(byte) for byte in range(256))

    def _minifloat(self, byte: int) -> float:
        magnitude_bits = self.exponent + self.mantissa
        sign = -1.0 if byte >> magnitude_bits else 1.0
        field, fraction = divmod(byte & ((1 << magnitude_bits) - 1), 1 << self.mantissa)
        significand = fraction + ((1 << self.mantissa) if field else 0)
        value = math.ldexp(significand, max(field, 1) - self.bias - self.mantissa)
        return sign * value if value <= self.max else math.nan

    def thresholds(self) -> tuple[float, ...]:
        """For each code of a minifloat from 1 on, the smallest FP32 number that rounds to it."""
        levels = tuple(value for value in self.values if 0.0 <= value <= self.max)
        positive = levels[: levels.index(self.max) + 1]
        return nearest_even_thresholds(positive, tuple(range(len(positive))))

    @property
    def rules(self) -> tuple[str, ...]:
        """The names of the rules by which an amax becomes this scale."""
        if self.kind == "power-of-two":
            return E8M0_RULES
        return MINIFLOAT_RULES if self.kind == "minifloat" else (AMAX,)


FLT_MAX = float.fromhex("0x1.fffffep+127")
E4M3_SCALE = ScaleFormat("e4m3", "minifloat", 8, 4, 3, 7, max=448.0, nan_code=0x7F)
UE5M3_SCALE = ScaleFormat("ue5m3", "minifloat", 8, 5, 3, 15, max=114688.0, nan_code=0xFF)
E8M0_SCALE = ScaleFormat("e8m0", "power-of-two", 8, 8, 0, E8M0_BIAS, 2.0**127, E8M0_NAN)
BF16_SCALE = ScaleFormat("bf16", "wide", 16, 8, 7, 127, max=float.fromhex("0x1.fep+127"))
FP32_SCALE = ScaleFormat("fp32", "wide", 32, 8, 23, 127, max=FLT_MAX)
SCALE_FORMATS = {
    scale.name: scale for scale in (E8M0_SCALE, E4M3_SCALE, UE5M3_SCALE, BF16_SCALE, FP32_SCALE)
}


@dataclass(frozen=True)
class ScaleRule:
    """How a block's amax becomes its stored scale.

    ``headroom`` multiplies the scale before it is rounded: 17/16 keeps an E4M3 scale that is
    rounded down from clipping the block's largest elements.
    """

    format: ScaleFormat
    rule: str = AMAX
    headroom: float = 1.0

    @property
    def max(self) -> float:
        """Largest stored scale: 448 for E4M3, 256 under four-over-six (arXiv:2512.02010)."""
        return 256.0 if self.rule == FOUR_OVER_SIX else self.format.max
