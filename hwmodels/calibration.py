"""Calibration: the constants of a measured device, fitted to what is marked ``use: fit``.

Copies and GEMMs by relative least squares, in which both are linear in their unknowns; then the
passes of one step, which have one unknown:

    copies    time = start + bytes / (bandwidth * share)
    GEMMs     time - start = FLOP paid for / (peak * share of that rate)
                             + exposed * (time to write the result)
    passes    time = launches * launch + bytes / (bandwidth * share)

GEMMs to fit to must be bound by compute and not cut along k; FLOP paid for are those of
``tiling``. Run as ``python -m hwmodels.calibration`` this prints what belongs into the device
file's ``achievable``, and how far the model then is from every time that was measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from formats import load_recipe
from hwmodels.device import Device, load_device
from hwmodels.measured import Measured, MeasuredCopy, MeasuredGemm, load_measured
from hwmodels.piece import MICRO, TERA
from hwmodels.throughput import step_time
from hwmodels.tiling import tilings
from hwmodels.validation import TARGETS, Comparison, checked, compare, worst


@dataclass(frozen=True)
class Fitted:
    """What a device reached; see ``device.Achievable``."""

    compute: dict[str, float]
    exposed: float
    bandwidth: float
    passes: float
    start_us: float


def calibrate(device: Device, measured: Measured) -> Fitted:
    """Fit to the copies, GEMMs and passes of a measured file.

    Raises:
        ValueError: too few are marked ``fit``.
    """
    copies = [copy for copy in measured.copies if copy.use == "fit"]
    gemms = [gemm for gemm in measured.gemms if gemm.use == "fit"]
    if len(copies) < 2 or len(gemms) < len({gemm.operands for gemm in gemms}) + 1:
        raise ValueError("fitting needs two copies, and one GEMM more than there are rates")
    start, per_byte = _fit_copies(copies)
    compute, exposed = _fit_gemms(device, gemms, start, per_byte)
    bandwidth = 1 / (per_byte * MICRO * device.bandwidth.value * TERA)
    return Fitted(compute, exposed, bandwidth, _fit_passes(device, measured), start)


def _fit_copies(copies: Sequence[MeasuredCopy]) -> tuple[float, float]:
    """(us to start, us per byte)."""
    terms = np.array([[1.0, copy.bytes] for copy in copies])
    start, per_byte = _relative_least_squares(terms, np.array([copy.time_us for copy in copies]))
    return float(start), float(per_byte)


def _fit_gemms(
    device: Device, gemms: Sequence[MeasuredGemm], start: float, per_byte: float
) -> tuple[dict[str, float], float]:
    """Share of each rate, and how much of the result's writing is exposed."""
    rates = sorted({gemm.operands for gemm in gemms})
    terms = np.array([_gemm_terms(device, gemm, rates, per_byte) for gemm in gemms])
    times = np.array([gemm.time_us - start for gemm in gemms])
    *inverse, exposed = _relative_least_squares(terms, times)
    return {rate: float(1 / one) for rate, one in zip(rates, inverse, strict=True)}, float(exposed)


def _fit_passes(device: Device, measured: Measured) -> float:
    """Share of the bandwidth that the passes of a step reach."""
    run, reached = measured.passes, device.record.achievable
    if run is None or run.use != "fit" or reached is None:
        raise ValueError("fitting needs passes marked 'use: fit', and the device's launch")
    step = step_time(device, measured.shape(run), load_recipe(run.recipe), run.optimiser)
    pieces = [one.piece for one in step.pieces if one.piece.kernel == "pass"]
    busy = run.time_us - reached.launch.value * sum(piece.launches for piece in pieces)
    moved = sum(piece.bytes for piece in pieces)
    return moved / (busy * MICRO * device.bandwidth.value * TERA)


def _gemm_terms(
    device: Device, gemm: MeasuredGemm, rates: Sequence[str], per_byte: float
) -> list[float]:
    assert device.record.compute_units is not None
    shape, units = (gemm.m, gemm.n, gemm.k), int(device.record.compute_units.value)
    whole = min((one for one in tilings(shape, units) if one.splits == 1), key=lambda t: t.flops)
    at_peak = whole.flops / (device.rate(gemm.operands).value * TERA * MICRO)
    compute = [at_peak if rate == gemm.operands else 0.0 for rate in rates]
    return [*compute, whole.result_bytes * per_byte]


def _relative_least_squares(
    terms: NDArray[np.float64], times: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Coefficients for which terms @ coefficients / times is nearest to 1."""
    return np.linalg.lstsq(terms / times[:, None], np.ones_like(times))[0].astype(np.float64)


def table(found: Sequence[Comparison]) -> list[str]:
    """Lines of a Markdown table: every time beside the model's, and the worst of each kind."""
    head = ("what", "recipe", "measured, us", "model, us", "error", "use")
    lines = [_line(*head), "|" + "---|" * len(head)]
    for one in found:
        times = f"{one.measured_us:,.1f}", f"{one.modelled_us:,.1f}", f"{one.error_percent:+.1f}%"
        lines.append(_line(f"{one.what} {one.model}", one.recipe or "", *times, one.use))
    for what, target in TARGETS.items():
        if furthest := worst(found, what):
            error = furthest.error_percent
            verdict = "reached" if abs(error) <= target else "**missed**"
            name = f"worst of {len(checked(found, what))} {what}s checked, target {target}%"
            lines.append(_line(name, "", "", "", f"{error:+.1f}%", verdict))
    return lines


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Print constants and errors of every measured device."""
    for measured in load_measured():
        device = load_device(measured.device)
        print(device.name, calibrate(device, measured))
        print("\n".join(table(list(compare(measured)))))


if __name__ == "__main__":
    main()
