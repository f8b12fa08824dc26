"""Timing cannot be fooled: nothing is timed that is wrong, too fast, too short, or not there."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from suites import kernel_rows
from suites.catalog import load_experiment, load_suite, resolve_settings
from suites.experiment import Context, Selection
from suites.kernel_cases import make_case
from suites.kernel_rows import check_floor
from suites.kernel_speed import KernelSpeed, KernelSpeedSettings
from suites.timing import Timing, measure

CPU = torch.device("cpu")
SMALL = KernelSpeedSettings(
    formats=["nvfp4"],
    recipes=["ufp4"],
    variants=["rht+stochastic"],
    orientations=["both"],
    tensors=[[64, 64]],
    layers=[[64, 32, 48]],
    inputs=2,
    repeats=3,
)


def test_the_suite_loads_and_has_cells_on_both_devices() -> None:
    experiment = load_experiment("kernel-speed")
    for device in ("cpu", "cuda"):
        settings = resolve_settings(load_suite("kernels"), experiment.Settings, device, [])
        labels = [cell.label for cell in experiment.cells(settings, Selection(device=device))]
        assert len(labels) == len(set(labels))
        assert any("linear" in label for label in labels)


def test_each_row_names_path_roof_and_ratio(tmp_path) -> None:
    experiment = KernelSpeed()
    context = Context("cpu", "cpu", tmp_path, tmp_path)
    rows = [
        row
        for cell in experiment.cells(SMALL, Selection())
        for row in experiment.run(cell, context)
    ]
    assert [row.config["operation"] for row in rows] == [
        "quantise both rht+stochastic",
        "linear forward+backward",
    ]
    for row in rows:
        assert row.facts["path"] and row.facts["reason"] and row.facts["roof"]
        assert row.values["time_us"].value > 0
    shares, times = rows
    assert shares.values["share_of_roof"].origin == "measured"
    assert times.values["times_roof"].origin == "measured"
    assert not {"times_roof", "eager_times"} & shares.values.keys()
    assert not {"share_of_roof", "eager_share"} & times.values.keys()


def test_the_path_of_a_layer_says_what_takes_in_its_tensor_scales() -> None:
    config = {"operation": "linear", "shape": [64, 32, 48], "inputs": 1}
    reasons = [
        make_case({**config, "recipe": name}, "cpu").path.reason for name in ("ufp4", "nvfp4")
    ]
    assert ["tensor scales by torch" in reason for reason in reasons] == [False, True]


@pytest.mark.parametrize(("replayed", "why"), [(12.0, ""), (None, "no CUDA graph can hold it")])
def test_a_row_has_the_replayed_time_or_says_why_not(replayed, why: str, monkeypatch) -> None:
    cell = KernelSpeed().cells(SMALL, Selection())[-1]
    case = make_case(cell.config, "cpu")
    roof = Timing(10.0, 0.1, 20.0, 8.0, "", 3)
    ours = replace(roof, device_us=15.0, replayed_us=replayed, not_replayed=why)
    times = {case.roof: roof, case.candidate: ours}
    monkeypatch.setattr(kernel_rows, "time_call", lambda cell, case, call: times[call])
    found = kernel_rows.timed_row(cell, case).values
    assert found["times_roof"].value == 1.5
    ratio = found["replayed_times"]
    assert ratio.value == (None if replayed is None else 1.5)
    assert ratio.status == ("ok" if replayed else "unavailable")
    assert why in str(ratio.note) and why in str(found["replayed_us"].note)


@pytest.mark.gpu
def test_a_call_is_replayed_or_the_reason_is_given() -> None:
    inputs, device = [torch.randn(2048, 2048, device="cuda")], torch.device("cuda")
    captured = measure(lambda x: x @ x, inputs, device)
    assert captured.replayed_us is not None and captured.not_replayed == ""
    assert 0.5 < captured.replayed_us / captured.device_us < 2
    looked_at = measure(lambda x: (x @ x).sum().item(), inputs, device)
    assert looked_at.replayed_us is None
    assert "no CUDA graph can hold it" in looked_at.not_replayed
    assert measure(lambda x: x @ x, inputs, device).replayed_us is not None


@pytest.mark.usefixtures("wrong_emulation")
def test_a_wrong_kernel_is_not_timed(tmp_path) -> None:
    cell = KernelSpeed().cells(SMALL, Selection())[0]
    with pytest.raises(ValueError, match="1 values differ from the reference"):
        list(KernelSpeed().run(cell, Context("cpu", "cpu", tmp_path, tmp_path)))


@pytest.mark.parametrize("name", ["nvfp4", "ufp4", "bf16"])
def test_layers_of_every_recipe_are_checked_operand_by_operand(name: str, monkeypatch) -> None:
    """Recipes that keep a model's first or last blocks too: there is only one layer here."""
    from kernels import linear

    config = {"operation": "linear", "recipe": name, "shape": [64, 32, 48], "inputs": 1}
    if name == "bf16":
        with pytest.raises(ValueError, match="quantises nothing"):
            make_case(config, "cpu")
        return
    case = make_case(config, "cpu")
    case.check()
    true = linear.forward_gemm

    def wrong(*arguments):
        y, *saved = true(*arguments)
        return y + 0.01, *saved

    monkeypatch.setattr(linear, "forward_gemm", wrong)
    with pytest.raises(ValueError, match="not the product of its operands"):
        case.check()


def test_B94_a_time_below_the_floor_is_an_error() -> None:
    check_floor(30.0, 31.0, "quantise")
    with pytest.raises(ValueError, match="below the floor"):
        check_floor(5.0, 31.0, "quantise")


def test_B97_a_clock_that_does_not_move_gives_no_number() -> None:
    with pytest.raises(ValueError, match="below resolution"):
        measure(lambda x: x, [1], CPU, clock=lambda: 1.0)


def test_B97_nothing_to_time_is_no_result() -> None:
    with pytest.raises(ValueError, match="no data"):
        measure(lambda x: x, [], CPU)
    nothing = SMALL.model_copy(update={"tensors": [], "layers": []})
    with pytest.raises(ValueError, match="nothing to time"):
        KernelSpeed().cells(nothing, Selection())


def test_scaled_gemms_are_refused_without_a_gpu() -> None:
    config = {"operation": "scaled gemm", "format": "mxfp4-rceil", "shape": [8, 8, 32], "inputs": 1}
    with pytest.raises(ValueError, match="need a GPU"):
        make_case(config, "cpu")


@pytest.mark.gpu
def test_B94_times_grow_with_the_work() -> None:
    device = torch.device("cuda")
    times = []
    for size in (4096, 8192):
        inputs = [torch.randn(size, size, device=device).bfloat16() for _ in range(2)]
        times.append(measure(lambda x: x @ x, inputs, device).device_us)
    assert 6 < times[1] / times[0] < 10


@pytest.mark.gpu
def test_B95_a_small_tensor_is_not_timed_in_the_cache() -> None:
    device = torch.device("cuda")
    rates = []
    for rows in (4096, 65536):
        inputs = [torch.randn(rows, 4096, device=device).bfloat16() for _ in range(2)]
        out = torch.empty_like(inputs[0])
        rates.append(rows / measure(out.copy_, inputs, device).device_us)
    assert rates[0] < 1.1 * rates[1]
