"""RTL of what all lanes of a dot-product unit share: the block scales and the FP32 accumulation.

A block's exact integer sum becomes part of an FP32 accumulator in two steps, each a circuit of its
own, because at 4 bits they dominate the unit and depend on the scale format, not on the element:

    scale        significand = sum * sig(s_a) * sig(s_b)      exact
                 exponent    = e(s_a) + e(s_b)                E8M0 has no significand: one 8-bit add
    accumulate   acc' = acc + fp32(significand * 2^(exponent - offset))

fp32() rounds to nearest even (exact up to 24 bits, so for E4M3 and E8M0 scales always); the
addition rounds once, to nearest even. Subnormals count as zero and overflow becomes infinity. NaN
and Inf inputs are not handled: real units carry them as flags beside this datapath. The FP32 scale
of a whole tensor belongs in the epilogue and is not priced.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from functools import cached_property

from formats import ScaleFormat
from hwmodels.circuit import Port, module

FP32_BITS = 32
FP32_BIAS = 127
FP32_FRACTION = 23
FP32_MIN_NORMAL = 2.0**-126


@dataclass(frozen=True)
class ScaleUnit:
    """Multiplies an exact block sum by the two stored scales, exactly."""

    sum_bits: int
    scale: ScaleFormat

    @property
    def name(self) -> str:
        """The scale format and the sum's width."""
        return f"{self.scale.name}x{self.sum_bits}"

    @property
    def significand_bits(self) -> int:
        """Width of the signed significand."""
        scale_bits = 2 * (self.scale.mantissa + 1) if self.scale.mantissa else 0
        return self.sum_bits + scale_bits

    @property
    def exponent_bits(self) -> int:
        """Width of the biased exponent sum."""
        return self.scale.exponent + 1

    @property
    def offset(self) -> int:
        """What to subtract from the exponent sum."""
        return 2 * (self.scale.bias + self.scale.mantissa)

    @property
    def inputs(self) -> tuple[Port, ...]:
        """Input ports."""
        bits = self.scale.exponent + self.scale.mantissa
        return (Port("sum", self.sum_bits), Port("a", bits), Port("b", bits))

    @property
    def outputs(self) -> tuple[Port, ...]:
        """Output ports."""
        return (Port("significand", self.significand_bits), Port("exponent", self.exponent_bits))

    def expected(self, total: int, a: int, b: int) -> tuple[int, int]:
        """(significand, exponent) by integer arithmetic."""
        (sig_a, exp_a), (sig_b, exp_b) = self._fields(a), self._fields(b)
        return total * sig_a * sig_b, exp_a + exp_b

    def _fields(self, code: int) -> tuple[int, int]:
        field, fraction = divmod(code, 1 << self.scale.mantissa)
        if not self.scale.mantissa:
            return 1, field
        return fraction + ((1 << self.scale.mantissa) if field else 0), max(field, 1)

    @cached_property
    def verilog(self) -> str:
        """SystemVerilog of the unit as one module ``unit``."""
        e, m = self.scale.exponent, self.scale.mantissa
        if not m:
            body = ["assign significand = sum;", "assign exponent = a + b;"]
            return module(self.inputs, self.outputs, body)
        body = []
        for side in "ab":
            body += [
                f"wire {side}_normal = |{side}[{e + m - 1}:{m}];",
                f"wire [{m}:0] {side}_sig = {{{side}_normal, {side}[{m - 1}:0]}};",
                f"wire [{e - 1}:0] {side}_exp = {{{side}[{e + m - 1}:{m + 1}], "
                f"{side}[{m}] | ~{side}_normal}};",
            ]
        top = self.sum_bits - 1
        # The magnitude is multiplied and the sign put back: a signed * would be sign-extended.
        body += [
            f"wire [{2 * m + 1}:0] scales = a_sig * b_sig;",
            f"wire negative = sum[{top}];",
            f"wire [{top - 1}:0] size = (sum[{top - 1}:0] ^ {{{top}{{negative}}}}) + negative;",
            f"wire [{self.significand_bits - 2}:0] product = size * scales;",
            f"assign significand = ({{1'b0, product}} ^ {{{self.significand_bits}{{negative}}}})"
            " + negative;",
            "assign exponent = a_exp + b_exp;",
        ]
        return module(self.inputs, self.outputs, body)


