import json

import pytest

from suites.codesign import (
    Codesign,
    CodesignSettings,
    dominates,
    find_recipe,
    mark_front,
    recipes_in,
)
from suites.experiment import Context, Selection
from suites.rows import Row, emulated, modelled


def quality_run(folder, losses, sqnr):
    """A run folder with the rows that codesign reads."""
    rows = [
        Row(
            kind="comparison",
            config={"recipe": recipe, "baseline": "bf16", "metric": "validation_loss"},
            values={"degradation_percent": emulated(loss, "%")},
        )
        for recipe, loss in losses.items()
    ]
    rows += [
        Row(
            kind="fidelity",
            config={"recipe": recipe, "layer": layer, "gemm": "fprop", "operand": "output"},
            values={"sqnr_db": emulated(db + shift, "dB")},
        )
        for recipe, db in sqnr.items()
        for layer, shift in (("a", -1), ("b", 1))
    ]
    folder.mkdir()
    (folder / "results.jsonl").write_text("")
    summary = {
        "status": "ok",
        "cells": [],
        "derived": [row.model_dump(mode="json") for row in rows],
    }
    (folder / "summary.json").write_text(json.dumps(summary))
    return folder


def run(folder, **settings):
    settings = CodesignSettings(quality=[str(folder)], libraries=["osu018"], **settings)
    (cell,) = Codesign().cells(settings, Selection())
    return list(Codesign().run(cell, Context("cpu", "cpu", None, None)))


def test_quality_and_cost_stand_in_one_row(tmp_path):
    folder = quality_run(tmp_path / "run", {"nvfp4": 1.2, "nvint4-ufp4": 0.9}, {"nvfp4": 17.0})
    rows = run(folder, devices=["b200"])
    assert [row.config["recipe"] for row in rows] == ["nvfp4", "nvint4-ufp4"]
    nvfp4 = rows[0]
    assert nvfp4.values["loss_degradation"].value == 1.2
    assert nvfp4.values["sqnr_db"].value == pytest.approx(17.0)
    assert {nvfp4.values[name].origin for name in ("area", "energy", "step_time")} == {"modelled"}
    assert nvfp4.values["loss_degradation"].origin == "emulated"
    assert nvfp4.facts["quality"] == "loss_degradation"
    # On a B200 the integer grid is emulated: better and slower, so both are on the front.
    assert [row.facts["on_front"] for row in rows] == [True, True]


def test_a_quality_run_that_went_on_is_joined_anew(tmp_path):
    def key(folder):
        settings = CodesignSettings(quality=[str(folder)], libraries=["osu018"])
        return Codesign().cells(settings, Selection())[0].key

    folder = quality_run(tmp_path / "run", {"nvfp4": 1.2}, {})
    before = key(folder)
    assert key(folder) == before
    summary = folder / "summary.json"
    summary.write_text(summary.read_text().replace("1.2", "1.3"))
    assert key(folder) != before


def test_sqnr_stands_in_where_losses_are_missing(tmp_path):
    rows = run(
        quality_run(tmp_path / "run", {}, {"nvfp4": 17.0, "nvint4-ufp4": 18.0}), devices=["b200"]
    )
    assert {row.facts["quality"] for row in rows} == {"sqnr_db"}


def point(loss, area, energy=1.0, time=1.0):
    values = {"loss_degradation": emulated(loss, "%"), "area": modelled(area, "um2")}
    values |= {"energy": modelled(energy, "fJ"), "step_time": modelled(time, "ms")}
    return Row(kind="codesign", config={"device": "d", "library": "l"}, values=values)


def test_the_front_is_what_nothing_dominates():
    marked = mark_front([point(1.0, 5.0), point(2.0, 4.0), point(2.0, 5.0), point(1.0, 5.0)])
    assert [row.facts["on_front"] for row in marked] == [True, True, False, True]


def test_a_point_without_a_number_is_not_compared():
    lacking = point(0.1, 1.0).model_copy(update={"values": {**point(0.1, 1.0).values}})
    lacking.values["area"] = modelled(None, "um2", "no circuit")
    first, second = mark_front([lacking, point(1.0, 5.0)])
    assert first.facts["on_front"] is False and "no area" in first.facts["reason"]
    assert second.facts["on_front"] is True


def test_dominance_needs_something_better():
    assert not dominates((1, 1), (1, 1))
    assert dominates((1, 1), (1, 2)) and not dominates((1, 2), (2, 1))


def test_names_of_rows_become_recipes():
    assert find_recipe("ufp4", {}).name == "ufp4"
    assert find_recipe("ufp4+nvint4", {}).name == "ufp4+nvint4"
    assert find_recipe("mxint4", {}).operands["x.fprop"].hadamard is None


def test_recipes_written_on_the_spot_are_found_in_the_run():
    known = recipes_in(["results/ufp4-replication"])
    rotated = find_recipe("e2m1-rht-all", known)
    assert rotated.operands["x.fprop"].hadamard == 16


def test_a_committed_run_gives_a_front():
    rows = run("results/ufp4-replication", devices=["b200-uniform"])
    named = {row.config["recipe"] for row in rows}
    assert {"e2m1-ref", "ufp4", "e2m1-rht-all"} <= named and "bf16" not in named
    assert any(row.facts["on_front"] for row in rows)


@pytest.mark.parametrize(
    ("quality", "message"),
    [([], "--set quality="), (["nowhere"], "nowhere: not a run folder")],
)
def test_no_quality_run_is_an_error(quality, message):
    with pytest.raises(ValueError, match=message):
        Codesign().cells(CodesignSettings(quality=quality, libraries=["osu018"]), Selection())


def test_a_run_without_quality_is_an_error(tmp_path):
    with pytest.raises(ValueError, match="no recipe with a loss or an SQNR"):
        run(quality_run(tmp_path / "run", {}, {}))
