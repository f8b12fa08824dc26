from formats import load_format
from suites.grid_rows import grid_rows


def test_a_row_per_format_and_none_in_high_precision():
    formats = [load_format(name) for name in ("e2m1", "bf16", "int4", "e2m1")]
    e2m1, int4 = grid_rows(formats)
    assert (e2m1.config["format"], int4.config["format"]) == ("e2m1", "int4")
    assert int4.facts["codes"] == 15 and int4.facts["levels"] == list(range(-7, 8))
    assert e2m1.facts["codes"] == 16 and e2m1.facts["max"] == 6
    assert e2m1.facts["midpoints"][-4:] == [1.75, 2.5, 3.5, 5]
    assert e2m1.facts["bits_per_element"] == 6
