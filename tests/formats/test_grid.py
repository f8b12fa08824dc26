"""Grids: literal code books, and the thresholds that rounding compares with."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from formats import Grid, load_format
from formats.grid import E1M2, E2M1, E4M3, INT4

NAN = math.nan
MAGNITUDES = {
    "e2m1": (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0),
    "e1m2": (0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75),
}
INT4_TABLE = (0, 1, 2, 3, 4, 5, 6, 7, NAN, -7, -6, -5, -4, -3, -2, -1)
GRIDS = (
    E2M1,
    E1M2,
    INT4,
    E4M3,
    Grid.from_values((0.0, 0.1, 0.7, 2.0)),
    Grid.from_values((-1.0, -0.3, 0.0, 0.1)),
)


@pytest.mark.parametrize("name", sorted(MAGNITUDES))
def test_B18_code_books_are_derived_and_equal_the_literal_tables(name: str) -> None:
    element = load_format(name).element
    assert element is not None
    magnitudes = MAGNITUDES[name]
    assert element.decode_table == magnitudes + tuple(-m for m in magnitudes)
    assert math.copysign(1, element.decode_table[8]) == -1


def test_B18_int4_is_symmetric_and_leaves_one_code_unused() -> None:
    assert str(INT4.decode_table) == str(tuple(float(v) for v in INT4_TABLE))
    assert (INT4.max, INT4.step, INT4.is_symmetric) == (7.0, 1.0, True)


def test_e1m2_is_int4_times_a_quarter_in_other_codes() -> None:
    """The same grid: 15 levels, equal spacing, equal ends."""
    assert E1M2.levels == tuple(level / 4 for level in INT4.levels)
    assert E1M2.midpoints == tuple(midpoint / 4 for midpoint in INT4.midpoints)
    assert E1M2.decode_table != tuple(value / 4 for value in INT4.decode_table)


def test_facts_of_the_built_in_grids() -> None:
    assert (E2M1.max, E2M1.is_uniform, E2M1.max_exponent, E2M1.mantissa_bits) == (6.0, False, 2, 1)
    assert E2M1.midpoints[7:] == (0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0)
    assert (E1M2.max, E1M2.step, E1M2.max_exponent, E1M2.mantissa_bits) == (1.75, 0.25, 0, 2)
    assert (INT4.max_exponent, INT4.mantissa_bits, E4M3.max) == (2, 2, 448.0)
    assert (E2M1.negative_zero_code, INT4.negative_zero_code) == (8, None)


@pytest.mark.parametrize("grid", GRIDS, ids=lambda grid: f"{grid.name}-{grid.max:g}")
@pytest.mark.parametrize("precision", [24, 53])
def test_thresholds_are_the_first_numbers_that_round_up(grid: Grid, precision: int) -> None:
    """On both sides of each threshold, by exact distances and the parity of codes."""
    gaps = zip(
        grid.thresholds(precision), grid.levels, grid.levels[1:], grid.level_codes[1:], strict=False
    )
    for threshold, low, high, high_code in gaps:
        middle = (Fraction(low) + Fraction(high)) / 2
        below = Fraction(_before(threshold, precision))
        assert below < middle or (below == middle and high_code % 2 == 1)
        exact = Fraction(threshold)
        assert exact > middle or (exact == middle and high_code % 2 == 0)


def _before(value: float, precision: int) -> float:
    if precision == 53:
        return math.nextafter(value, -math.inf)
    import numpy as np

    return float(np.nextafter(np.float32(value), np.float32(-math.inf)))


def test_signed_values_are_the_code_book_and_magnitudes_get_a_sign() -> None:
    signed, magnitudes = Grid.from_values((-2.0, 0.0, 1.0)), Grid.from_values((0.0, 1.0, 3.0))
    assert signed.decode_table[:3] == (-2.0, 0.0, 1.0)
    assert all(math.isnan(value) for value in signed.decode_table[3:])
    assert (signed.max, signed.is_symmetric, signed.negative_zero_code) == (2.0, False, None)
    assert magnitudes.levels == (-3.0, -1.0, 0.0, 1.0, 3.0)


@pytest.mark.parametrize(
    ("values", "evenly"),
    [
        ((0.0, 0.5, 1.0, 1.5), True),  # magnitudes: codes count from zero
        ((-2.0, -1.0, 0.0, 1.0, 2.0), True),  # zero has code 2
        ((-3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0), False),  # zero has code 3
        ((0.0, 0.3, 0.6), False),  # the step is no power of two
        ((0.0, 1.0, 3.0), False),
        ((-2.0, -1.0, 0.0, 1.0), False),  # not symmetric
    ],
)
def test_ties_go_to_even_multiples_only_where_codes_are_even_there(
    values: tuple[float, ...], evenly: bool
) -> None:
    assert Grid.from_values(values).is_evenly_coded == evenly


def test_values_are_kept_in_fp32_and_have_one_zero() -> None:
    grid = Grid.from_values((-0.0, 0.1, 1.0))
    assert grid.decode_table[1] == 0.10000000149011612
    assert math.copysign(1, grid.decode_table[0]) == 1


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ((), "non-empty"),
        ((0.0, math.inf), "finite"),
        ((0.0, 1e39), "finite"),
        ((0.0, 2.0, 1.0), "strictly increasing"),
        ((0.0, 1e-46), "strictly increasing"),
        ((1.0, 2.0), "must contain 0"),
        ((0.0,), "must contain 0"),
        (tuple(float(n) for n in range(9)), "at most 8 magnitudes"),
        (tuple(float(n) for n in range(-1, 16)), "at most 16 signed"),
    ],
)
def test_values_that_make_no_grid_are_refused(values: tuple[float, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Grid.from_values(values)


@pytest.mark.parametrize(
    ("exponent", "mantissa", "bias", "limit", "message"),
    [
        (8, 23, None, None, "at most 8 bits"),
        (0, 3, None, None, "exponent >= 1"),
        (2, -1, None, None, "mantissa >= 0"),
        (2, 1, None, 0.1, "leaves no value"),
        (2, 1, 5000, None, "outside FP32"),
        (2, 1, -5000, None, "outside FP32"),
    ],
)
def test_B26_extreme_floats_are_refused_with_a_message(
    exponent: int, mantissa: int, bias: int | None, limit: float | None, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        Grid.from_float(exponent, mantissa, bias, limit)


@pytest.mark.parametrize("bits", [1, 9])
def test_ints_have_two_to_eight_bits(bits: int) -> None:
    with pytest.raises(ValueError, match="2 to 8 bits"):
        Grid.from_int(bits)
