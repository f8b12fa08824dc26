"""What makes two results the same result."""

from __future__ import annotations

from pathlib import Path

import pytest

from suites import experiment
from suites.experiment import Cell, code_version


def test_the_key_is_the_identity_of_a_result() -> None:
    cell = Cell("tiny", "label", {"a": 1}, ("digest",), "a GPU")
    assert cell.key == Cell("tiny", "another label", {"a": 1}, ("digest",), "a GPU").key
    others = [
        Cell("other", "label", {"a": 1}, ("digest",), "a GPU"),
        Cell("tiny", "label", {"a": 2}, ("digest",), "a GPU"),
        Cell("tiny", "label", {"a": 1}, ("another digest",), "a GPU"),
        Cell("tiny", "label", {"a": 1}, ("digest",), "another GPU"),
    ]
    assert len({cell.key, *(other.key for other in others)}) == 5


def test_a_key_needs_strict_json() -> None:
    with pytest.raises(ValueError):
        _ = Cell("tiny", "label", {"a": float("nan")}).key


def test_the_code_version_follows_numeric_sources_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(experiment, "ROOT", tmp_path)
    for package in ("kernels", "reports"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "a.py").write_text("x = 1")
    version = code_version.__wrapped__()
    (tmp_path / "reports" / "a.py").write_text("x = 2")
    assert code_version.__wrapped__() == version
    for name in ("a.py", "a.c"):
        (tmp_path / "kernels" / name).write_text("x = 2")
        assert code_version.__wrapped__() != version
        version = code_version.__wrapped__()
