import time

import pytest

from suites import circuit_rows
from suites.experiment import Context, Selection
from suites.hardware import Hardware, HardwareSettings, model_shape

FORMATS = ("e2m1", "e1m2", "int4", "nvfp4")
FREE = """
name: free
summary: eight magnitudes that no table has
element: {values: [0, 1, 2, 3, 4, 5, 7, 9]}
block: 16
scale: {format: e4m3}
source: a test
"""


def run(settings=None, formats=FORMATS, recipes=()):
    experiment = Hardware()
    cells = experiment.cells(settings or HardwareSettings(), Selection(formats, recipes))
    context = Context("cpu", "cpu", None, None)
    return [row for cell in cells for row in experiment.run(cell, context)]


def test_everything_in_less_than_ten_seconds_and_nothing_zero():
    started = time.perf_counter()
    rows = run()
    assert time.perf_counter() - started < 10
    assert {row.kind for row in rows} == {
        "device", "throughput", "energy", "area", "circuit", "grid",
    }  # fmt: skip
    for row in rows:
        for name, quantity in row.values.items():
            assert quantity.value != 0, (row.kind, row.config, name)
            beside = "measured beside model" in str(row.config.get("gemm")) and name == "time_us"
            assert quantity.origin in (("measured",) if beside else ("modelled", "published"))
            assert quantity.value is not None or quantity.note


def test_both_activities_and_their_source_are_shown():
    (row,) = (
        row
        for row in run(formats=("nvfp4",))
        if row.kind == "circuit" and row.config.get("part") == "dot"
        if (row.config["format"], row.config["library"]) == ("nvfp4", "osu018")
    )
    assert row.values["energy_fj_per_mac"].value < row.values["uniform_fj_per_mac"].value
    assert "step" in row.facts["activity"] and "vectors" in row.facts["checks"]
    assert row.facts["tool"].startswith("pyosys") and row.facts["corner"] == "1.8 V, 25 C"


def test_uniform_grids_have_a_rate_only_if_built():
    rows = [row for row in run(formats=("e1m2",)) if row.kind == "throughput"]
    paths = {
        (row.config["device"], tuple(row.facts["path"]))
        for row in rows
        if row.config.get("recipe") == "e1m2"
    }
    assert ("b200", ("emulated",)) in paths and ("b200-uniform", ("native",)) in paths
    what_if = next(row for row in rows if row.config["device"] == "b200-uniform")
    assert "if built" in what_if.values["time_us"].note


def test_the_model_is_shown_beside_every_measured_time_and_worst_of_all():
    rows = [row for row in run(formats=("e2m1",)) if "modelled_us" in row.values]
    heads = [str(row.config["gemm"]) for row in rows]
    assert {head.split(",")[0] for head in heads} >= {"copy", "gemm", "layer", "step"}
    worst = {head: row for head, row in zip(heads, rows, strict=True) if head.startswith("worst")}
    assert len(worst) == 3
    for row in worst.values():
        missed = abs(row.values["error_percent"].value) > int(row.facts["target"].split("%")[0])
        assert row.facts["target"].endswith("missed" if missed else "reached")


def test_a_device_without_the_rate_is_unavailable_with_a_reason():
    rows = run(HardwareSettings(devices=["mi455x"], models=["dense-1.5b"]), ("nvfp4",))
    (row,) = (r for r in rows if r.kind == "throughput" and r.config.get("format") == "nvfp4")
    assert row.values["time_us"].status == "unavailable"
    assert "no bf16 rate" in row.values["time_us"].note


def test_a_grid_that_nobody_priced_says_how_to(tmp_path, monkeypatch):
    path = tmp_path / "free.yaml"
    path.write_text(FREE)
    monkeypatch.setattr(circuit_rows, "can_synthesise", lambda: False)
    rows = [row for row in run(formats=(str(path),)) if row.config.get("format") == "free"]
    circuits = [row for row in rows if row.kind == "circuit"]
    assert circuits and all(row.values["area_um2"].status == "unavailable" for row in circuits)
    assert "gridbench[synth]" in circuits[0].values["area_um2"].note


def test_a_grid_that_nobody_priced_is_synthesised_where_that_is_possible(tmp_path):
    if not circuit_rows.can_synthesise():
        pytest.skip("needs qflow-tech-osu018 and pyosys")
    path = tmp_path / "free.yaml"
    path.write_text(FREE)
    rows = [row for row in run(formats=(str(path),)) if row.config.get("format") == "free"]
    priced = [r for r in rows if r.kind == "circuit" and r.config["library"] == "osu018"]
    assert {row.config["part"] for row in priced} == {"dot", "scale", "accumulate", "total"}


@pytest.mark.parametrize(
    ("settings", "formats", "message"),
    [
        ({"devices": ["b2000"]}, FORMATS, "unknown device 'b2000'; did you mean 'b200'"),
        ({"models": ["dense-1.5"]}, FORMATS, "did you mean 'dense-1.5b'"),
        ({"energies": ["tsmc"]}, FORMATS, "unknown energy class 'tsmc'"),
        ({"liberty": "nowhere.lib"}, FORMATS, "nowhere.lib: no such Liberty file|is not installed"),
        ({}, ("mxfp8",), "256 codes; circuits are generated for at most 16"),
    ],
)
def test_bad_input_is_refused_before_anything_runs(settings, formats, message):
    with pytest.raises(ValueError, match=message) as raised:
        Hardware().cells(HardwareSettings(**settings), Selection(formats))
    assert "\n" not in str(raised.value)


def test_the_suites_own_models_are_shapes_too():
    small = model_shape("small-moe")
    assert (small.experts, small.top_k, small.sequence) == (8, 2, 256)
