from pathlib import Path

import pytest

from hwmodels.calibration import calibrate, main, table
from hwmodels.device import load_device
from hwmodels.measured import Measured, MeasuredCopy, MeasuredGemm, load_measured
from hwmodels.piece import time_piece
from hwmodels.validation import compare

ROOT = Path(__file__).resolve().parents[2]
H200 = load_device("h200")
SIZES = (2048, 4096, 8192)


def gemm(size: int, operands: str, time_us: float) -> MeasuredGemm:
    return MeasuredGemm(m=size, n=size, k=size, operands=operands, time_us=time_us, use="fit")


def as_modelled() -> Measured:
    """Times as the model gives them with the device file's constants."""
    (measured,) = load_measured()
    reached = H200.record.achievable
    rate = 4.8e6 * reached.bandwidth.value  # bytes per us
    copies = tuple(
        MeasuredCopy(mib=mib, time_us=reached.start.value + 2 * mib * 2**20 / rate, use="fit")
        for mib in (1, 64, 512)
    )
    gemms = []
    for size, operands in [*((size, "bf16") for size in SIZES), (8192, "fp8")]:
        alone = time_piece(H200, gemm(size, operands, 1.0).piece).seconds * 1e6
        gemms.append(gemm(size, operands, alone + reached.start.value - reached.launch.value))
    return measured.model_copy(update={"copies": copies, "gemms": tuple(gemms)})


def test_the_fit_recovers_the_constants_that_made_the_times():
    fitted, reached = calibrate(H200, as_modelled()), H200.record.achievable
    assert fitted.start_us == pytest.approx(reached.start.value)
    assert fitted.bandwidth == pytest.approx(reached.bandwidth.value)
    assert fitted.exposed == pytest.approx(reached.exposed.value)
    for rate, share in fitted.compute.items():
        assert share == pytest.approx(reached.compute[rate].value)


def test_the_device_file_holds_what_the_measured_file_gives():
    for measured in load_measured():
        device = load_device(measured.device)
        reached, fitted = device.record.achievable, calibrate(device, measured)
        assert reached is not None
        stated = {rate: figure.value for rate, figure in reached.compute.items()}
        assert stated == pytest.approx(fitted.compute, abs=5e-4)
        assert reached.exposed.value == pytest.approx(fitted.exposed, abs=5e-4)
        assert reached.bandwidth.value == pytest.approx(fitted.bandwidth, abs=5e-4)
        assert reached.passes.value == pytest.approx(fitted.passes, abs=5e-4)
        assert reached.start.value == pytest.approx(fitted.start_us, abs=5e-3)


def test_too_few_times_are_an_error():
    (measured,) = load_measured()
    for update, message in (
        ({"copies": measured.copies[:1]}, "two copies"),
        ({"gemms": (gemm(4096, "bf16", 200.0),)}, "one GEMM more"),
        ({"passes": None}, "passes marked"),
    ):
        with pytest.raises(ValueError, match=message):
            calibrate(H200, measured.model_copy(update=update))


def test_the_page_shows_what_the_command_prints():
    page = (ROOT / "docs" / "hardware-model.md").read_text("utf-8")
    for measured in load_measured():
        made = "\n".join(table(list(compare(measured))))
        assert made in page, "out of date: python -m hwmodels.calibration"


def test_the_command_prints_constants_and_the_worst_errors(capsys):
    main()
    printed = capsys.readouterr().out
    assert "bandwidth=" in printed and "gemms checked, target 15%" in printed
