"""Suite files become experiments with settings, or an error that says where."""

from __future__ import annotations

from pathlib import Path

import pytest

from suites.catalog import list_suites, load_experiment, load_suite, resolve_settings
from tests.tiny import Settings, write_suite


def test_every_suite_of_the_library_is_sound() -> None:
    entries = list_suites()
    assert entries
    for entry in entries:
        assert entry.error is None
        assert entry.summary
        suite = load_suite(entry.name)
        experiment = load_experiment(suite.record.experiment)
        for profile in ("cpu", "cuda"):
            resolve_settings(suite, experiment.Settings, profile, [])


def test_settings_are_the_profile_with_assignments_on_top(tmp_path: Path) -> None:
    suite = load_suite(str(write_suite(tmp_path, "training: {steps: 20}")))
    settings = resolve_settings(
        suite, Settings, "cpu", ["seconds=1e-3", "failing=[1, 2]", "cells=2", "training.steps=30"]
    )
    assert settings == Settings(seconds=0.001, failing=[1, 2], cells=2, training={"steps": 30})
    assert resolve_settings(suite, Settings, "cuda", []).training.steps == 10


@pytest.mark.parametrize(
    ("assignment", "words"),
    [
        ("cels=1", "unknown setting 'cels'; did you mean 'cells'?"),
        ("training.stps=1", "unknown setting 'training.stps'; did you mean 'training.steps'?"),
        ("zzz=1", "unknown setting 'zzz'.*known: cells, seconds"),
        ("cells=many", "valid integer"),
        ("cells=[", "not YAML"),
        ("cells", "key=value"),
        ("=1", "key=value"),
        ("training=3", "valid dictionary"),
        ("cells=null", "valid integer"),
    ],
)
def test_a_bad_assignment_is_named(tmp_path: Path, assignment: str, words: str) -> None:
    suite = load_suite(str(write_suite(tmp_path)))
    with pytest.raises(ValueError, match=words) as caught:
        resolve_settings(suite, Settings, "cpu", ["seconds=1", assignment])
    assert assignment in str(caught.value)
    assert "seconds=1" not in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("cells: 5, ", "cels: 5, ", r"tiny.yaml:4:7: cels: unknown key; did you mean 'cells'"),
        ("experiment: tiny", "experiment: tinny", r"tiny.yaml:3:13: .*did you mean 'tiny'"),
        ("name: tiny", "name: other", r"tiny.yaml:1:7: name: must equal"),
        ("summary:", "sumary:", "did you mean 'summary'"),
        ("cuda: {cells: 5}", "cuda: 5", "tiny.yaml:5:7: cuda"),
    ],
)
def test_a_fault_in_a_suite_file_is_placed(tmp_path: Path, old: str, new: str, words: str) -> None:
    path = write_suite(tmp_path)
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(ValueError, match=words):
        resolve_settings(load_suite(str(path)), Settings, "cpu", [])


def test_what_both_profiles_share_lies_under_what_each_sets(tmp_path: Path) -> None:
    path = tmp_path / "tiny.yaml"
    path.write_text(
        "name: tiny\nsummary: s\nexperiment: tiny\n"
        "both: {cells: 3, seconds: 0.5}\ncpu: {cells: 4}\ncuda: {}\n"
    )
    suite = load_suite(str(path))
    assert resolve_settings(suite, Settings, "cpu", []) == Settings(cells=4, seconds=0.5)
    assert resolve_settings(suite, Settings, "cuda", []) == Settings(cells=3, seconds=0.5)


def test_fault_in_what_both_share_is_shown_where_it_stands(tmp_path: Path) -> None:
    path = tmp_path / "tiny.yaml"
    path.write_text(
        "name: tiny\nsummary: s\nexperiment: tiny\nboth:\n  cels: 3\ncpu: {}\ncuda: {}\n"
    )
    with pytest.raises(ValueError, match=r"tiny.yaml:5:3: cels: unknown key; did you mean 'cells'"):
        resolve_settings(load_suite(str(path)), Settings, "cpu", [])
