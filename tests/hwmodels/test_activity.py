from collections import Counter

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
    """E2M1 per 16 uses its codes evenly; the uniform grid has more small codes than large."""
    assert "step" in activity.training_source()
    e2m1, int4 = (_shares(grid, "e4m3") for grid in (E2M1, INT4))
    assert all(0.5 < 16 * e2m1.get(code, 0.0) < 1.5 for code in range(16))
    assert int4[1] + int4[15] > 1.5 * (int4[7] + int4[9])


def _shares(grid, scale):
    stream = activity.training(CodeBook.from_grid(grid), SCALE_FORMATS[scale], lanes=16)
    codes = Counter(code for row in stream.a for code in row)
    return {code: count / codes.total() for code, count in codes.items()}
