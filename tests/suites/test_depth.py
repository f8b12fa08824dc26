"""depth: which cells there are, and rows that the report draws."""

from __future__ import annotations

from pathlib import Path

import pytest

from suites.depth import Depth
from suites.depth_settings import DepthSettings
from suites.experiment import Context, Selection

SETTINGS = DepthSettings(networks=["stack", "decoder"], layers=2, width=32, tokens=64, seeds=1)


def test_one_cell_per_network_recipe_and_seed() -> None:
    cells = Depth().cells(SETTINGS, Selection(seeds=2))
    assert len(cells) == len({cell.key for cell in cells}) == 2 * 2 * 2


def test_high_precision_is_refused() -> None:
    with pytest.raises(ValueError, match="'bf16' quantises nothing"):
        Depth().cells(SETTINGS, Selection(recipes=("bf16",)))


def test_rows_are_layers_by_signal_and_direction(tmp_path: Path) -> None:
    context = Context("cpu", "cpu", tmp_path, tmp_path)
    (stack, decoder) = Depth().cells(SETTINGS, Selection(recipes=("ufp4",)))
    rows = list(Depth().run(stack, context))
    assert [row.config["layer"] for row in rows] == [1, 1, 2, 2]
    assert {row.config["direction"] for row in rows} == {
        "forward, stack: layer",
        "backward, stack: layer",
    }
    assert len(list(Depth().run(decoder, context))) == 2 * 2 * 3
