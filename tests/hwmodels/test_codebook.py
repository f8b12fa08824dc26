from fractions import Fraction

import pytest

from formats import Grid, load_format
from formats.grid import E1M2, E2M1, INT4
from hwmodels.codebook import CodeBook


@pytest.mark.parametrize(
    ("grid", "step", "largest", "significand"),
    [(E2M1, Fraction(1, 2), 12, 2), (E1M2, Fraction(1, 4), 7, 3), (INT4, Fraction(1), 7, 3)],
)
def test_integers_times_the_step_are_the_levels(grid, step, largest, significand):
    book = CodeBook.from_grid(grid)
    assert (book.step, book.max, book.significand_bits) == (step, largest, significand)
    for code in book.used_codes:
        assert float(book.integers[code] * step) == grid.decode_table[code]


def test_only_int4_is_its_own_code():
    assert CodeBook.from_grid(INT4).is_twos_complement
    assert not CodeBook.from_grid(E1M2).is_twos_complement


def test_split_rebuilds_every_code_of_a_log_grid():
    book = CodeBook.from_grid(Grid.from_float(exponent=3, mantissa=0))
    assert book.significand_bits == 1
    for code in book.used_codes:
        sign, significand, shift = book.split(code, 1)
        assert (-1) ** sign * (significand << shift) == book.integers[code]


def test_more_than_16_codes_are_refused():
    with pytest.raises(ValueError, match=r"256 codes; circuits are generated for at most 16"):
        CodeBook.from_grid(load_format("mxfp8").element)


def test_a_grid_without_a_small_common_step_is_refused():
    with pytest.raises(ValueError, match=r"decodes to \d+-bit integers .* choose values"):
        CodeBook.from_grid(Grid.from_values((0.0, 0.1, 0.33, 0.71)))
