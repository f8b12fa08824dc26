"""What the smaller sections draw from rows: each draws all of its points, and nothing else."""

from __future__ import annotations

import pytest

from reports.section import Figure, Section, Sentences
from reports.sections import (
    circuits,
    depth,
    devices,
    fidelity,
    grids,
    pareto,
    rotation,
    second_grid,
)
from reports.table import Cell
from suites.rows import Row, modelled
from tests.reports.rows_fixture import LAYERS, all_rows

ROWS = all_rows()


def figure_of(section: Section, id: str) -> Figure:
    return next(p for p in section.parts if isinstance(p, Figure) and p.id == id)


@pytest.mark.parametrize(
    "module", [circuits, depth, devices, fidelity, grids, pareto, rotation, second_grid]
)
def test_without_rows_there_is_no_section(module: object) -> None:
    section = module.section([])  # type: ignore[attr-defined]
    assert not section
    assert section.needs.startswith("--suite")


def test_fidelity_has_a_mark_per_layer_gemm_and_recipe() -> None:
    figure = figure_of(fidelity.section(ROWS), "layers-gain")
    assert len(figure.data) == 3 * 3
    assert all(len(trace["x"]) == len(LAYERS) for trace in figure.data)
    assert len(figure.table.rows) == 3 * len(LAYERS)


def test_rotation_goes_from_an_open_mark_to_a_filled_one() -> None:
    figure = figure_of(rotation.section(ROWS), "rotation-sqnr_db")
    trace = next(t for t in figure.data if t["name"] == "e1m2" and t["xaxis"] == "x2")
    assert trace["x"] == [18.88, 22.89]
    assert [symbol.endswith("-open") for symbol in trace["marker"]["symbol"]] == [True, False]


def test_depth_draws_the_law_beside_the_observation() -> None:
    figure = figure_of(depth.section(ROWS), "depth")
    assert [trace["mode"] for trace in figure.data[:2]] == ["lines+markers", "lines"]
    assert figure.table.all_origins() == ("emulated", "modelled")


def test_grid_bins_tile_the_number_line_and_hold_their_level() -> None:
    figure = figure_of(grids.section(ROWS), "grids")
    bars = [trace for trace in figure.data if trace["type"] == "bar"]
    marks = [trace for trace in figure.data if trace["type"] == "scatter"]
    for bar, mark in zip(bars, marks, strict=True):
        ends = [base + width for base, width in zip(bar["base"], bar["x"], strict=True)]
        assert bar["base"][0] == 0 and ends[-1] == pytest.approx(1)
        assert bar["base"][1:] == pytest.approx(ends[:-1])
        for low, level, high in zip(bar["base"], mark["x"], ends, strict=True):
            assert low <= level <= high + 1e-12


def test_a_grid_with_more_negative_levels_than_positive_ones_is_drawn() -> None:
    levels = [-8.0, -4.0, -2.0, -1.0, 0.0, 1.0, 3.0]
    midpoints = [(a + b) / 2 for a, b in zip(levels, levels[1:], strict=False)]
    row = Row(
        kind="grid", config={"format": "odd"}, facts={"levels": levels, "midpoints": midpoints}
    )
    bar = figure_of(grids.section([row]), "grids").data[0]
    assert bar["base"] == pytest.approx([0, 0.5 / 3, 2 / 3])


def test_pareto_marks_the_front_by_filling() -> None:
    figure = figure_of(pareto.section(ROWS), "pareto")
    filled = {trace["text"][0]: "open" not in trace["marker"]["symbol"] for trace in figure.data}
    assert filled == {"e2m1-ref": False, "ufp4": True, "nvfp4": True}
    assert len(figure.data) == 9
    assert "modelled" in figure.data[0]["hovertext"][0]


def test_pareto_shows_a_recipe_once_however_many_devices_there_are() -> None:
    more = [
        row.model_copy(update={"config": {**row.config, "device": "H200"}})
        for row in ROWS
        if row.kind == "codesign"
    ]
    assert len(figure_of(pareto.section([*ROWS, *more]), "pareto").data) == 9


def test_pareto_uses_signal_where_no_loss_is_known() -> None:
    rows = [
        row.model_copy(
            update={"values": {n: q for n, q in row.values.items() if n != "loss_degradation"}}
        )
        for row in ROWS
    ]
    figure = figure_of(pareto.section(rows), "pareto")
    assert figure.layout["yaxis"]["title"]["text"] == "SQNR (dB)"
    assert figure.note.startswith("Up and to the left is better.")


def test_measured_and_modelled_stand_in_separate_tables() -> None:
    tables = [part for part in devices.section(ROWS).parts if not isinstance(part, Figure)]
    by_id = {table.id: table.all_origins() for table in tables}  # type: ignore[union-attr]
    assert by_id["throughput-modelled"] == by_id["energy-modelled"] == ("modelled",)
    assert by_id["throughput-measured"] == by_id["energy-measured"] == ("measured",)


def test_what_a_device_cannot_do_is_said_with_the_reason() -> None:
    row = Row(
        kind="throughput",
        config={"device": "h200", "model": "m", "recipe": "nvfp4", "gemm": "step"},
        values={"time_us": modelled(None, "us", "no FP4 rate")},
    )
    (table,) = devices.section([row]).parts
    cell = table.rows[0][-1]  # type: ignore[union-attr]
    assert (cell.text, cell.note) == ("unavailable", "no FP4 rate")


def test_circuit_parts_stack_up_and_totals_stay_in_the_table() -> None:
    figure = figure_of(circuits.section(ROWS), "circuit-area")
    assert {trace["name"] for trace in figure.data} == {
        "decode",
        "product",
        "accumulate",
        "scale",
        "fp32",
    }
    assert {row[1].text for row in figure.table.rows} >= {"total"}


def test_the_cost_of_a_second_grid_comes_in_words_first() -> None:
    first = second_grid.section(ROWS).parts[0]
    assert isinstance(first, Sentences)
    name, _, added, library, *others = first.items[0]
    assert isinstance(added, Cell) and added.origin == "modelled"
    assert name == "A unit for e2m1+e1m2 is larger than one for E2M1 alone by"
    assert (added.text, library) == ("3.7", " % (osu018)")
    assert sum(isinstance(other, Cell) for other in others) == 1 and others[-1] == "."
