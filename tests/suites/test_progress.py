"""Progress tells where the run is and how long it will take, and divides by no clock."""

from __future__ import annotations

import pytest

from suites.progress import RunProgress, format_seconds


class Clock:
    """A clock that goes on by a fixed time whenever it is told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("suites.progress.time", clock)
    return clock


def test_time_left_scales_the_estimates_by_the_pace(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    with RunProgress([1.0, 2.0, 3.0]) as progress:
        progress.start_cell("first")
        clock.now = 10.0
        progress.end_cell(None)
        progress.start_cell("second")
        clock.now = 30.0
        progress.end_cell("no luck")
    assert capsys.readouterr().err.splitlines() == [
        "[1/3] first",
        "    done in 10.0 s, about 50.0 s left",
        "[2/3] second",
        "    failed in 20.0 s, about 30.0 s left: no luck",
    ]


def test_B97_a_clock_that_stands_still_divides_nothing(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    with RunProgress([0.0, 0.0]) as progress:
        progress.start_cell("first")
        progress.step(1, 2, "")
        progress.end_cell(None)
    assert "done in 0.0 s, about 0.0 s left" in capsys.readouterr().err


def test_a_terminal_gets_a_bar(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with RunProgress([1.0]) as progress:
        progress.start_cell("first")
        progress.step(50, 100, "loss 3.2")
        assert progress.bar is not None
        assert (progress.bar.n, progress.bar.total) == (50, 100)
        progress.end_cell(None)
    captured = capsys.readouterr()
    assert "done in" in captured.err and captured.out == ""


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0.0 s"), (4.25, "4.2 s"), (59.97, "60.0 s"), (185, "3 min 05 s"), (7815, "2 h 10 min")],
)
def test_seconds_for_people(seconds: float, text: str) -> None:
    assert format_seconds(seconds) == text
