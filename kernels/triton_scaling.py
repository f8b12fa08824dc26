"""Device functions for scales: from an amax to the stored scale, as ``kernels.scaling`` says.

A tensor's scale is worked out by every program from the tensor's amax, which an earlier, read-only
kernel left in memory: a few scalar operations cost less than another launch.
"""

from __future__ import annotations

from dataclasses import dataclass

import triton
import triton.language as tl

from formats import Grid, ScaleRule
from formats.scale import FLT_MAX, FOUR_OVER_SIX
from kernels.scaling import round_up_from
from kernels.triton_rounding import MINIFLOAT, GridFacts, divisor, quotient, round_nearest

FP32, BF16, MINIFLOAT_SCALE, POWER_OF_TWO = 0, 1, 2, 3
# Whole numbers that amaxes were divided by without a division, all of them, and none was wrong.
CHECKED_DIVISORS = (3.0, 6.0, 7.0, 127.0, 240.0, 448.0)
_BF16 = tl.constexpr(BF16)
_MINIFLOAT_SCALE = tl.constexpr(MINIFLOAT_SCALE)
_POWER_OF_TWO = tl.constexpr(POWER_OF_TWO)
_FLT_MAX = tl.constexpr(FLT_MAX)


@dataclass(frozen=True)
class ScaleFacts:
    """What a kernel has to know of a scale, as compile-time constants.

    Attributes:
        kind: FP32, BF16, MINIFLOAT_SCALE or POWER_OF_TWO.
        two_level: whether block scales are relative to a scale of the tensor.
        target: the magnitude that a block's amax is mapped to.
        lift: the power of two that makes target a whole number.
        divides_fast: whether amax / target needs no division, for amaxes that are multiples of
            2^-136 (those of 16-bit tensors, rotated or not).
        clips: whether an element can lie beyond the grid by more than rounding of its scale.
        product: largest stored scale times target.
        up_from: the mantissa field of amax at which a power-of-two rule takes the next power.
        max_exponent: of the element.
        grid: a minifloat's values, as a grid to round to.
        four_over_six: whether blocks may map to 4 instead.
    """

    kind: int
    two_level: bool
    headroom: float
    target: float
    lift: float
    divides_fast: bool
    clips: bool
    product: float
    up_from: int
    max_exponent: int
    grid: GridFacts
    four_over_six: bool

    @classmethod
    def of(cls, rule: ScaleRule, element: Grid, two_level: bool, coarse: bool) -> ScaleFacts:
        """The facts of a scale rule for an element; coarse amaxes are multiples of 2^-136."""
        scale = rule.format
        kinds = {"fp32": FP32, "bf16": BF16, "e8m0": POWER_OF_TWO}
        power_of_two = scale.kind == "power-of-two"
        low = 2.0 ** (1 - scale.bias) if scale.kind == "minifloat" else 1.0
        spacing = 2.0**-scale.mantissa
        lift = float(element.max.as_integer_ratio()[1])
        # The largest scale does not map FP32's largest number into such a grid.
        saturates = element.max < (2.0 if power_of_two else 1.0)
        covers = rule.rule in ("ceil", "rceil")
        values = GridFacts(MINIFLOAT, rule.max, spacing, low, False, (), (), ())
        return cls(
            kind=kinds.get(scale.name, MINIFLOAT_SCALE),
            two_level=two_level,
            headroom=rule.headroom,
            target=element.max,
            lift=lift,
            divides_fast=coarse and element.max * lift in CHECKED_DIVISORS,
            clips=saturates or (not (coarse and scale.name == "fp32") and not covers),
            product=rule.max * element.max,
            up_from=round_up_from(element, rule.rule) if power_of_two else 0,
            max_exponent=element.max_exponent,
            grid=values,
            four_over_six=rule.rule == FOUR_OVER_SIX,
        )


@triton.jit
def tensor_scales(amax, scale: tl.constexpr):
    """S and 1/S of a tensor with this amax."""
    encode = tl.minimum(tl.div_rn(scale.product, amax), _FLT_MAX)
    encode = tl.where(amax == 0.0, 1.0, encode)
    return encode, tl.div_rn(1.0, encode)