@dataclass(frozen=True)
class AccumulateUnit:
    """Adds significand * 2^(exponent - offset) to an FP32 number."""

    significand_bits: int
    exponent_bits: int
    offset: int

    @classmethod
    def after(cls, scale: ScaleUnit) -> AccumulateUnit:
        """The accumulator that takes a scale unit's outputs."""
        return cls(scale.significand_bits, scale.exponent_bits, scale.offset)

    @property
    def name(self) -> str:
        """What it adds to FP32."""
        return f"fp32+{self.significand_bits}b"

    @property
    def inputs(self) -> tuple[Port, ...]:
        """Input ports."""
        return (
            Port("acc", FP32_BITS),
            Port("significand", self.significand_bits),
            Port("exponent", self.exponent_bits),
        )

    @property
    def outputs(self) -> tuple[Port, ...]:
        """Output port: the new accumulator."""
        return (Port("result", FP32_BITS),)

    def expected(self, acc: int, significand: int, exponent: int) -> int:
        """The FP32 bits of acc + significand * 2^(exponent - offset), zero being +0."""
        addend = _fp32(math.ldexp(_round_to_24_bits(significand), exponent - self.offset))
        # Both are FP32, so their float64 sum rounds to FP32 as the exact sum would: 53 >= 2*24 + 2.
        total = _fp32(_from_bits(acc) + addend) if math.isfinite(addend) else addend
        return int.from_bytes(struct.pack(">f", total), "big")

    @cached_property
    def verilog(self) -> str:
        """SystemVerilog of the unit as one module ``unit``."""
        return module(self.inputs, self.outputs, [*self._to_fp32(), *_FP32_ADD])

    def _to_fp32(self) -> list[str]:
        """Normalise the significand and round it to 24 bits."""
        m = self.significand_bits - 1  # magnitude bits
        dropped = max(m - 24, 0)
        count = m.bit_length()
        e = max(self.exponent_bits, self.offset.bit_length(), 8) + 3
        zeros = [f"v[{m - 1 - i}] ? {count}'d{i} :" for i in range(m)]
        lines = [
            f"wire v_sign = significand[{m}];",
            f"wire [{m - 1}:0] v = (significand[{m - 1}:0] ^ {{{m}{{v_sign}}}}) + v_sign;",
            f"wire [{count - 1}:0] v_zeros = {' '.join(zeros)} {count}'d{m};",
            f"wire [{m - 1}:0] v_norm = v << v_zeros;",
        ]
        if dropped:
            sticky = f" | (|v_norm[{dropped - 2}:0])" if dropped > 1 else ""
            lines += [
                f"wire v_up = v_norm[{dropped - 1}] & (v_norm[{dropped}]{sticky});",
                f"wire [24:0] v_round = {{1'b0, v_norm[{m - 1}:{dropped}]}} + v_up;",
            ]
        else:
            padding = f", {24 - m}'d0" if m < 24 else ""
            lines.append(f"wire [24:0] v_round = {{1'b0, v_norm{padding}}};")
        constant = (FP32_BIAS + m - 1 - self.offset) % (1 << e)
        lines += [
            f"wire signed [{e - 1}:0] v_exp = {{{e}'d0, exponent}} + {e}'d{constant}"
            f" - {{{e}'d0, v_zeros}} + {{{e}'d0, v_round[24]}};",
            f"wire v_zero = ~v_norm[{m - 1}] | (v_exp <= 0);",
            "wire v_over = ~v_zero & (v_exp >= 255);",
            "wire [30:0] v_bits = v_zero ? 31'd0 : v_over ? {8'd255, 23'd0} : "
            "{v_exp[7:0], v_round[22:0]};",
        ]
        return lines


# Swap so that |x| >= |y|, align y with guard, round and sticky bits, add, normalise, round.
_FP32_ADD = (
    """
wire [30:0] acc_bits = (|acc[30:23]) ? acc[30:0] : 31'd0;
wire swap = acc_bits < v_bits;
wire x_sign = swap ? v_sign : acc[31];
wire [30:0] x = swap ? v_bits : acc_bits;
wire [30:0] y = swap ? acc_bits : v_bits;
wire subtract = v_sign ^ acc[31];
wire [7:0] distance = x[30:23] - y[30:23];
wire [26:0] y_wide = {|y[30:23], y[22:0], 3'd0};
wire far = |distance[7:5];
wire [57:0] y_shift = {y_wide, 31'd0} >> distance[4:0];
wire [26:0] y_near = {y_shift[57:32], y_shift[31] | (|y_shift[30:0])};
wire [26:0] y_aligned = far ? {26'd0, |y[30:23]} : y_near;
wire [27:0] total = {1'b0, |x[30:23], x[22:0], 3'd0} \
+ ({1'b0, y_aligned} ^ {28{subtract}}) + subtract;
wire [4:0] lead = LEADING;
wire [27:0] norm = total << lead;
wire up = norm[3] & (norm[4] | (|norm[2:0]));
wire [24:0] rounded = {1'b0, norm[27:4]} + up;
wire signed [9:0] e = {2'd0, x[30:23]} + 10'd1 - {5'd0, lead} + {9'd0, rounded[24]};
wire zero = ~norm[27] | (e <= 0);
wire over = ~zero & (e >= 255);
wire [30:0] magnitude = zero ? 31'd0 : over ? {8'd255, 23'd0} : {e[7:0], rounded[22:0]};
assign result = v_over ? {v_sign, 8'd255, 23'd0} : {x_sign & ~zero, magnitude};
""".strip()
    .replace("LEADING", " ".join(f"total[{27 - i}] ? 5'd{i} :" for i in range(28)) + " 5'd0")
    .split("\n")
)


def _round_to_24_bits(value: int) -> int:
    """An integer's 24 leading bits, ties to even."""
    dropped = max(abs(value).bit_length() - 24, 0)
    quotient, rest = divmod(abs(value), 1 << dropped)
    half = (1 << dropped) >> 1
    up = dropped > 0 and (rest > half or (rest == half and quotient % 2 == 1))
    return (quotient + up << dropped) * (-1 if value < 0 else 1)


def _fp32(value: float) -> float:
    """Round to FP32, ties to even; overflow to infinity, subnormals to +0."""
    try:
        rounded = float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)
    return rounded if abs(rounded) >= FP32_MIN_NORMAL else 0.0


def _from_bits(bits: int) -> float:
    value = float(struct.unpack(">f", bits.to_bytes(4, "big"))[0])
    return value if abs(value) >= FP32_MIN_NORMAL else 0.0
