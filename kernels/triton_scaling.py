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
    product: float
    up_from: int
    max_exponent: int
    grid: GridFacts
    four_over_six: bool

    @classmethod
    def of(cls, rule: ScaleRule, element: Grid, two_level: bool) -> ScaleFacts:
        """The facts of a scale rule for an element."""
        scale = rule.format
        kinds = {"fp32": FP32, "bf16": BF16, "e8m0": POWER_OF_TWO}
        power_of_two = scale.kind == "power-of-two"
        low = 2.0 ** (1 - scale.bias) if scale.kind == "minifloat" else 1.0
        spacing = 2.0**-scale.mantissa
        values = GridFacts(MINIFLOAT, rule.max, spacing, low, False, (), (), ())
        return cls(
            kind=kinds.get(scale.name, MINIFLOAT_SCALE),
            two_level=two_level,
            headroom=rule.headroom,
            target=element.max,
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
        amax = amax * scale.headroom
    if scale.kind == _POWER_OF_TWO:
        return power_of_two(amax, scale)
    ratio = amax * (encode * (1.0 / target)) if scale.two_level else tl.div_rn(amax, target)
    if scale.kind == _MINIFLOAT_SCALE:
        values: tl.constexpr = scale.grid
        return round_nearest(ratio, values)
    if scale.kind == _BF16:
        return round_to_bfloat16(ratio)
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
def elements(x, stored, decode, scale: tl.constexpr):
    """t: x in units of the grid, for stored scales that broadcast to it."""
    if scale.two_level:
        return x * tl.minimum(tl.div_rn(1.0, stored * decode), _FLT_MAX)
    elif scale.kind == _POWER_OF_TWO:
        return x * tl.div_rn(1.0, stored)
    else:
        negated, power, reciprocal = divisor(stored)
        return quotient(x, negated, power, reciprocal)
