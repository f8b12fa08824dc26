import pytest

from formats import SCALE_FORMATS
from formats.grid import E1M2, E2M1
from hwmodels import activity
from hwmodels.circuit_cost import Design, check_code_pairs, price, rtl_hash
from hwmodels.codebook import CodeBook
from hwmodels.synthesis import synthesise

E4M3 = SCALE_FORMATS["e4m3"]
BOOKS = (CodeBook.from_grid(E2M1), CodeBook.from_grid(E1M2))


def test_parts_fit_each_other():
    parts = Design(BOOKS[:1], E4M3, lanes=16).parts
    assert list(parts) == ["dot", "scale", "accumulate"]
    assert parts["dot"].outputs[0].width == parts["scale"].inputs[0].width == 13
    assert parts["scale"].outputs[0].width == parts["accumulate"].inputs[1].width


def test_the_same_rtl_has_the_same_hash():
    one, two = (Design(BOOKS[:1], E4M3, 16).parts["dot"] for _ in range(2))
    assert rtl_hash(one) == rtl_hash(two) != rtl_hash(Design(BOOKS[1:], E4M3, 16).parts["dot"])


def test_a_design_is_checked_and_priced(osu018):
    book = BOOKS[0]
    streams = {"uniform": activity.uniform(book, E4M3, lanes=4, count=128)}
    parts = price(Design((book,), E4M3, lanes=4), osu018, streams, {})
    assert [part.part for part in parts] == ["dot", "scale", "accumulate"]
    for part in parts:
        assert part.area_um2 > 0 and part.delay_ps > 0 and part.energy_fj["uniform"] > 0
    assert parts[0].vectors_checked == 256 + 128


def test_still_codes_cost_nothing(osu018):
    book = BOOKS[0]
    moving = activity.uniform(book, E4M3, lanes=4, count=2)
    still = activity.Stream(
        "still", *((rows[0],) * 4 for rows in (moving.a, moving.b)), (8,) * 4, (8,) * 4
    )
    (dot, _, _) = price(Design((book,), E4M3, lanes=4), osu018, {"still": still}, {})
    assert dot.energy_fj["still"] == 0


def test_a_wrong_netlist_is_caught(osu018):
    e2m1, e1m2 = (Design((book,), E4M3, lanes=2) for book in BOOKS)
    netlist = synthesise(e1m2.parts["dot"], osu018)
    with pytest.raises(AssertionError, match="a code pair differs"):
        check_code_pairs(netlist, e2m1)
