"""The exact referee: what DESIGN's rules of quantisation say, worked out in rational arithmetic.

Slow, obvious and independent of the product: nothing of `kernels` or of the arithmetic in `formats`
is imported. A format is read as plain facts (a table of values per code, a block, the names of a
scale and of its rule), every number is a `Fraction`, and FP32 comes in only where the rules say so,
through `fp32`. Published rules that are restated here:

* scales under a tensor scale: those of NVFP4 (arXiv:2509.25149) with the corners of Transformer
  Engine's reference quantiser, `NVFP4QuantizerRef` (one rounding, no lower clamp, FLT_MAX caps);
* E8M0 scales: OCP Microscaling Formats 1.0 (floor), and the ceil, rceil and even rules by which
  torchao's `ScaleCalculationMode` is documented;
* draws: Philox-4x32-10, Salmon et al., SC 2011.

Rows are lists of Python floats, the contraction along them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

import numpy as np

FLT_MAX = Fraction(2) ** 128 - Fraction(2) ** 104
# Stands for FP32's infinity: larger than all finite numbers, and never zero times anything.
INFINITY = Fraction(2) ** 128
MINIFLOATS = {"e4m3": (3, 7, 0x7E), "ue5m3": (3, 15, 0xFE)}
NAN_BYTE = {"e4m3": 0x7F, "ue5m3": 0xFF, "e8m0": 0xFF}


@dataclass(frozen=True)
class Facts:
    """A format in plain data.

    ``table`` gives the value of each code, None for an unused one. ``mantissa`` is the number of
    mantissa bits that the even rule rounds to. ``smax`` is the largest scale under a tensor scale.
    """

    table: tuple[Fraction | None, ...]
    sign_magnitude: bool
    block: tuple[int, int]
    scale: str
    rule: str = "amax"
    headroom: Fraction = Fraction(1)
    tensor_scale: bool = False
    gain: Fraction = Fraction(1)
    mantissa: int = 0

    @property
    def gmax(self) -> Fraction:
        return max(abs(value) for value in self.table if value is not None)

    @property
    def smax(self) -> Fraction:
        top = minifloat_values(self.scale)[-1]
        return Fraction(256) if self.rule == "four-over-six" else top


@dataclass(frozen=True)
class Verdict:
    """The referee's answer: codes and decoded values per element, padding included.

    ``scales`` holds stored bytes, or the FP32 value of a wide scale; NaN marks a poisoned block.
    """

    codes: list[list[int]]
    scales: list[list[float]]
    factor: float | None
    decoded: list[list[float]]


def judge(
    rows: Sequence[Sequence[float]],
    facts: Facts,
    signs: Sequence[int] = (),
    bits16: Sequence[Sequence[int]] | None = None,
) -> Verdict:
    """Quantise rows: to nearest, or stochastically with 16 random bits per (padded) element."""
    padded = pad(rows, facts.block, signs)
    height, width = facts.block
    down, across = len(padded) // height, (len(padded[0]) // width if padded else 0)
    blocks = {
        (b, c): [
            padded[b * height + i][c * width + j] for i, j in product(range(height), range(width))
        ]
        for b, c in product(range(down), range(across))
    }
    finite = {at: all(math.isfinite(x) for x in block) for at, block in blocks.items()}
    amaxes = [Fraction(abs(x)) for at, block in blocks.items() if finite[at] for x in block]
    encode = tensor_encode(max(amaxes, default=Fraction(0)), facts) if facts.tensor_scale else None
    factor = decode_factor(encode, facts, stochastic=bits16 is not None)

    codes = [[0] * (across * width) for _ in padded]
    decoded = [[0.0] * (across * width) for _ in padded]
    scales = [[0.0] * across for _ in range(down)]
    for (b, c), block in blocks.items():
        values = block if finite[b, c] else [0.0] * len(block)
        stored = choose_scale([Fraction(x) for x in values], facts, encode)
        poisoned = not finite[b, c]
        scales[b][c] = stored_form(stored, poisoned, facts.scale)
        for (i, j), x in zip(product(range(height), range(width)), values, strict=True):
            row, column = b * height + i, c * width + j
            bits = None if bits16 is None else bits16[row][column]
            codes[row][column] = code_of(x, stored, facts, encode, bits)
            decoded[row][column] = (
                math.nan if poisoned else decode(codes[row][column], stored, factor, facts)
            )
    return Verdict(codes, scales, None if factor is None else float(factor), decoded)


def pad(
    rows: Sequence[Sequence[float]], block: tuple[int, int], signs: Sequence[int]
) -> list[list[float]]:
    """Zeros to whole Hadamard pieces, rotation, zeros to whole blocks."""
    piece = len(signs) or 1
    columns = len(rows[0]) if rows else 0
    rotated = [
        rotate([*row, *[0.0] * (-columns % piece)], signs) if signs else list(row) for row in rows
    ]
    width = len(rotated[0]) if rows else 0
    wide = [[*row, *[0.0] * (-width % block[1])] for row in rotated]
    return wide + [[0.0] * (len(wide[0]) if wide else 0) for _ in range(-len(rows) % block[0])]


def rotate(row: Sequence[float], signs: Sequence[int]) -> list[float]:
    """Signs, then pairwise sums and differences at strides 1, 2, 4 ..., then times 1/sqrt(n)."""
    size = len(signs)
    result: list[float] = []
    with np.errstate(all="ignore"):
        for start in range(0, len(row), size):
            v = [np.float32(x) * np.float32(s) for x, s in zip(row[start:][:size], signs)]  # noqa: B905
            stride = 1
            while stride < size:
                for low in (i for i in range(size) if not i & stride):
                    v[low], v[low | stride] = v[low] + v[low | stride], v[low] - v[low | stride]
                stride *= 2
            result += [float(x * np.float32(1.0 / math.sqrt(size))) for x in v]
    return result


# --- FP32 ---------------------------------------------------------------------------------------


def round_to(value: Fraction, bits: int, smallest_exponent: int, top: Fraction) -> Fraction:
    """Nearest binary float with that many significand bits, ties to even; beyond top, infinity."""
    if value < 0:
        return -round_to(-value, bits, smallest_exponent, top)
    if value == 0:
        return value
    quantum = Fraction(2) ** (max(exponent_of(value), smallest_exponent) - bits + 1)
    rounded = round(value / quantum) * quantum  # round() of a Fraction is half to even
    return rounded if rounded <= top else INFINITY


def exponent_of(value: Fraction) -> int:
    """floor(log2 value) of a positive number."""
    guess = value.numerator.bit_length() - value.denominator.bit_length()
    return guess if Fraction(2) ** guess <= value else guess - 1


def fp32(value: Fraction) -> Fraction:
    """The nearest FP32 number."""
    return round_to(value, 24, -126, FLT_MAX)


def times(left: Fraction, right: Fraction) -> Fraction:
    """FP32 product; infinity stays infinity."""
    value = left * right
    if value and INFINITY in (abs(left), abs(right)):
        return INFINITY if value > 0 else -INFINITY
    return fp32(value)


# --- scales -------------------------------------------------------------------------------------


def minifloat_values(name: str) -> list[Fraction]:
    """Decoded values of the bytes 0, 1, ... up to the largest finite one."""
    mantissa, bias, last = MINIFLOATS[name]
    values = []
    for byte in range(last + 1):
        field, fraction = byte >> mantissa, byte & ((1 << mantissa) - 1)
        significand = Fraction(fraction, 1 << mantissa) + (1 if field else 0)
        values.append(significand * Fraction(2) ** (max(field, 1) - bias))
    return values


def tensor_encode(amax: Fraction, facts: Facts) -> Fraction:
    """S = smax * gmax / amax in FP32, at most FLT_MAX; 1 for a tensor of zeros."""
    if amax == 0:
        return Fraction(1)
    top = fp32(facts.smax * facts.gmax)
    return FLT_MAX if top == INFINITY else min(fp32(top / amax), FLT_MAX)


def reciprocal(value: Fraction) -> Fraction:
    """FP32 1/value, at most FLT_MAX, which is also what 1/0 gives; 1/infinity is 0."""
    if value in (0, INFINITY):
        return FLT_MAX if value == 0 else Fraction(0)
    return min(fp32(1 / value), FLT_MAX)


def decode_factor(encode: Fraction | None, facts: Facts, stochastic: bool) -> Fraction | None:
    """What decoded values are multiplied with in the end, if anything."""
    factor = None if encode is None else reciprocal(encode)
    if facts.gain == 1 or stochastic:
        return factor
    correction = fp32(1 / facts.gain)
    return correction if factor is None else times(factor, correction)


def choose_scale(block: Sequence[Fraction], facts: Facts, encode: Fraction | None) -> Fraction:
    """The value of a block's stored scale; four-over-six takes 4 where its error is smaller."""
    amax = max(abs(x) for x in block)
    stored = scale_for(amax, facts.gmax, facts, encode)
    if facts.rule != "four-over-six":
        return stored
    to_four = scale_for(amax, Fraction(4), facts, encode)
    errors = [error(block, scale, facts, encode) for scale in (to_four, stored)]
    return to_four if errors[0] < errors[1] else stored


