"""Device functions that round: elements to a grid, a quotient, and the random bits they draw.

Rounding to a spacing needs no rounding instruction. For |v| < 2^22 * step, the sum v + 1.5 * 2^23 *
step is so large that its own last place *is* the step, so the hardware's rounding to nearest even
has rounded v, and subtracting the constant gives the multiple of step back. A minifloat is a grid
whose step depends on the binade of v; a code book that is neither takes one comparison per level.

Everything here equals ``kernels.reference`` bit for bit, provided that the compiler does not
contract a * b + c into one rounding: kernels are launched with ``enable_fp_fusion=False``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import triton
import triton.language as tl

from formats import Grid

UNIFORM, MINIFLOAT, CODE_BOOK = 0, 1, 2
_UNIFORM = tl.constexpr(UNIFORM)
_MINIFLOAT = tl.constexpr(MINIFLOAT)
_CODE_BOOK = tl.constexpr(CODE_BOOK)
_SIGN = tl.constexpr(-0x80000000)
_MAGNITUDE = tl.constexpr(0x7FFFFFFF)
_EXPONENT = tl.constexpr(0x7F800000)
_ROUNDER = tl.constexpr(1.5 * 2.0**23)
# 64 spacings and 2^17 - 2 last places of that sum; and the mask of whole spacings.
_LIFT = tl.constexpr(64 + (2**17 - 2) * 2.0**-17)
_WHOLE = tl.constexpr(-(1 << 17))


@dataclass(frozen=True)
class GridFacts:
    """What a kernel has to know of a grid, as compile-time constants.

    Attributes:
        kind: UNIFORM, MINIFLOAT or CODE_BOOK.
        step: spacing of a uniform grid; of a minifloat, spacing over binade.
        low_binade: of a minifloat, the binade below which the spacing stays the same.
        thresholds, levels: of a code book, ascending.
        upward: the levels that stochastic rounding works on: magnitudes if symmetric.
    """

    kind: int
    max: float
    step: float
    low_binade: float
    symmetric: bool
    thresholds: tuple[float, ...]
    levels: tuple[float, ...]
    upward: tuple[float, ...]

    @property
    def most_spacings(self) -> float:
        """The largest magnitude in units of the spacing there; of a minifloat, a bound for it."""
        return (2.0 if self.kind == MINIFLOAT else self.max) / self.step

    @classmethod
    def of(cls, grid: Grid) -> GridFacts:
        """The facts of a grid; arithmetic where its ties go to even multiples of the spacing."""
        upward = grid.magnitudes if grid.is_symmetric else grid.levels
        book = (grid.is_symmetric, grid.thresholds(), grid.levels, upward)
        spec = grid.float_spec
        if _is_evenly_coded(grid):
            assert grid.step is not None
            return cls(UNIFORM, grid.max, grid.step, 1.0, *book)
        if spec is not None and spec.mantissa > 0:
            low = 2.0**spec.min_exponent
            return cls(MINIFLOAT, grid.max, 2.0**-spec.mantissa, low, *book)
        return cls(CODE_BOOK, grid.max, 1.0, 1.0, *book)


def _is_evenly_coded(grid: Grid) -> bool:
    """Whether levels are multiples of a power of two and even codes are even multiples."""
    step = grid.step
    if step is None or math.frexp(step)[0] != 0.5 or not grid.is_symmetric:
        return False
    pairs = zip(grid.levels, grid.level_codes, strict=True)
    return all((code - int(abs(level) / step)) % 2 == 0 for level, code in pairs)


@triton.jit
def round_nearest(t, grid: tl.constexpr, CLIPS: tl.constexpr = True):
    """Values of the grid nearest to FP32 t, ties to the even code, saturating; NaN is undefined.

    Without CLIPS the caller answers for |t| being less than half a step beyond the grid's end.
    """
    if grid.kind != _CODE_BOOK and CLIPS:
        t = tl.minimum(tl.maximum(t, -grid.max), grid.max)
    if grid.kind == _UNIFORM:
        return (t + _ROUNDER * grid.step) - _ROUNDER * grid.step
    elif grid.kind == _MINIFLOAT:
        rounder = binade(t, grid) * (_ROUNDER * grid.step)
        return (t + rounder) - rounder
    else:
        value = tl.full(t.shape, grid.levels[0], tl.float32)
        for i in tl.static_range(len(grid.thresholds)):
            value = tl.where(t >= grid.thresholds[i], grid.levels[i + 1], value)
        return value


@triton.jit
def round_stochastic(t, bits16, grid: tl.constexpr):
    """One of the two neighbours of t, the upper (away from zero) with probability its distance.

    bits16: int32 in 0..65535. With a = |t| in units of the spacing, the neighbour above is taken
    when the fraction of a exceeds (bits16 + 1/2) / 2^16. In units of 2^-17, rounded up to a whole
    number, that is a fraction of at least 2 * bits16 + 2, so adding 2^17 - 2 - 2 * bits16 carries
    into the whole part just then. The units are the last places of a sum with 64 spacings.
    """
    if grid.kind == _CODE_BOOK or grid.most_spacings > 62:
        value = _between_levels(t, bits16, grid)
    else:
        a = tl.minimum(tl.abs(t), grid.max)
        if grid.kind == _MINIFLOAT:
            unit = binade(a, grid)
            lifted = sum_rounded_up(a, unit * (_LIFT * grid.step))
            whole = ((lifted - 2 * bits16) & _WHOLE).to(tl.float32, bitcast=True)
            value = tl.fma(unit, -64 * grid.step, whole)
        else:
            lifted = sum_rounded_up(a, _LIFT * grid.step)
            whole = ((lifted - 2 * bits16) & _WHOLE).to(tl.float32, bitcast=True)
            value = whole - 64 * grid.step
    return with_sign(value, t) if grid.symmetric else value


def is_nvidia(_semantic: Any = None) -> Any:
    """Whether a kernel is being compiled for an NVIDIA GPU, as a compile-time constant."""
    return tl.constexpr(_semantic is not None and _semantic.builder.options.backend_name == "cuda")


# As the decorator of builtins does, which however refuses calls by the interpreter.
is_nvidia.__triton_builtin__ = True  # type: ignore[attr-defined]


@triton.jit
def sum_rounded_up(a, b):
    """The bits of the smallest FP32 number that is not below a + b, for b >= a >= 0."""
    if is_nvidia():
        return tl.inline_asm_elementwise(
            "add.rp.f32 $0, $1, $2;", "=r,r,r", [a, b], dtype=tl.int32, is_pure=True, pack=1
        )
    else:
        near = a + b
        return near.to(tl.int32, bitcast=True) + (near - b < a).to(tl.int32)


@triton.jit
def _between_levels(t, bits16, grid: tl.constexpr):
    position = tl.abs(t) if grid.symmetric else t
    position = tl.minimum(tl.maximum(position, grid.upward[0]), grid.upward[-1])
    low = tl.full(t.shape, grid.upward[0], tl.float32)
    high = tl.full(t.shape, grid.upward[1], tl.float32)
    for i in tl.static_range(1, len(grid.upward) - 1):
        passed = position >= grid.upward[i]
        low = tl.where(passed, grid.upward[i], low)
        high = tl.where(passed, grid.upward[i + 1], high)
    fraction = tl.div_rn(position - low, high - low)
    return tl.where(bits16.to(tl.float32) + 0.5 < fraction * 65536.0, high, low)


@triton.jit
def binade(v, grid: tl.constexpr):
    """The power of two at or below |v|, from which a minifloat's spacing at v follows."""
    power = (v.to(tl.int32, bitcast=True) & _EXPONENT).to(tl.float32, bitcast=True)
    return tl.maximum(power, grid.low_binade)


