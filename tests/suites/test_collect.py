"""Collecting run folders: each finished cell once, equal code only, curves rounded."""

from __future__ import annotations

from pathlib import Path

import pytest

from suites.collect import collect
from suites.experiment import Cell
from suites.pretrain import Pretrain
from suites.rows import Row, Series, emulated
from suites.store import open_store, read_run


def make_run(folder: Path, seeds: list[int], code: str = "abc", failed: bool = False) -> Path:
    with open_store(folder) as store:
        store.write_config({"suite": "factorial"})
        store.write_environment({"code_version": code})
        for seed in seeds:
            for recipe in ("bf16", "ufp4"):
                cell = Cell("pretrain", f"{recipe} seed {seed}", {"recipe": recipe, "seed": seed})
                store.append(cell, [row(recipe, seed)], 1.0, "broken" if failed else None)
    return folder


def row(recipe: str, seed: int) -> Row:
    curve = Series(x=[1, 2], y=[4.123456789, None], x_label="step", y_label="loss")
    return Row(
        kind="training",
        config={"recipe": recipe, "seed": seed},
        values={"validation_loss": emulated(4.123456789, "nats/token")},
        facts={"baseline": "bf16"},
        series={"train_loss": curve},
    )


def test_cells_of_all_folders_are_there_once_with_what_follows(tmp_path: Path) -> None:
    parts = [make_run(tmp_path / "a", [0, 1]), make_run(tmp_path / "b", [1, 2])]
    collect(parts, tmp_path / "out", Pretrain())
    run = read_run(tmp_path / "out")
    training = [r for r in run.rows if r.kind == "training"]
    assert len(training) == 2 * 3
    assert training[0].series["train_loss"].y == [4.1235, None]
    assert training[0].quantity("validation_loss").value == 4.123456789
    (comparison,) = [r for r in run.rows if r.kind == "comparison"]
    assert comparison.quantity("seeds").value == 3
    assert run.config == {"suite": "factorial"}


def test_different_code_and_nothing_finished_are_refused(tmp_path: Path) -> None:
    one, other = make_run(tmp_path / "a", [0]), make_run(tmp_path / "b", [1], code="def")
    with pytest.raises(ValueError, match="different code"):
        collect([one, other], tmp_path / "out", Pretrain())
    broken = make_run(tmp_path / "c", [0], failed=True)
    with pytest.raises(ValueError, match="no cell is finished"):
        collect([broken], tmp_path / "out", Pretrain())
    assert not (tmp_path / "out").exists()