def scale_for(amax: Fraction, target: Fraction, facts: Facts, encode: Fraction | None) -> Fraction:
    """The stored scale by which amax becomes target, as nearly as the scale's format allows."""
    if facts.headroom != 1:
        amax = min(times(amax, facts.headroom), FLT_MAX)
    if facts.scale == "e8m0":
        return Fraction(2) ** power_of_two(amax, facts)
    if encode is None:
        ratio = fp32(amax / target)
    else:
        ratio = times(amax, min(times(encode, reciprocal(target)), FLT_MAX))
    if facts.scale in MINIFLOATS:
        return nearest(min(ratio, facts.smax), dict(enumerate(minifloat_values(facts.scale))))[1]
    if facts.scale == "bf16":
        top = Fraction(2) ** 128 - Fraction(2) ** 120
        return min(round_to(ratio, 8, -126, top), top)
    return min(ratio, FLT_MAX)


def power_of_two(amax: Fraction, facts: Facts) -> int:
    """The exponent by rule floor, ceil, rceil or even, within E8M0's range."""
    if amax == 0:
        return -127
    low = exponent_of(amax)
    emax = exponent_of(facts.gmax)
    if facts.rule == "floor":
        exponent = low - emax
    elif facts.rule == "ceil":
        exponent = low + (amax > Fraction(2) ** low) - emax
    elif facts.rule == "rceil":
        exponent = low - emax - 1
        while facts.gmax * Fraction(2) ** exponent < amax:
            exponent += 1
    else:
        assert facts.rule == "even"
        units = amax / Fraction(2) ** (low - facts.mantissa)
        half_up = math.floor(units + Fraction(1, 2))
        exponent = low + (half_up == 2 << facts.mantissa) - emax
    return max(-127, min(127, exponent))


