from random import Random

import numpy as np
import pytest

from formats import SCALE_FORMATS
from hwmodels.circuit_shared import AccumulateUnit, ScaleUnit
from hwmodels.synthesis import synthesise

COUNT = 1500


@pytest.mark.parametrize("name", ["e8m0", "e4m3", "ue5m3", "bf16"])
def test_scaling_and_accumulation_are_exact_and_rounded_once(name, osu018):
    scale = ScaleUnit(11, SCALE_FORMATS[name])
    random = Random(0)
    width = scale.inputs[1].width
    sums = [random.randrange(-784, 785) for _ in range(COUNT)]
    codes = [[random.randrange(1 << width) for _ in range(COUNT)] for _ in range(2)]
    netlist = synthesise(scale, osu018)
    values = netlist.evaluate({"sum": [s % 2048 for s in sums], "a": codes[0], "b": codes[1]})
    significands = netlist.read(values, "significand", COUNT, signed=True)
    exponents = netlist.read(values, "exponent", COUNT)
    pairs = list(zip(significands, exponents, strict=True))
    assert pairs == [scale.expected(*step) for step in zip(sums, *codes, strict=True)]

    unit = AccumulateUnit.after(scale)
    before = [_accumulator(unit, pair, random) for pair in pairs]
    netlist = synthesise(unit, osu018)
    bits = unit.significand_bits
    inputs = {"acc": before, "significand": [s % (1 << bits) for s in significands]}
    values = netlist.evaluate({**inputs, "exponent": exponents})
    expected = [unit.expected(acc, *pair) for acc, pair in zip(before, pairs, strict=True)]
    assert netlist.read(values, "result", COUNT) == expected


def test_accumulation_is_ieee_addition():
    """The integer model against numpy's FP32, away from subnormals."""
    unit = AccumulateUnit(20, 5, offset=20)
    random = Random(1)
    for _ in range(2000):
        acc = np.float32(random.uniform(-8, 8))
        significand, exponent = random.randrange(-(2**19) + 1, 2**19), random.randrange(32)
        total = acc + np.float32(np.ldexp(np.float64(significand), exponent - 20))
        assert unit.expected(int(acc.view(np.uint32)), significand, exponent) == int(
            np.float32(total).view(np.uint32)
        )


def test_scale_values_are_the_scale_formats_own():
    scale = SCALE_FORMATS["e4m3"]
    unit = ScaleUnit(11, scale)
    for code in range(127):
        significand, exponent = unit.expected(1, code, 8)  # code 8 is 2^-6
        assert significand * 2.0 ** (exponent - unit.offset) == scale.values[code] * scale.values[8]


def _accumulator(unit: AccumulateUnit, addend: tuple[int, int], random: Random) -> int:
    """FP32 bits that meet the addend in all ways: far, near, cancelling to the last bits."""
    bits = unit.expected(0, *addend)
    choice = random.randrange(3)
    if choice == 0:
        bits = random.randrange(1 << 32)
    elif choice == 1:
        bits ^= 1 << 31 | random.randrange(1 << random.randrange(1, 26))
    else:
        bits ^= random.randrange(1 << random.randrange(1, 28))
    return bits & ~(1 << 30) if bits >> 23 & 255 == 255 else bits
