from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from reports.sections import loss
from suites.rows import Row, Series, emulated
from tests.reports.rows_fixture import training


def series(y: list[float | None]) -> Series:
    return Series(x=list(range(len(y))), y=y, x_label="step", y_label="loss")


def test_a_short_curve_is_drawn_point_by_point() -> None:
    curve = loss.condense([series([3.0, 2.0, 1.0])], "emulated")
    assert (curve.x, curve.mean, curve.points, curve.holes) == ([0, 1, 2], [3, 2, 1], 3, 0)


def test_seeds_meet_in_one_line_with_a_band() -> None:
    curve = loss.condense([series([3.0, 1.0]), series([5.0, 2.0])], "emulated")
    assert (curve.mean, curve.low, curve.high) == ([4, 1.5], [3, 1], [5, 2])


@given(st.lists(st.floats(0, 10) | st.none(), max_size=600), st.integers(1, 50))
def test_no_peak_is_lost_however_few_bins(values: list[float | None], bins: int) -> None:
    curve = loss.condense([series(values)], "emulated", bins)
    known = [value for value in values if value is not None]
    assert len(curve.x) <= bins
    assert curve.holes == len(values) - len(known)
    if known:
        assert max(curve.high) == max(known) and min(curve.low) == min(known)


def test_a_curve_without_a_single_value_is_not_drawn() -> None:
    row = Row(
        kind="training",
        config={"recipe": "r"},
        values={"validation_loss": emulated(None, "")},
        series={"train_loss": series([None, None])},
    )
    assert loss.curves_figure([row]) is None


def test_the_caption_says_how_much_was_left_out() -> None:
    figure = loss.curves_figure(list(training(seeds=1, steps=1000)))
    assert figure is not None
    assert "of 4,040 points" in figure.note
    assert figure.table.all_origins() == ("measured", "emulated")


def test_the_validation_panel_starts_where_curves_can_be_told_apart() -> None:
    figure = loss.curves_figure(list(training(seeds=1, steps=300)))
    assert figure is not None
    low, high = figure.layout["yaxis2"]["range"]
    assert figure.layout["xaxis2"]["range"][0] == 150
    assert high - low < 1