def error(
    block: Sequence[Fraction], stored: Fraction, facts: Facts, encode: Fraction | None
) -> Fraction:
    """Squared error in FP32 steps, added up by halving."""
    assert encode is not None
    squares = []
    for x in block:
        t = element(x, stored, encode)
        q = facts.table[nearest(t, levels(facts))[0]]
        assert q is not None
        difference = fp32(times(times(q, stored), reciprocal(encode)) - x)
        squares.append(times(difference, difference))
    while len(squares) > 1:
        half = len(squares) // 2
        squares = [
            INFINITY if INFINITY in pair else fp32(sum(pair, Fraction(0)))
            for pair in zip(squares[:half], squares[half:], strict=True)
        ]
    return squares[0]


def stored_form(stored: Fraction, poisoned: bool, scale: str) -> float:
    """The byte of an 8-bit scale, or the value of a wide one; poisoned blocks have the NaN."""
    if scale == "e8m0":
        return NAN_BYTE[scale] if poisoned else exponent_of(stored) + 127
    if scale in MINIFLOATS:
        return NAN_BYTE[scale] if poisoned else minifloat_values(scale).index(stored)
    return math.nan if poisoned else float(stored)


# --- elements -----------------------------------------------------------------------------------


def element(x: Fraction, stored: Fraction, encode: Fraction | None) -> Fraction:
    """x in units of the grid, FP32."""
    if encode is not None:
        return times(x, reciprocal(times(stored, reciprocal(encode))))
    return Fraction(0) if stored == 0 else fp32(x / stored)


