"""Device functions that round: elements to a grid, a quotient, and the random bits they draw.

Rounding to a spacing needs no rounding instruction. For |v| < 2^22 * step, the sum v + 1.5 * 2^23 *
step is so large that its own last place *is* the step, so the hardware's rounding to nearest even
has rounded v, and subtracting the constant gives the multiple of step back. A minifloat is a grid
whose step depends on the binade of v; a code book that is neither takes one comparison per level.

Everything here equals ``kernels.reference`` bit for bit, provided that the compiler does not
contract a * b + c into one rounding: kernels are launched with ``enable_fp_fusion=False``.
"""

from __future__ import annotations

import struct
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
# Offsets, in spacings, that put the last place of a sum at 2^-17 and at most at 2^-16 of one.
_LIFT = tl.constexpr(64 + (2**17 - 2) * 2.0**-17)
OFFSET = 128.0
_OFFSET = tl.constexpr(OFFSET)
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
    def spacing_in_units(self) -> float:
        """A spacing over what kernels count in: a minifloat's binade, else the spacing itself."""
        return self.step if self.kind == MINIFLOAT else 1.0

    @property
    def minus_offset_bits(self) -> int:
        """The bits of -128 spacings in those units, as int32; its last place is 2^-16 of one."""
        (bits,) = struct.unpack("<i", struct.pack("<f", -OFFSET * self.spacing_in_units))
        return int(bits)

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
        if grid.is_evenly_coded:
            assert grid.step is not None
            return cls(UNIFORM, grid.max, grid.step, 1.0, *book)
        if spec is not None and spec.mantissa > 0:
            low = 2.0**spec.min_exponent
            return cls(MINIFLOAT, grid.max, 2.0**-spec.mantissa, low, *book)
        return cls(CODE_BOOK, grid.max, 1.0, 1.0, *book)


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
        power = binade(t, grid)  # whose products with the constant are exact
        lifted = tl.fma(power, tl.full(t.shape, _ROUNDER * grid.step, tl.float32), t)
        return tl.fma(power, tl.full(t.shape, -_ROUNDER * grid.step, tl.float32), lifted)
    else:
        value = tl.full(t.shape, grid.levels[0], tl.float32)
        for i in tl.static_range(len(grid.thresholds)):
            value = tl.where(t >= grid.thresholds[i], grid.levels[i + 1], value)
        return value


@triton.jit
def round_stochastic(t, bits16, grid: tl.constexpr, CLIPS: tl.constexpr = True):
    """One of the two neighbours of t, the upper (away from zero) with probability its distance.

    With |t| in units of the spacing, the neighbour above is taken when the fraction exceeds
    (bits16 + 1/2) / 2^16. Without CLIPS the caller answers for |t| being less than 2^-17 spacings
    beyond the grid's end.

    bits16: int32 in 0..65535.
    """
    if grid.kind == _CODE_BOOK or grid.most_spacings > 62:
        value = _between_levels(t, bits16, grid)
    else:
        clipped = tl.minimum(tl.maximum(t, -grid.max), grid.max) if CLIPS else t
        if grid.kind == _MINIFLOAT:
            unit = binade(clipped, grid)
        else:
            unit = tl.full(t.shape, grid.step, tl.float32)
        if is_nvidia():
            value = _ceiling_of_difference(clipped, bits16, unit, grid)
        else:
            value = _whole_of_sum(tl.abs(clipped), bits16, unit * grid.spacing_in_units)
    return with_sign(value, t) if grid.symmetric else value


def is_nvidia(_semantic: Any = None) -> Any:
    """Whether a kernel is being compiled for an NVIDIA GPU, as a compile-time constant."""
    return tl.constexpr(_semantic is not None and _semantic.builder.options.backend_name == "cuda")


# As the decorator of builtins does, which however refuses calls by the interpreter.
is_nvidia.__triton_builtin__ = True  # type: ignore[attr-defined]


