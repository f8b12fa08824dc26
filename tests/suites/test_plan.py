"""A plan holds everything resolved, and making one writes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from suites.plan import Request, make_plan
from tests.tiny import write_suite


@pytest.fixture
def suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    return str(write_suite(tmp_path))


def test_what_was_asked_for_is_in_the_config(suite: str) -> None:
    request = Request(
        suite,
        formats=("nvfp4",),
        recipes=("ufp4",),
        seeds=2,
        assignments=("cells=3",),
        device="cpu",
    )
    plan = make_plan(request)
    config = plan.config()
    assert (config["suite"], config["experiment"], config["profile"]) == ("tiny", "tiny", "cpu")
    assert (config["formats"], config["recipes"], config["seeds"]) == (["nvfp4"], ["ufp4"], 2)
    assert config["settings"]["cells"] == 3
    assert len(plan.cells) == 6
    assert plan.out == Path("runs/tiny-cpu")


def test_the_hardware_is_part_of_every_key(suite: str, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = set()
    for name in ("one CPU", "another CPU"):
        monkeypatch.setattr("suites.plan.hardware_name", lambda device, name=name: name)
        keys |= {cell.key for cell in make_plan(Request(suite, device="cpu")).cells}
    assert len(keys) == 10


def test_nothing_is_written(suite: str, tmp_path: Path) -> None:
    make_plan(Request(suite, device="cpu", out=tmp_path / "new" / "run"))
    assert [path.name for path in tmp_path.iterdir()] == ["tiny.yaml"]