def levels(facts: Facts) -> dict[int, Fraction]:
    """Value by code, without unused codes and with one code for zero."""
    used = {code: value for code, value in enumerate(facts.table) if value is not None}
    zero = min(code for code, value in used.items() if value == 0)
    return {code: value for code, value in used.items() if value != 0 or code == zero}


def nearest(t: Fraction, table: dict[int, Fraction]) -> tuple[int, Fraction]:
    """The code and value nearest to t, the even code of two that are equally near."""
    return min(table.items(), key=lambda entry: (abs(entry[1] - t), entry[0] % 2))


def code_of(
    x: float, stored: Fraction, facts: Facts, encode: Fraction | None, bits: int | None
) -> int:
    """The code of one element."""
    t = element(Fraction(x), stored, encode)
    table = levels(facts)
    code = nearest(t, table)[0] if bits is None else stochastic(t, facts, bits)
    negative = math.copysign(1.0, x) < 0 and not (encode is None and stored == 0)
    if facts.sign_magnitude and table[code] == 0 and negative:
        return code | len(facts.table) // 2
    return code


def stochastic(t: Fraction, facts: Facts, bits: int) -> int:
    """The neighbour away from zero (upwards, if the grid is lopsided) with the odds of t's place.

    The odds are worked with in FP32, as the rules say: up if (t - low) / (high - low) is above
    (bits + 1/2) / 2^16.
    """
    table = levels(facts)
    code_by_value = {value: code for code, value in table.items()}
    values = sorted(code_by_value)
    symmetric = values == sorted(-value for value in values)
    place = abs(t) if symmetric else t
    ascending = [value for value in values if value >= 0] if symmetric else values
    place = max(ascending[0], min(ascending[-1], place))
    low = max(i for i, value in enumerate(ascending[:-1]) if value <= place)
    share = fp32(fp32(place - ascending[low]) / fp32(ascending[low + 1] - ascending[low]))
    chosen = ascending[low + 1 if Fraction(2 * bits + 1, 2) < share * 65536 else low]
    return code_by_value[-chosen if symmetric and t < 0 else chosen]


def decode(code: int, stored: Fraction, factor: Fraction | None, facts: Facts) -> float:
    """FP32 value of a code under its scale, IEEE infinity where it is too large."""
    value = facts.table[code]
    assert value is not None
    product_ = times(value, stored)
    result = product_ if factor is None else times(product_, factor)
    return math.copysign(math.inf, result) if abs(result) == INFINITY else float(result)


# --- draws --------------------------------------------------------------------------------------


def philox(counter: Sequence[int], key: Sequence[int]) -> list[int]:
    """Philox-4x32-10 on four counter words and two key words."""
    c, k = list(counter), list(key)
    for _ in range(10):
        high0, low0 = divmod(c[0] * 0xD2511F53, 1 << 32)
        high1, low1 = divmod(c[2] * 0xCD9E8D57, 1 << 32)
        c = [high1 ^ c[1] ^ k[0], low1, high0 ^ c[3] ^ k[1], low0]
        k = [(k[0] + 0x9E3779B9) % (1 << 32), (k[1] + 0xBB67AE85) % (1 << 32)]
    return c


def draw(seed: int, step: int, stream: int, row: int, column: int) -> int:
    """The 16 bits of an element: eight columns share a call, word by word, low half first."""
    counter = (column // 8, row, step % (1 << 32), stream)
    words = philox(counter, (seed % (1 << 32), (seed >> 32) % (1 << 32)))
    half = column % 8
    return words[half // 2] >> 16 * (half % 2) & 0xFFFF