@triton.jit
def stored_scales(amax, encode, scale: tl.constexpr, target: tl.constexpr):
    """Stored scales, as FP32 values, of finite amaxes that are mapped to target."""
    if scale.headroom != 1.0:
        amax = tl.minimum(amax * scale.headroom, _FLT_MAX)
    if scale.kind == _POWER_OF_TWO:
        return power_of_two(amax, scale)
    if scale.two_level:
        ratio = amax * tl.minimum(encode * (1.0 / target), _FLT_MAX)
    elif scale.divides_fast:
        ratio = over_target(amax, scale)
    else:
        ratio = tl.div_rn(amax, target)
    values: tl.constexpr = scale.grid
    if scale.kind == _MINIFLOAT_SCALE:
        return round_nearest(ratio, values)
    if scale.kind == _BF16:
        ratio = round_to_bfloat16(ratio)
    # A quotient by less than 1 may leave FP32, and one by about 1 may round up to 2^128.
    return tl.minimum(ratio, values.max) if target < 1.01 else ratio


@triton.jit
def over_target(amax, scale: tl.constexpr):
    """Divide by target with one rounding: a product with the reciprocal, corrected by its residual.

    The residual is exact if the divisor is a whole number, so small amaxes are lifted first, and
    large ones, whose quotients have room below, afterwards.
    """
    whole: tl.constexpr = scale.target * scale.lift
    if scale.lift != 1.0:
        small = amax < 1.0
        amax = tl.where(small, amax * scale.lift, amax)
    near = amax * (1.0 / whole)
    ratio = tl.fma(tl.fma(near, -whole, amax), 1.0 / whole, near)
    if scale.lift != 1.0:
        ratio = tl.where(small, ratio, ratio * scale.lift)
    return ratio


@triton.jit
def round_to_bfloat16(v):
    """The nearest BF16 value of FP32 v, ties to even; on bits, as the interpreter truncates."""
    bits = v.to(tl.int32, bitcast=True)
    bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & -0x10000
    return bits.to(tl.float32, bitcast=True)


@triton.jit
def power_of_two(amax, scale: tl.constexpr):
    """2^e for the E8M0 exponent e of amax, by the rule that ``scale.up_from`` stands for."""
    subnormal = amax < 2.0**-126
    bits = tl.where(subnormal, amax * 8388608.0, amax).to(tl.int32, bitcast=True)
    exponent = (bits >> 23) - 127 - tl.where(subnormal, 23, 0)
    exponent += ((bits & 0x7FFFFF) >= scale.up_from).to(tl.int32) - scale.max_exponent
    exponent = tl.where(amax == 0.0, -127, tl.minimum(tl.maximum(exponent, -127), 127))
    # 2^-127 is subnormal: its only bit is the top one of the mantissa field.
    field = tl.where(exponent == -127, 1 << 22, (exponent + 127) << 23)
    return field.to(tl.float32, bitcast=True)


@triton.jit
def elements(x, stored, decode, factor, scale: tl.constexpr):
    """t: x * factor in units of the grid, for stored scales that broadcast to it.

    factor: a power of two; 1 for a two-level scale.
    """
    if scale.two_level:
        return x * tl.minimum(tl.div_rn(1.0, stored * decode), _FLT_MAX)
    elif scale.kind == _POWER_OF_TWO:
        return x * (over_power_of_two(stored) * factor)
    else:
        negated, power, reciprocal = divisor(stored)
        return quotient(x, negated, power * factor, reciprocal)


@triton.jit
def over_power_of_two(s):
    """1 / s for a power of two from 2^-127 to 2^127, or NaN."""
    bits = s.to(tl.int32, bitcast=True)
    # 2^-127 and 1 / 2^127 are subnormal: their only bit is the top one of the mantissa field.
    field = tl.where(bits == 254 << 23, 1 << 22, (254 << 23) - (bits & 0x7F800000))
    return tl.where(s == s, field.to(tl.float32, bitcast=True), s)
