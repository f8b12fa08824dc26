"""replication: the committed page follows from the committed rows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from suites.catalog import load_suite, resolve_settings
from suites.claims import load_study, runs_by_recipe
from suites.degradation import compare_pair
from suites.experiment import Device
from suites.pretrain import Pretrain
from suites.pretrain_settings import PretrainSettings
from suites.recipes import build_recipe, recipe_sources
from suites.replication import (
    FROM_SCRATCH,
    PAGE,
    README,
    RESULTS,
    committed_rows,
    page,
    readme,
    rows_from_scratch,
)
from suites.replication_tables import depth_table, results_table, starts_table
from suites.rows import Row, emulated
from suites.store import read_run
from tests.suites.study_rows import runs

COMMITTED = pytest.mark.skipif(not RESULTS.is_dir(), reason="the study has not been run yet")


def test_results_stand_beside_the_papers() -> None:
    found = runs(bf16=[4.0] * 3, ufp4=[4.04, 4.05, 4.04])
    (line,) = [x for x in results_table(load_study(), found).splitlines() if "| ufp4 " in x]
    expected = compare_pair(found["ufp4"], found["bf16"], "validation_loss")
    mean = expected.quantity("degradation_percent").value
    assert f"{mean:+.2f} [" in line
    assert "0.97 / 1.85 / 1.39" in line and "2,000,000" in line and "9.0" in line


def test_every_recipe_of_the_study_is_in_a_suite_and_every_claim_among_its_lines() -> None:
    names = set()
    for suite in ("factorial", "ablation-rht", "ablation-sr"):
        for profile in ("cpu", "cuda"):
            settings = resolve_settings(load_suite(suite), PretrainSettings, profile, [])
            assert isinstance(settings, PretrainSettings)
            sources = recipe_sources(settings.recipes, (), ())
            names |= {build_recipe(source).name for source in sources}
            assert set(settings.core) <= names
    study = load_study()
    lines = {line.recipe for line in study.lines}
    assert lines <= names
    assert {r for c in (*study.claims, *study.questions) for r in (c.recipe, c.than)} <= lines


@pytest.mark.parametrize("profile", ["cpu", "cuda"])
def test_suites_of_the_study_train_alike_so_that_common_cells_are_run_once(profile: Device) -> None:
    suites = ("factorial", "ablation-rht", "ablation-sr")
    found = [resolve_settings(load_suite(s), PretrainSettings, profile, []) for s in suites]
    assert len({each.run_digest for each in found if isinstance(each, PretrainSettings)}) == 1


def test_page_and_readme_hold_the_tables() -> None:
    rows = [r for seeds in runs(bf16=[4.0] * 3, ufp4=[4.1] * 3).values() for r in seeds.values()]
    text = page(rows)
    assert "6 runs, 0 of them" in " ".join(text.split())
    assert "| ufp4 " in text and "{{" not in text
    assert "Through depth" not in text and "Parting at" not in text
    assert "* not run: UFP4 trains better than the E2M1 reference; " in text
    assert "Parting at the first step" not in page(rows, rows)
    once = readme("before\n<!-- table -->\nafter\n", rows)
    assert once.startswith("before\n<!-- table -->\n| claim or question") and once.endswith(
        "after\n"
    )
    assert readme(once, rows) == once


def test_two_studies_stand_side_by_side_where_both_ran_a_pair() -> None:
    later = runs(ufp4=[3.9, 3.9, 3.91], e2m1_ref=[4.0] * 3, ufp4_no_sr=[4.0] * 3)
    first = runs(ufp4=[3.8, 4.1], e2m1_ref=[4.0] * 2)
    table = starts_table(load_study(), later, first)
    assert table.count("\n") == 2 and "| ufp4 with e2m1-ref | -2.42 [" in table
    assert starts_table(load_study(), later, {}) == ""


def test_depth_is_that_of_the_last_layer() -> None:
    rows = [
        Row(
            kind="depth",
            config={
                "network": "stack", "signal": "layer", "recipe": "ufp4", "layer": layer,
                "direction": "forward, stack: layer", "seed": 0,
            },
            values={"gain": emulated(1.0 - layer / 10, "")},
        )
        for layer in (1, 2)
    ]  # fmt: skip
    assert "0.8000" in depth_table(rows) and "0.9000" not in depth_table(rows)
    assert depth_table([]) == ""


@COMMITTED
def test_committed_page_is_what_the_committed_rows_give() -> None:
    rows = committed_rows()
    assert PAGE.read_text() == page(rows, rows_from_scratch())
    assert readme(README.read_text(), rows) == README.read_text()


@COMMITTED
@pytest.mark.parametrize("folder", [RESULTS, FROM_SCRATCH], ids=lambda folder: folder.name)
def test_committed_summary_is_what_the_rows_derive(folder: Path) -> None:
    """So that `bench.py --report results/ufp4-replication` shows the figures of the page."""
    found = read_run(folder)
    derived = [json.loads(json.dumps(row)) for row in found.summary["derived"]]
    raw = found.rows[: len(found.rows) - len(derived)]
    again = [row.model_dump(mode="json") for row in Pretrain().derive(raw)]
    assert again == derived


@COMMITTED
def test_committed_runs_of_a_seed_are_one_run_until_they_part() -> None:
    """Equal weights, batches and order for every recipe, on whatever GPU a cell was run."""
    runs_of = runs_by_recipe(committed_rows())
    for seeds in runs_of.values():
        for seed, row in seeds.items():
            shared = int(row.config["high_precision_steps"])
            found, first = (each.series["train_loss"].y for each in (row, runs_of["bf16"][seed]))
            assert found[:shared] == first[:shared] and shared > 0
            assert found[shared:] != first[shared:] or row.config["recipe"] == "bf16"
