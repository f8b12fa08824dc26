from __future__ import annotations

import pytest

from reports.style import (
    LEAST_SPAN,
    axis,
    axis_range,
    in_panel,
    looks,
    panels,
    plain,
    reference,
)
from suites.rows import Row
from tests.reports.rows_fixture import all_rows


def recipes(count: int) -> list[Row]:
    return [Row(kind="training", config={"recipe": f"r{i}"}) for i in range(count)]


def test_names_are_told_apart_by_colour_and_by_marker() -> None:
    found = looks(recipes(40)).values()
    assert len({(look.colour, look.symbol) for look in found}) == 41
    assert len({look.symbol for look in list(found)[1:9]}) == 8


def test_a_format_with_the_name_of_a_recipe_looks_like_it() -> None:
    found = looks(all_rows())
    formats = [found[name] for name in ("e2m1", "e1m2", "nvfp4", "int4")]
    assert len({(look.colour, look.symbol) for look in formats}) == 4


def test_an_axis_carries_its_unit() -> None:
    assert axis("loss", "nats/token")["title"]["text"] == "loss (nats/token)"
    assert axis("gain")["title"]["text"] == "gain"


def test_panels_fill_the_width_without_overlap() -> None:
    layout = panels(("a", "b", "c"), axis("x"), axis("y"), 300)
    domains = [layout[name]["domain"] for name in ("xaxis", "xaxis2", "xaxis3")]
    assert domains[0][0] == 0 and abs(domains[2][1] - 1) < 1e-9
    assert domains[0][1] < domains[1][0] < domains[1][1] < domains[2][0]
    assert layout["yaxis3"]["matches"] == "y"
    assert in_panel(2) == {"xaxis": "x3", "yaxis": "y3"}
    assert [shape["xref"] for shape in reference(1, 2)] == ["x", "x2"]


def test_panels_share_what_they_are_told_to() -> None:
    layout = panels(("a", "b"), axis("x"), axis("y"), 300, share="")
    assert "matches" not in layout["xaxis2"] | layout["yaxis2"]


def test_names_are_no_markup_for_plotly() -> None:
    assert plain("<b>&$x$") == "&lt;b&gt;&amp;&#36;x&#36;"


def test_an_axis_does_not_blow_up_a_difference_of_nothing() -> None:
    layout = panels(["a", "b"], axis(""), axis(""), height=100)
    axis_range(layout, 0, [421.4, 421.5])
    axis_range(layout, 1, [10.0, 20.0])
    low, high = layout["xaxis"]["range"]
    assert high - low == pytest.approx(1.8 * LEAST_SPAN * 421.5) and low < 421.4 < high
    assert layout["xaxis2"]["range"] == [6.0, 24.0]
