"""Verdicts: what is resolved, what is not, and what diverged."""

from __future__ import annotations

import math

import pytest

from suites.degradation import compare_pair, compare_recipes, loss_of, summarise_fidelity
from suites.rows import Row, Series, emulated, measured


def run(recipe: str, seed: int, loss: float, seconds: float = 1.0) -> Row:
    return Row(
        kind="training",
        status="diverged" if math.isnan(loss) else "ok",
        config={"recipe": recipe, "seed": seed},
        values={
            "validation_loss": emulated(loss, "nats/token"),
            "tail_train_loss": emulated(loss, "nats/token"),
            "step_seconds": measured(seconds, "s"),
        },
        facts={"baseline": "bf16"},
    )


def compare(losses: list[float], references: list[float]) -> Row:
    runs = {seed: run("ufp4", seed, loss, 3.0) for seed, loss in enumerate(losses)}
    others = {seed: run("bf16", seed, loss, 2.0) for seed, loss in enumerate(references)}
    return compare_pair(runs, others, "validation_loss")


def test_paired_seeds_resolve_what_unpaired_ones_could_not() -> None:
    row = compare([4.04, 5.05, 6.06], [4.0, 5.0, 6.0])  # 1 % each, seeds apart by half
    assert row.facts["verdict"] == "worse"
    assert row.quantity("degradation_percent").value == pytest.approx(1.0)
    assert row.quantity("smallest_resolvable").value == pytest.approx(0.0, abs=1e-9)


def test_interval_is_students_over_the_differences() -> None:
    row = compare([101, 102, 103], [100, 100, 100])  # 1, 2, 3 %: s = 1
    half = 4.3027 / math.sqrt(3)
    assert row.quantity("ci_low").value == pytest.approx(2 - half, abs=1e-3)
    assert row.quantity("ci_high").value == pytest.approx(2 + half, abs=1e-3)
    assert row.quantity("smallest_resolvable").value == pytest.approx(half, abs=1e-3)
    assert row.facts["verdict"] == "not resolved"
    assert "includes zero" in row.facts["reason"]


def test_less_loss_is_better() -> None:
    assert compare([3.9, 3.91, 3.9], [4.0, 4.0, 4.0]).facts["verdict"] == "better"


@pytest.mark.parametrize("seeds", [1, 2])
def test_few_seeds_resolve_nothing_however_large_the_gap(seeds: int) -> None:
    row = compare([8.0] * seeds, [4.0] * seeds)
    assert row.facts["verdict"] == "not resolved"
    assert row.quantity("degradation_percent").value == pytest.approx(100)
    assert row.quantity("ci_low").status == "not_resolved"
    assert row.quantity("ci_low").value is None


def test_only_seeds_that_both_have_are_paired() -> None:
    row = compare([4.0, 4.0, 4.0, 9.0], [4.0, 4.0, 4.0])
    assert row.quantity("seeds").value == 3
    assert row.quantity("degradation_percent").value == 0.0


def test_divergence_at_every_seed_is_worse_and_at_some_seeds_biases_the_rest() -> None:
    nan = math.nan
    assert compare([nan] * 3, [4.0] * 3).facts["verdict"] == "worse"
    some = compare([nan, 4.1, 4.1, 4.1], [4.0] * 4)
    assert some.facts["verdict"] == "not resolved"
    assert "[0]" in some.facts["reason"]
    assert compare([4.0] * 3, [nan] * 3).facts["verdict"] == "not resolved"


def test_step_time_is_compared_seed_by_seed() -> None:
    assert compare([4.0], [4.0]).quantity("step_ratio").value == pytest.approx(1.5)


def test_every_pair_is_compared_once_and_the_baseline_is_never_the_compared() -> None:
    rows = [run(recipe, 0, 4.0) for recipe in ("ufp4", "nvfp4", "bf16")]
    pairs = [(row.config["recipe"], row.config["baseline"]) for row in compare_recipes(rows)]
    assert sorted(set(pairs)) == [("nvfp4", "bf16"), ("nvfp4", "ufp4"), ("ufp4", "bf16")]
    assert len(pairs) == 2 * 3  # those two of the metrics that the rows have


def test_fidelity_is_averaged_over_layers_and_steps_for_each_operand() -> None:
    rows = [
        Row(
            kind="fidelity",
            config={"recipe": "ufp4", "seed": 0, "step": step, "layer": layer, "gemm": "fprop",
                    "operand": "output"},
            values={"gain": emulated(gain, ""), "utilisation": emulated(None, "")},
        )
        for step, layer, gain in [(0, "a", 0.9), (0, "b", 1.0), (9, "a", 1.1), (9, "b", 1.2)]
    ]  # fmt: skip
    (summary,) = summarise_fidelity(rows)
    assert summary.config["layer"] == summary.config["step"] == "all"
    assert summary.quantity("gain").value == pytest.approx(1.05)
    assert summary.quantity("utilisation").status == "unavailable"


def test_tails_are_means_of_the_last_steps_and_are_compared_with_the_baseline_only() -> None:
    curves = {"bf16": 4.0, "e2m1-ref": 4.1, "ufp4": 4.2}
    rows = [
        run(recipe, seed, loss).model_copy(
            update={"series": {"train_loss": curve([9.0] * 60 + [loss] * 40)}}
        )
        for recipe, loss in curves.items()
        for seed in range(3)
    ]
    found = [r for r in compare_recipes(rows) if r.config["metric"] == "train_loss_last_40_percent"]
    assert [(r.config["recipe"], r.config["baseline"]) for r in found] == [
        ("e2m1-ref", "bf16"),
        ("ufp4", "bf16"),
    ]
    assert found[1].quantity("degradation_percent").value == pytest.approx(5.0)
    assert loss_of(rows[0], "train_loss_last_40_percent") == pytest.approx(4.0)


def test_tail_with_a_hole_or_without_a_curve_is_not_known() -> None:
    row = run("bf16", 0, 4.0)
    assert loss_of(row, "train_loss_last_5_percent") is None
    holed = row.model_copy(update={"series": {"train_loss": curve([4.0] * 19 + [math.nan])}})
    assert loss_of(holed, "train_loss_last_5_percent") is None


def curve(losses: list[float]) -> Series:
    steps = [float(step) for step in range(len(losses))]
    return Series(x=steps, y=losses, x_label="step", y_label="loss")
