"""Grid: the code book of a 4-bit element, and the exact meaning of rounding to it.

An element format is a table that gives each code a value. Everything else about it follows from the
table: its levels, its midpoints, its largest magnitude, and the *thresholds* at which rounding to
nearest moves from one level to the next. Thresholds are worked out in rational arithmetic, ties to
the even code included, so that rounding needs comparisons only and cannot be off by a tie:

    level index of t  =  number of thresholds that are <= t

Three kinds of table exist, which differ in how codes are laid out:

* float (E2M1, E1M2, ...): sign-magnitude, exponent field above mantissa field;
* int (INT4): two's complement, the most negative code is unused so that the grid is symmetric;
* values: a list of magnitudes (a sign bit is added) or, if any is negative, the signed code book.

Sign-magnitude grids keep the sign of zero; the others have one zero.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property

MAX_BITS = 8


@dataclass(frozen=True)
class FloatSpec:
    """A minifloat without infinities: 2^(field - bias) * (1 + m/2^mantissa), field 0 subnormal."""

    exponent: int
    mantissa: int
    bias: int

    @property
    def min_exponent(self) -> int:
        """Exponent of the smallest normal number; subnormals share its spacing."""
        return 1 - self.bias

    def magnitude(self, code: int) -> float:
        """Value of a magnitude code (exponent field above mantissa field)."""
        field, fraction = divmod(code, 1 << self.mantissa)
        significand = fraction + ((1 << self.mantissa) if field else 0)
        return math.ldexp(significand, max(field, 1) - self.bias - self.mantissa)


@dataclass(frozen=True)
class Grid:
    """The code book of an element: ``decode_table[code]`` is the value, NaN marks an unused code.

    ``float_spec`` is set when the table is a minifloat's, which lets kernels round by arithmetic on
    the exponent instead of by table.
    """

    name: str
    bits: int
    decode_table: tuple[float, ...]
    sign_magnitude: bool
    float_spec: FloatSpec | None = None

    @classmethod
    def from_float(
        cls, exponent: int, mantissa: int, bias: int | None = None, max_value: float | None = None
    ) -> Grid:
        """A signed minifloat grid; the bias defaults to IEEE's 2^(exponent-1) - 1.

        ``max_value`` drops the codes above it (E4M3 keeps its top code for NaN: max 448).

        Raises:
            ValueError: fewer than 2 or more than 8 bits in all, no exponent bit, or values that
                FP32 does not hold.
        """
        bits = 1 + exponent + mantissa
        if exponent < 1 or mantissa < 0 or not 2 <= bits <= MAX_BITS:
            raise ValueError(
                f"a float element needs exponent >= 1, mantissa >= 0 and at most {MAX_BITS} bits "
                f"with its sign, got exponent {exponent}, mantissa {mantissa}"
            )
        spec = FloatSpec(exponent, mantissa, 2 ** (exponent - 1) - 1 if bias is None else bias)
        if spec.min_exponent - mantissa < -149 or (1 << exponent) - 1 - spec.bias > 127:
            raise ValueError(
                f"bias {spec.bias} puts values outside FP32, which elements are kept in"
            )
        magnitudes = [spec.magnitude(code) for code in range(1 << (bits - 1))]
        limit = math.inf if max_value is None else max_value
        if limit < magnitudes[1]:
            raise ValueError(f"max {max_value} leaves no value but 0")
        kept = [m if m <= limit else math.nan for m in magnitudes]
        return cls(f"e{exponent}m{mantissa}", bits, _with_signs(kept), True, spec)

    @classmethod
    def from_int(cls, bits: int) -> Grid:
        """Symmetric two's-complement integers, -(2^(bits-1) - 1) .. 2^(bits-1) - 1.

        Raises:
            ValueError: bits outside 2..8.
        """
        if not 2 <= bits <= MAX_BITS:
            raise ValueError(f"an int element has 2 to {MAX_BITS} bits, got {bits}")
        half = 1 << (bits - 1)
        table = [float(code) for code in range(half)]
        table += [math.nan] + [float(code - half) for code in range(1, half)]
        return cls(f"int{bits}", bits, tuple(table), False)

    @classmethod
    def from_values(cls, values: tuple[float, ...]) -> Grid:
        """An arbitrary 4-bit code book: magnitudes, or signed values when any is negative.

        Values are rounded to FP32, the precision in which elements are worked with.

        Raises:
            ValueError: empty, not finite, not strictly increasing, without 0, too many for 4 bits.
        """
        table = tuple(_to_float32(value) + 0.0 for value in values)  # one zero, +0
        signed = any(value < 0 for value in table)
        limit = 16 if signed else 8
        if not table or not all(math.isfinite(value) for value in table):
            raise ValueError("grid values must be a non-empty list of finite numbers")
        if any(low >= high for low, high in zip(table, table[1:], strict=False)):
            raise ValueError("grid values must be strictly increasing")
        if len(table) > limit:
            raise ValueError(
                f"4 bits hold at most {limit} {'signed values' if signed else 'magnitudes'}, "
                f"got {len(table)}"
            )
        if 0.0 not in table or len(table) < 2:
            raise ValueError("grid values must contain 0 (padding and empty blocks are 0) and more")
        unused = (math.nan,) * (limit - len(table))
        if signed:
            return cls("values", 4, table + unused, False)
        return cls("values", 4, _with_signs(list(table + unused)), True)

    @cached_property
    def levels(self) -> tuple[float, ...]:
        """The distinct values, ascending; zero appears once, as +0."""
        return tuple(sorted({value + 0.0 for value in self.decode_table if not math.isnan(value)}))

    @cached_property
    def level_codes(self) -> tuple[int, ...]:
        """The code of each level; zero's is the code of +0."""
        first = {value: code for code, value in reversed(list(enumerate(self.decode_table)))}
        return tuple(first[level] for level in self.levels)

    @property
    def zero_index(self) -> int:
        """Index of 0 among the levels."""
        return self.levels.index(0.0)

    @property
    def negative_zero_code(self) -> int | None:
        """Code of -0 in a sign-magnitude grid, else None."""
        return 1 << (self.bits - 1) if self.sign_magnitude else None

    @property
    def max(self) -> float:
        """Largest magnitude: the value that a block's amax is scaled to."""
        return max(abs(self.levels[0]), self.levels[-1])

    @property
    def magnitudes(self) -> tuple[float, ...]:
        """The distinct absolute values, ascending."""
        return tuple(sorted({abs(level) for level in self.levels}))

    @property
    def is_symmetric(self) -> bool:
        """Whether -v is a level for every level v."""
        return self.levels == tuple(-level + 0.0 for level in reversed(self.levels))

    @property
    def midpoints(self) -> tuple[float, ...]:
        """The tie points between neighbouring levels, ascending."""
        pairs = zip(self.levels, self.levels[1:], strict=False)
        return tuple(float((Fraction(low) + Fraction(high)) / 2) for low, high in pairs)

    @cached_property
    def step(self) -> float | None:
        """The spacing of a uniform grid, None for any other."""
        exact = [Fraction(level) for level in self.levels]
        gaps = {high - low for low, high in zip(exact, exact[1:], strict=False)}
        return float(gaps.pop()) if len(gaps) == 1 else None

    @property
    def is_uniform(self) -> bool:
        """Whether all gaps between levels are equal."""
        return self.step is not None

    @cached_property
    def is_evenly_coded(self) -> bool:
        """Whether rounding to even codes is rounding to even multiples of a power-of-two step.

        Of a symmetric uniform grid; one whose codes count its levels from the lowest may differ.
        """
        step = self.step
        if step is None or math.frexp(step)[0] != 0.5 or not self.is_symmetric:
            return False
        pairs = zip(self.levels, self.level_codes, strict=True)
        return all((code - int(abs(level) / step)) % 2 == 0 for level, code in pairs)

    @property
    def max_exponent(self) -> int:
        """floor(log2(max)): the element's emax in the MX scale rules."""
        return math.frexp(self.max)[1] - 1

    @property
    def mantissa_bits(self) -> int:
        """Mantissa bits of the top binade: the float's own, else those that write max exactly."""
        if self.float_spec is not None:
            return self.float_spec.mantissa
        numerator, _ = self.max.as_integer_ratio()
        return (numerator // (numerator & -numerator)).bit_length() - 1

    def thresholds(self, precision: int = 24) -> tuple[float, ...]:
        """For each pair of neighbouring levels, the smallest number that rounds to the upper one.

        Args:
            precision: significand bits of the numbers compared (24 for FP32, 53 for float64).
        """
        return nearest_even_thresholds(self.levels, self.level_codes, precision)


@cache
def nearest_even_thresholds(
    levels: tuple[float, ...], codes: tuple[int, ...], precision: int = 24
) -> tuple[float, ...]:
    """Where rounding to nearest, ties to the even code, steps up along a code book."""
    pairs = zip(levels, levels[1:], codes[1:], strict=False)
    return tuple(
        _smallest_above((Fraction(low) + Fraction(high)) / 2, upper_code % 2 == 1, precision)
        for low, high, upper_code in pairs
    )


def _with_signs(magnitudes: list[float]) -> tuple[float, ...]:
    return tuple(magnitudes) + tuple(-value for value in magnitudes)


def _to_float32(value: float) -> float:
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return math.inf


def _smallest_above(bound: Fraction, strictly: bool, precision: int) -> float:
    """The smallest number of the given precision that is > bound (strictly) or >= bound."""
    if bound < 0:
        return -_largest_below(-bound, strictly, precision)
    if bound == 0:
        return math.ldexp(1.0, -149 if precision == 24 else -1074) if strictly else 0.0
    quantum = _quantum(bound, precision)
    units = bound / quantum
    count = math.floor(units) + 1 if strictly else math.ceil(units)
    return float(count * quantum)


def _largest_below(bound: Fraction, strictly: bool, precision: int) -> float:
    quantum = _quantum(bound, precision)
    units = bound / quantum
    if strictly and units == 1 << (precision - 1):
        quantum /= 2  # numbers just below a power of two are spaced twice as closely
        units *= 2
    count = math.ceil(units) - 1 if strictly else math.floor(units)
    return float(count * quantum)


def _quantum(value: Fraction, precision: int) -> Fraction:
    """Spacing of numbers with this precision in the binade of a positive value."""
    exponent = value.numerator.bit_length() - value.denominator.bit_length()
    if value < Fraction(2) ** exponent:
        exponent -= 1
    smallest_normal = -126 if precision == 24 else -1022
    return Fraction(2) ** (max(exponent, smallest_normal) - precision + 1)


E2M1 = Grid.from_float(exponent=2, mantissa=1)
# Bias 1 makes E1M2 all subnormal below 1: 0, 0.25 ... 1.75, exactly symmetric INT4 times 1/4.
E1M2 = Grid.from_float(exponent=1, mantissa=2, bias=1)
INT4 = Grid.from_int(bits=4)
E4M3 = Grid.from_float(exponent=4, mantissa=3, max_value=448.0)
NAMED_GRIDS = {"e2m1": E2M1, "e1m2": E1M2, "int4": INT4, "e4m3": E4M3}
