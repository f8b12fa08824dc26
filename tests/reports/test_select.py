from __future__ import annotations

from reports.select import (
    baselines,
    fidelity_summary,
    grouped,
    median,
    names,
    observations,
    of_kind,
    only,
)
from suites.rows import Quantity, Row, emulated, measured, modelled
from tests.reports.rows_fixture import all_rows, energy


def test_rows_are_found_by_kind_and_settings() -> None:
    found = of_kind(all_rows(), "training", recipe="ufp4", seed=1)
    assert [(row.kind, row.config["recipe"], row.config["seed"]) for row in found] == [
        ("training", "ufp4", 1)
    ]


def test_names_and_groups_keep_their_order_of_appearance() -> None:
    rows = of_kind(all_rows(), "bias")
    assert names(rows, "format") == ["e2m1", "e1m2"]
    assert list(grouped(rows, "hadamard")) == [("none",), ("16",)]


def test_a_median_says_of_what() -> None:
    found = median(
        [emulated(3.0, "dB"), emulated(1.0, "dB"), emulated(None, "dB"), emulated(9, "dB")]
    )
    assert found is not None
    assert (found.value, found.unit, found.note) == (3.0, "dB", "median of 3, from 1 to 9")


def test_a_median_of_one_is_that_one_and_of_none_is_none() -> None:
    alone = Quantity(value=2.0, unit="s", origin="measured", note="kept")
    assert median([alone]) is alone
    assert median([]) is None


def test_a_median_of_diverged_runs_is_diverged() -> None:
    found = median([emulated(float("nan"), ""), emulated(float("nan"), "")])
    assert found is not None and found.status == "diverged"


def test_measured_and_modelled_come_apart() -> None:
    rows = list(energy())
    for origin in ("measured", "modelled"):
        origins = {q.origin for row in only(rows, origin) for q in row.values.values()}
        assert origins == {origin}


def test_a_row_of_both_gives_each_its_own() -> None:
    row = Row(kind="x", values={"a": measured(1, "s"), "b": modelled(2, "s")})
    assert [list(part.values) for part in (only([row], "measured") + only([row], "modelled"))] == [
        ["a"],
        ["b"],
    ]


def test_observations_are_of_the_last_step_and_of_single_layers() -> None:
    found = observations(all_rows())
    assert {row.config["step"] for row in found} == {300}
    assert {row.config["layer"] for row in fidelity_summary(all_rows())} == {"all"}


def test_the_baseline_is_what_training_rows_say() -> None:
    assert baselines([]) == ("bf16",)
    assert baselines([Row(kind="training", facts={"baseline": "fp32"})]) == ("fp32",)
