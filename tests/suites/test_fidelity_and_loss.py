"""fidelity_and_loss: ranks are those of another library, and figures those of the rows."""

from __future__ import annotations

import math

import pytest
from scipy.stats import spearmanr

from suites.claims import runs_by_recipe
from suites.degradation import summarise_fidelity
from suites.fidelity_and_loss import BIAS, GEMMS, orders, qualities, spearman
from suites.rows import Row, emulated
from tests.suites.study_rows import run


@pytest.mark.parametrize(
    ("a", "b"),
    [([1, 2, 3, 4], [10, 20, 30, 29]), ([1, 1, 2, 5, 5, 5], [3, 2, 2, 9, 8, 8]), ([2, 1], [1, 2])],
)
def test_rank_correlation_is_scipys(a: list[float], b: list[float]) -> None:
    assert spearman(a, b) == pytest.approx(spearmanr(a, b).statistic, abs=1e-12)


def test_a_constant_has_no_order() -> None:
    assert math.isnan(spearman([1, 1, 1], [1, 2, 3]))


def observed(recipe: str, gemm: str, layer: str, gain: float, relative_l2: float) -> Row:
    return Row(
        kind="fidelity",
        config={"recipe": recipe, "seed": 0, "step": 9, "layer": layer, "gemm": gemm,
                "operand": "output"},
        values={"gain": emulated(gain, "1"), "relative_l2": emulated(relative_l2, "1")},
    )  # fmt: skip


def study(**recipes: tuple[float, float, float]) -> list[Row]:
    """Rows of recipes with (loss, gain, relative error); all layers and GEMMs alike but one."""
    rows = [run("bf16", seed, 4.0) for seed in range(3)]
    for recipe, (loss, gain, error) in recipes.items():
        rows += [run(recipe, seed, loss) for seed in range(3)]
        for gemm in GEMMS:
            rows += [observed(recipe, gemm, layer, gain, error) for layer in ("a", "b")]
        rows.append(observed(recipe, "fprop", "c", gain, 2 * error))
    return rows


def test_sqnr_comes_from_the_mean_squared_error_over_layers() -> None:
    rows = study(ufp4=(4.04, 0.99, 0.1))
    (found,) = qualities(rows, runs_by_recipe(rows), "bf16")
    assert found.loss == pytest.approx(1.0)
    assert found.sqnr["dgrad"] == pytest.approx(20)
    assert found.sqnr["fprop"] == pytest.approx(20 - 10 * math.log10(2))  # (1 + 1 + 4) / 3
    assert found.bias == pytest.approx(0.01)


def test_rows_that_sum_up_over_layers_do_not_count_once_more() -> None:
    rows = study(ufp4=(4.04, 0.99, 0.1))
    summed = summarise_fidelity(rows)
    assert summed and qualities([*rows, *summed], runs_by_recipe(rows), "bf16") == qualities(
        rows, runs_by_recipe(rows), "bf16"
    )


def test_noise_orders_recipes_here_and_bias_the_other_way_round() -> None:
    rows = study(c=(4.3, 1.0, 0.3), a=(4.1, 0.97, 0.1), b=(4.2, 1.01, 0.2))
    found = qualities(rows, runs_by_recipe(rows), "bf16")
    assert [quality.recipe for quality in found] == ["a", "b", "c"]
    correlation = orders(found)
    assert correlation["SQNR of wgrad"] == pytest.approx(-1)
    assert correlation[BIAS] == pytest.approx(-1)


def test_a_recipe_without_a_run_or_without_all_gemms_is_left_out() -> None:
    rows = study(a=(4.1, 1.0, 0.1))
    assert qualities(rows, runs_by_recipe(rows[:3]), "bf16") == []
    some = [row for row in rows if row.config.get("gemm") != "wgrad"]
    assert qualities(some, runs_by_recipe(some), "bf16") == []
