"""Describing a record tells what follows from its facts."""

from __future__ import annotations

from pathlib import Path

import pytest

from formats import list_formats, list_recipes, load_format, load_recipe
from suites.describe import describe, describe_format, describe_recipe


@pytest.mark.parametrize("name", [entry.name for entry in list_formats()])
def test_every_format_of_the_library(name: str) -> None:
    text = describe_format(load_format(name))
    assert name in text and "bits per element" in text


@pytest.mark.parametrize("name", [entry.name for entry in list_recipes()])
def test_every_recipe_of_the_library(name: str) -> None:
    text = describe_recipe(load_recipe(name))
    assert all(operand in text for operand in ("x.fprop", "w.dgrad", "dy.wgrad"))


def lines_of(text: str) -> dict[str, list[str]]:
    """The cells of each line by its first."""
    cells = (line.split() for line in text.splitlines() if line)
    return {first: rest for first, *rest in cells}


def test_codes_with_values_and_midpoints() -> None:
    lines = lines_of(describe("e2m1"))
    assert lines["0"] == ["0000", "0", "0.25"]
    assert lines["6"] == ["0110", "4", "5"]
    assert lines["7"] == ["0111", "6"]
    assert lines["8"] == ["1000", "-0", "0.25"]
    assert lines["15"] == ["1111", "-6", "-5"]
    assert lines_of(describe("int4"))["8"] == ["1000", "unused"]


@pytest.mark.parametrize(
    ("name", "gain", "sqnr"),
    [("e2m1", 0.9959, 20.53), ("e1m2", 1.0006, 21.39), ("int4", 1.0006, 21.39)],
)
def test_gaussian_figures_are_the_published_ones(name: str, gain: float, sqnr: float) -> None:
    """Gain and SQNR of arXiv:2606.20381, block 16 with one FP32 scale."""
    lines = describe(name).splitlines()
    figures = {line.split()[0]: line.split() for line in lines if "on Gaussian data" in line}
    assert float(figures["gain"][-1]) == pytest.approx(gain, abs=5e-4)
    assert float(figures["SQNR"][-2]) == pytest.approx(sqnr, abs=0.02)


def test_a_file_is_described_by_what_it_holds(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("name: mine\nformat: nvfp4\n")
    assert "recipe" in describe(str(tmp_path / "mine.yaml"))
    (tmp_path / "grid.yaml").write_text(
        "name: grid\nelement: {values: [0, 1, 2]}\nblock: 16\nscale: {format: fp32, rule: amax}\n"
    )
    assert "bits per element" in describe(str(tmp_path / "grid.yaml"))