@triton.jit
def with_sign(magnitude, source):
    """Magnitude with the sign of source, which must not already have one."""
    sign = source.to(tl.int32, bitcast=True) & _SIGN
    return (magnitude.to(tl.int32, bitcast=True) | sign).to(tl.float32, bitcast=True)


@triton.jit
def magnitude_bits(x):
    """The bits of |x| as int32: they order as the magnitudes do, with Inf and then NaN on top."""
    return x.to(tl.int32, bitcast=True) & _MAGNITUDE


@triton.jit
def divisor(s):
    """What ``quotient`` divides by s >= 0 with: -s', that power of two, and 1/s', for s' in [1, 2).

    The smallest and the largest binade end a little outside [1, 2), where nothing overflows. The
    reciprocal of 0 is 0, so that all quotients by it are 0. One step of Newton's makes the fast
    reciprocal, which is off by an ulp or two, the correctly rounded one.
    """
    field = tl.maximum((254 << 23) - (s.to(tl.int32, bitcast=True) & _EXPONENT), 1 << 23)
    power = field.to(tl.float32, bitcast=True)
    negated = -(s * power)
    near = -1.0 / negated
    reciprocal = tl.fma(tl.fma(negated, near, 1.0), near, near)
    return negated, power, tl.where(s == 0.0, 0.0, reciprocal)


@triton.jit
def quotient(x, negated, power, reciprocal):
    """Divide x by s with one rounding: Markstein's correction of x * (1/s) by its residual.

    It was checked for all significands of s around the midpoints of E2M1, and on the quotients that
    lie closest to a rounding boundary of FP32. Quotients below 2^-100 may be off by underflow: they
    round to zero in any grid.
    """
    y = x * power
    q = y * reciprocal
    return tl.fma(tl.fma(q, negated, y), reciprocal, q)


@triton.jit
def philox(c0, c1, c2, c3, k0, k1):
    """Philox-4x32-10 on uint32 tensors, equal to ``kernels.rounding.philox``."""
    for _ in tl.static_range(10):
        product0 = c0.to(tl.uint64) * 0xD2511F53
        product1 = c2.to(tl.uint64) * 0xCD9E8D57
        c0 = (product1 >> 32).to(tl.uint32) ^ c1 ^ k0
        c2 = (product0 >> 32).to(tl.uint32) ^ c3 ^ k1
        c1 = product1.to(tl.uint32)
        c3 = product0.to(tl.uint32)
        k0 += 0x9E3779B9
        k1 += 0xBB67AE85
    return c0, c1, c2, c3
