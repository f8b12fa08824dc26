from __future__ import annotations

import pytest

from reports.sections.bias_or_noise import bias_or_noise_figure
from tests.reports.rows_fixture import RECIPES, comparison, fidelity, training


def test_each_recipe_stands_at_its_loss_over_gain_and_over_sqnr() -> None:
    figure = bias_or_noise_figure([*training(), *comparison(), *fidelity()])
    assert figure is not None
    marks = {(mark["name"], mark["xaxis"]): mark for mark in figure.data}
    recipes = {name for name, _ in marks}
    assert recipes == set(RECIPES) - {"bf16"} and len(marks) == 2 * len(recipes)
    for recipe in recipes:
        gain, sqnr = (marks[recipe, axis]["x"][0] for axis in ("x", "x2"))
        assert gain == pytest.approx(RECIPES[recipe][1], abs=0.01)
        assert sqnr == pytest.approx(RECIPES[recipe][2], abs=3)
        assert marks[recipe, "x"]["y"] == marks[recipe, "x2"]["y"]
    assert [row[0].text for row in figure.table.rows] == [mark["name"] for mark in figure.data[:3]]


def test_without_losses_or_without_fidelity_there_is_nothing_to_compare() -> None:
    assert bias_or_noise_figure(list(fidelity())) is None
    assert bias_or_noise_figure([*training(), *comparison()]) is None
