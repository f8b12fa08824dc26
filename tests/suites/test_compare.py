"""Two runs are compared pair by pair, and what noise explains is not called a change."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from suites.compare import (
    HIGHER_IS_BETTER,
    LOWER_IS_BETTER,
    OF_THE_MACHINE,
    Change,
    compare_runs,
)
from suites.rows import Quantity, Row, emulated, measured
from suites.store import Run


def run_of(values: Iterable[dict[str, Quantity]], hardware: str = "a CPU") -> Run:
    """A run of one recipe with one row of values per seed."""
    rows = tuple(
        Row(kind="training", config={"recipe": "ufp4", "seed": seed}, values=of_seed)
        for seed, of_seed in enumerate(values)
    )
    return Run(Path("run"), {}, {"hardware": hardware}, {}, rows)


def run(*numbers: float | None, metric: str = "validation_loss", hardware: str = "a CPU") -> Run:
    """A run of one recipe with a number per seed."""
    return run_of([{metric: measured(number, "unit")} for number in numbers], hardware)


def change(before: Run, after: Run) -> Change:
    (only,) = compare_runs(before, after).changes
    return only


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [
        ([2.0, 2.1, 2.2], [2.2, 2.31, 2.42], "worse"),
        ([2.2, 2.31, 2.42], [2.0, 2.1, 2.2], "better"),
        ([2.0, 2.1, 2.2], [2.2, 2.0, 2.15], "not resolved"),
        ([2.0, 2.1], [2.0, 2.1], "same"),
        ([2.0], [2.0], "same"),
        ([2.0], [2.2], "one sample"),
        ([2.0], [None], "n/a"),
        ([2.0, 2.1], [2.0, math.nan], "diverged"),
        ([math.nan], [math.nan], "n/a"),
        ([0.0], [1.0], "n/a"),
    ],
)
def test_verdict(before: list, after: list, verdict: str) -> None:
    assert change(run(*before), run(*after)).verdict == verdict


def test_seeds_are_paired() -> None:
    """Seeds differ by far more than the runs do, and the change is resolved all the same."""
    found = change(run(1.0, 2.0, 4.0), run(1.01, 2.021, 4.04))
    assert found.verdict == "worse"
    assert found.worse_percent.mean == pytest.approx(1.0167, abs=1e-3)


def test_a_threshold_is_passed_by_resolved_worsening_only() -> None:
    worse = change(run(2.0, 2.1, 2.2), run(2.2, 2.31, 2.42))
    assert worse.exceeds(5) and not worse.exceeds(15)
    assert not change(run(2.2, 2.31, 2.42), run(2.0, 2.1, 2.2)).exceeds(5)
    assert not change(run(2.0, 2.1, 2.2), run(2.9, 2.0, 2.15)).exceeds(5)
    assert change(run(2.0), run(2.2)).exceeds(5)
    assert change(run(2.0), run(math.inf)).exceeds(5)


@pytest.mark.parametrize(
    ("metric", "before", "after", "percent"),
    [
        ("tokens_per_second", 100.0, 90.0, 10.0),
        ("step_seconds", 1.0, 1.1, 10.0),
        ("sqnr_db", 20.0, 0.0, 900.0),
        ("gain", 0.99, 0.98, 1.0),
        ("gain", 0.99, 1.01, 0.0),
    ],
)
def test_every_metric_has_its_direction(
    metric: str, before: float, after: float, percent: float
) -> None:
    found = change(run(before, metric=metric), run(after, metric=metric))
    assert found.worse_percent.mean == pytest.approx(percent)


def test_B128_different_hardware_is_flagged_and_its_times_are_not_compared() -> None:
    slow = run(1.0, metric="step_seconds")
    fast = run(0.1, metric="step_seconds", hardware="a GPU")
    comparison = compare_runs(fast, slow)
    assert "different hardware: A a GPU, B a CPU" in comparison.warnings[0]
    assert [found.verdict for found in comparison.changes] == ["hardware"]
    assert not comparison.changes[0].exceeds(5)


def test_B128_a_missing_number_shows_as_not_available() -> None:
    before = run_of([{"validation_loss": measured(2.0, "nats/token")}])
    after = run_of([{"bits_per_byte": measured(1.0, "bit/byte")}])
    comparison = compare_runs(before, after)
    assert [found.verdict for found in comparison.changes] == ["n/a", "n/a"]
    assert "n/a" in comparison.table()


def test_B128_a_run_of_another_version_is_named() -> None:
    new = run(2.0)
    rows = tuple(row.model_copy(update={"schema_version": 0}) for row in new.rows)
    assert "schema versions differ" in compare_runs(new, replace(new, rows=rows)).warnings[0]


def test_what_has_no_partner_is_counted() -> None:
    extra = Row(kind="bias", config={"format": "nvfp4"}, values={"gain": emulated(0.99, "")})
    before = run(2.0)
    after = replace(before, rows=(*before.rows, extra))
    assert "0 only in A, 1 only in B" in compare_runs(before, after).warnings[0]


def test_runs_with_nothing_in_common_are_refused() -> None:
    other = replace(run(2.0), rows=(Row(kind="bias", values={"gain": emulated(1.0, "")}),))
    with pytest.raises(ValueError, match="no configuration in common"):
        compare_runs(run(2.0), other)


@pytest.mark.parametrize(
    ("metric", "verdict"), [("share_of_roof", "better"), ("times_roof", "worse")]
)
def test_more_of_a_roof_s_rate_is_better_and_more_of_its_time_is_worse(metric, verdict) -> None:
    numbers = [1.2, 1.21, 1.22], [1.5, 1.51, 1.52]
    assert change(*(run(*some, metric=metric) for some in numbers)).verdict == verdict
    elsewhere = run(*numbers[1], metric=metric, hardware="another")
    assert change(run(*numbers[0], metric=metric), elsewhere).verdict == "hardware"


def test_every_ratio_to_a_roof_has_a_direction() -> None:
    from suites.kernel_rows import RATIOS

    assert set(RATIOS[True]) <= HIGHER_IS_BETTER
    assert set(RATIOS[False]) <= LOWER_IS_BETTER
    assert {*RATIOS[True], *RATIOS[False]} <= OF_THE_MACHINE
