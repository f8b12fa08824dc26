import pytest

from formats import SCALE_FORMATS
from formats.grid import E1M2, E2M1, INT4
from hwmodels import activity
from hwmodels.codebook import CodeBook

E4M3 = SCALE_FORMATS["e4m3"]


@pytest.mark.parametrize("grid", [E2M1, E1M2, INT4])
def test_uniform_streams_use_every_code_that_has_a_value(grid):
    book = CodeBook.from_grid(grid)
    stream = activity.uniform(book, E4M3, lanes=16, count=200)
    assert {code for row in stream.a for code in row} == set(book.used_codes)
    assert len(stream) == len(stream.a_scales) == 200
    assert all(0.05 < E4M3.values[scale] < 32 for scale in stream.a_scales)


@pytest.mark.parametrize("name", ["e4m3", "fp32", "e8m0"])
def test_packing_keeps_codes_and_scales(name, monkeypatch):
    book, scale = CodeBook.from_grid(INT4), SCALE_FORMATS[name]
    stream = activity.uniform(book, scale, lanes=16, count=5)
    sample = activity.pack("r", book, scale, 16, stream)
    monkeypatch.setattr(
        activity, "_samples", lambda: activity.Samples(source="", samples=(sample,))
    )
    back = activity.training(book, scale, lanes=16)
    assert (back.a, back.b) == (stream.a, stream.b)
    assert (back.a_scales, back.b_scales) == (stream.a_scales, stream.b_scales)
    assert activity.training(book, scale, lanes=32) is None


def test_shipped_samples_are_of_a_training_step():
    assert "step" in activity.training_source()
    stream = activity.training(CodeBook.from_grid(E2M1), SCALE_FORMATS["fp32"], lanes=16)
    zero = sum(code in (0, 8) for row in stream.a for code in row) / (16 * len(stream))
    assert zero > 2 / 16  # small values abound, which uniform codes deny
