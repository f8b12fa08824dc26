"""The circuit against its meaning: after synthesis, on all code pairs and on random vectors."""

import math
from dataclasses import dataclass
from itertools import product
from random import Random

import pytest
import torch

from formats import load_format
from formats.grid import E1M2, E2M1, INT4, Grid
from hwmodels.circuit import DotUnit, Port, module
from hwmodels.codebook import CodeBook
from hwmodels.synthesis import synthesise
from kernels import quantize
from kernels.scaling import decode_scales

LANES = 4
GRIDS = {
    "e2m1": (E2M1,),
    "e1m2": (E1M2,),
    "int4": (INT4,),
    "e2m1+e1m2": (E2M1, E1M2),
    "e2m1+int4": (E2M1, INT4),
    "free": (Grid.from_values((0.0, 1.0, 2.0, 3.0, 5.0, 8.0, 13.0, 21.0)),),
    "signed": (Grid.from_values((-7.0, -3.0, -1.0, 0.0, 1.0, 2.0, 5.0)),),
}


def unit_of(name: str) -> DotUnit:
    return DotUnit(tuple(CodeBook.from_grid(grid) for grid in GRIDS[name]), LANES)


@pytest.mark.parametrize("name", GRIDS)
def test_the_mapped_netlist_is_the_dot_product(name, osu018):
    unit = unit_of(name)
    netlist = synthesise(unit, osu018)
    random = Random(0)
    vectors = []
    for a_flag, b_flag in product(range(len(unit.books)), repeat=2):
        left, right = unit.books[a_flag].used_codes, unit.books[b_flag].used_codes
        # All code pairs, each in one lane with the other lanes busy, then random vectors.
        for lane, pair in enumerate(product(left, right)):
            a, b = random.choices(left, k=LANES), random.choices(right, k=LANES)
            a[lane % LANES], b[lane % LANES] = pair
            vectors.append((a, b, a_flag, b_flag))
        for _ in range(200):
            vectors.append(
                (random.choices(left, k=LANES), random.choices(right, k=LANES), a_flag, b_flag)
            )
    inputs = {
        "a": [sum(code << 4 * lane for lane, code in enumerate(a)) for a, _, _, _ in vectors],
        "b": [sum(code << 4 * lane for lane, code in enumerate(b)) for _, b, _, _ in vectors],
    }
    if unit.flag_bits:
        inputs |= {"a_flag": [v[2] for v in vectors], "b_flag": [v[3] for v in vectors]}
    values = netlist.evaluate(inputs)
    sums = netlist.read(values, "sum", len(vectors), signed=True)
    assert sums == [unit.expected(*vector) for vector in vectors]


@pytest.mark.parametrize("name", ["nvfp4", "nve1m2", "nvint4"])
def test_the_integer_model_is_the_emulator(name):
    """The circuit's sum, times both steps and scales, is the emulator's dot product of a block."""
    fmt = load_format(name)
    book = CodeBook.from_grid(fmt.element)
    unit = DotUnit((book,), 16)
    generator = torch.Generator().manual_seed(0)
    x, w = (quantize(torch.randn(8, 16, generator=generator), fmt) for _ in range(2))
    scales = (decode_scales(x.scales, fmt) * decode_scales(w.scales, fmt)).double().flatten()
    emulated = (x.values().double() * w.values().double()).sum(dim=1)
    for row, codes in enumerate(zip(x.unpacked().tolist(), w.unpacked().tolist(), strict=True)):
        exact = unit.expected(*codes) * float(book.step) ** 2
        assert exact * scales[row].item() == emulated[row].item()


def test_e1m2_and_int4_are_the_same_integers_in_other_codes():
    e1m2, int4 = CodeBook.from_grid(E1M2), CodeBook.from_grid(INT4)
    assert set(e1m2.used) == set(int4.used)
    assert DotUnit((e1m2,), 16).sum_bits == DotUnit((int4,), 16).sum_bits == 11


def test_signed_multiplication_is_not_penalised(osu018):
    """Baugh-Wooley lanes are no larger than what the tool makes of a plain signed product."""
    unit = unit_of("int4")
    products = [f"$signed(a[{i}+:4]) * $signed(b[{i}+:4])" for i in range(0, 4 * LANES, 4)]
    plain = Plain(
        unit.inputs, module(unit.inputs, unit.outputs, [f"assign sum = {' + '.join(products)};"])
    )
    assert synthesise(unit, osu018).area <= synthesise(plain, osu018).area


@dataclass(frozen=True)
class Plain:
    """A hand-written unit."""

    inputs: tuple[Port, ...]
    verilog: str
    name: str = "plain"


def test_sum_never_overflows():
    unit = unit_of("e2m1")
    top = max(unit.books[0].used_codes, key=lambda code: unit.books[0].integers[code])
    largest = unit.expected([top] * LANES, [top] * LANES)
    assert largest == LANES * 144 and math.log2(largest) < unit.sum_bits - 1