@triton.jit
def _ceiling_of_difference(t, bits16, unit, grid: tl.constexpr):
    """ceil(|t| - (bits16 + 1/2) / 2^16), in spacings, where sums can be rounded up.

    Rounding up keeps a number above, or not above, each number that can be represented. All that
    matters here can: whole spacings everywhere, and 2^-17 of one next to them. So three sums that
    are rounded up, in which the draw comes as the last places of 128, are one ceiling.

    unit: of which a spacing is ``grid.spacing_in_units``, a power of two that constants take in.
    """
    share: tl.constexpr = grid.spacing_in_units
    minus_draw = (bits16 | grid.minus_offset_bits).to(tl.float32, bitcast=True)
    difference = _add_up_to_magnitude(t, unit * (-(2.0**-17) * share))
    difference = _fma_up(unit, minus_draw, difference)
    lifted = _fma_up(unit, tl.full(t.shape, _ROUNDER * share, tl.float32), difference)
    return tl.fma(unit, (_OFFSET - _ROUNDER) * share, lifted)


@triton.jit
def _add_up_to_magnitude(a, b):
    """The smallest FP32 number that is not below |a| + b: one instruction of NVIDIA's."""
    code: tl.constexpr = "{ .reg .f32 m; abs.f32 m, $1; add.rp.f32 $0, m, $2; }"
    return tl.inline_asm_elementwise(code, "=r,r,r", [a, b], tl.float32, is_pure=True, pack=1)


@triton.jit
def _fma_up(a, b, c):
    """The smallest FP32 number that is not below a * b + c: one instruction of NVIDIA's."""
    code: tl.constexpr = "fma.rp.f32 $0, $1, $2, $3;"
    return tl.inline_asm_elementwise(code, "=r,r,r,r", [a, b, c], tl.float32, is_pure=True, pack=1)


@triton.jit
def _whole_of_sum(a, bits16, spacing):
    """The same by adding integers, with the rounding that every machine has.

    In units of 2^-17 spacings, rounded up to a whole number, a fraction above the draw's is one of
    at least 2 * bits16 + 2, so adding 2^17 - 2 - 2 * bits16 carries into the whole part just then.
    The units are the last places of a sum with 64 spacings.
    """
    lift = spacing * _LIFT
    near = a + lift
    lifted = near.to(tl.int32, bitcast=True) + (near - lift < a).to(tl.int32)
    whole = ((lifted - 2 * bits16) & _WHOLE).to(tl.float32, bitcast=True)
    return whole - 64 * spacing


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
def amax_bits(x, AXIS: tl.constexpr):
    """The bits of the largest |x| along an axis, which stays with length 1, as int32.

    As integers they order as the magnitudes do, with Inf and then NaN on top.
    """
    if is_nvidia():
        # Its maximum takes the magnitudes of its operands on the way, and NaN for the larger.
        code: tl.constexpr = "abs.f32 $0, $1;"
        x = tl.inline_asm_elementwise(code, "=r,r", [x], tl.float32, is_pure=True, pack=1)
        return tl.reduce(x, AXIS, _larger, keep_dims=True).to(tl.int32, bitcast=True)
    else:
        return tl.max(x.to(tl.int32, bitcast=True) & _MAGNITUDE, AXIS, keep_dims=True)


@triton.jit
def _larger(a, b):
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


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
    near = near_reciprocal(-negated)
    reciprocal = tl.fma(tl.fma(negated, near, 1.0), near, near)
    return negated, power, tl.where(s == 0.0, 0.0, reciprocal)


@triton.jit
def near_reciprocal(s):
    """1 / s within two ulps, for s about 1; Triton's quotient would see to the ends of FP32 too."""
    if is_nvidia():
        return tl.inline_asm_elementwise(
            "rcp.approx.ftz.f32 $0, $1;", "=r,r", [s], tl.float32, is_pure=True, pack=1
        )
    else:
        return 1.0 / s


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
