import pytest

from hwmodels.netlist import _value, bit_planes, parse

ONES = 0b1111
A, B, C = 0b1100, 0b1010, 0b1001


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        ("!A", ~A & ONES),
        ("(A B)", A & B),
        ("A*B+C", A & B | C),
        ("!(A+B)", ~(A | B) & ONES),
        ("A'&B", ~A & ONES & B),
        ("A^B", A ^ B),
        ("(A ^ B) | !C", (A ^ B) | ~C & ONES),
        ("A^B*C", (A ^ B) & C),  # Liberty: ^ binds tighter than *
        ("1", ONES),
    ],
)
def test_liberty_functions(function, expected):
    assert _value(parse(function), {"A": A, "B": B, "C": C}, ONES) == expected


def test_an_unreadable_function_is_an_error():
    with pytest.raises(ValueError, match="cannot be read"):
        parse("A)B")


def test_bit_planes_transpose_words():
    assert bit_planes([0b01, 0b10, 0b11], 2) == [0b101, 0b110]
