"""Bias: the published figures of known tensors, with an error that says how well they are known."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from suites.bias import Bias, BiasSettings
from suites.distributions import DISTRIBUTIONS, draw
from suites.experiment import Context, Selection
from suites.rows import Row


def measure(path: Path, **settings: object) -> dict[tuple[str, str, object], Row]:
    experiment = Bias()
    cells = experiment.cells(BiasSettings(**settings), Selection())  # type: ignore[arg-type]
    context = Context("cpu", "cpu", path, path)
    rows = [row for cell in cells for row in experiment.run(cell, context) if row.kind == "bias"]
    return {(r.config["format"], r.config["distribution"], r.config["hadamard"]): r for r in rows}


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str, object], Row]:
    return measure(
        tmp_path_factory.mktemp("bias"),
        formats=["e2m1", "e1m2", "int4"],
        distributions=["gaussian", "swiglu"],
        hadamards=[1, 16],
    )


@pytest.mark.parametrize(
    ("cell", "sqnr_db"),
    [
        # arXiv:2606.20381: rotation costs E2M1 SQNR and gives it to the uniform grid, here on
        # silu(g) * u with sigma 1.5; the Gaussian figures are of an independent numpy computation.
        (("e2m1", "swiglu", "none"), 21.1),
        (("e2m1", "swiglu", 16), 20.0),
        (("e1m2", "swiglu", "none"), 18.9),
        (("e1m2", "swiglu", 16), 22.9),
        (("e2m1", "gaussian", "none"), 20.53),
        (("e1m2", "gaussian", "none"), 21.39),
    ],
)
def test_sqnr_of_known_tensors(
    rows: dict[tuple[str, str, object], Row], cell: tuple[str, str, object], sqnr_db: float
) -> None:
    assert rows[cell].quantity("sqnr_db").value == pytest.approx(sqnr_db, abs=0.06)


@pytest.mark.parametrize(("name", "gain"), [("e2m1", 0.9959), ("e1m2", 1.0006)])
def test_gain_on_gaussian(rows: dict[tuple[str, str, object], Row], name: str, gain: float) -> None:
    values = rows[name, "gaussian", "none"].values
    error = values["gain_standard_error"].value
    assert error is not None
    assert error < 3e-4
    # The reference, of ten million elements, is given to four digits.
    assert values["gain"].value == pytest.approx(gain, abs=4 * error + 5e-5)


def test_int4_and_e1m2_are_the_same_grid(rows: dict[tuple[str, str, object], Row]) -> None:
    for (name, distribution, size), row in rows.items():
        if name == "int4":
            twin = rows["e1m2", distribution, size]
            assert row.quantity("sqnr_db").value == twin.quantity("sqnr_db").value
            assert row.quantity("gain").value == twin.quantity("gain").value


def test_rotation_fills_the_buckets_of_the_uniform_grid(
    rows: dict[tuple[str, str, object], Row],
) -> None:
    assert rows["e1m2", "swiglu", "none"].quantity("utilisation").value == pytest.approx(
        0.57, abs=0.02
    )
    assert rows["e1m2", "swiglu", 16].quantity("utilisation").value == pytest.approx(0.97, abs=0.02)


def test_standard_error_predicts_how_far_other_samples_lie(tmp_path: Path) -> None:
    cell = ("e2m1", "laplace", "none")
    wanted = {"formats": ["e2m1"], "distributions": ["laplace"], "hadamards": [1], "samples": 8}
    one, other = (measure(tmp_path, **wanted, seed=seed)[cell] for seed in (0, 1))
    gap = abs(one.values["sqnr_db"].value - other.values["sqnr_db"].value)  # type: ignore[operator]
    error = one.values["sqnr_db_standard_error"].value
    assert error is not None
    assert 0 < error < 0.02
    assert 0 < gap < 6 * error


def test_stochastic_rounding_has_no_bias_where_nearest_has(tmp_path: Path) -> None:
    wanted = {"formats": ["e2m1"], "distributions": ["gaussian"], "hadamards": [1]}
    row = measure(tmp_path, **wanted, rounding="stochastic")["e2m1", "gaussian", "none"]
    error = row.values["gain_standard_error"].value
    assert error is not None
    assert abs(row.values["gain"].value - 1) < 6 * error < 0.002  # type: ignore[operator]


@pytest.mark.parametrize(
    ("settings", "selection", "message"),
    [
        ({"hadamards": [12]}, Selection(), "12 is not a power of two"),
        ({"hadamards": [64], "columns": 96}, Selection(), "divides columns 96"),
        ({"formats": ["bf16"]}, Selection(), "high precision"),
        ({"formats": ["e2m2"]}, Selection(), "unknown format 'e2m2'"),
        ({}, Selection(recipes=("ufp4",)), "--recipe"),
    ],
)
def test_bad_settings_are_refused_before_anything_runs(
    settings: dict[str, object], selection: Selection, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        Bias().cells(BiasSettings(**settings), selection)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_draws_are_reproducible_centred_and_of_the_stated_spread(name: str) -> None:
    x = draw(name, (1000, 1000), seed=3)
    assert torch.equal(x, draw(name, (1000, 1000), seed=3))
    assert not torch.equal(x, draw(name, (1000, 1000), seed=4))
    # Medians of |x|: 0.6745 for a normal, ln 2 for Laplace, 0.7649 for t with 3 degrees of freedom.
    medians = {"gaussian": 0.6745, "laplace": 0.6931, "student-t": 0.7649, "outliers": 0.6821}
    if name in medians:
        assert x.abs().median().item() == pytest.approx(medians[name], abs=0.004)
        assert x.median().item() == pytest.approx(0, abs=0.004)
