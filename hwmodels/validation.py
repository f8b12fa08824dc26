"""Validation: the throughput model beside times measured on a real device.

A measured file (data/*-measured.yaml) holds GEMM times and step times of one device, each marked
``fit`` or ``check``. The device's ``achievable`` values were fitted to the first kind only; the
errors that count are those of the second.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import Field

from formats import load_recipe
from formats.schema import Record
from formats.yamlfile import load_yaml
from hwmodels.device import BF16, Device, load_device
from hwmodels.throughput import Piece, step_time, time_piece
from hwmodels.workload import BF16_BYTES, ModelShape

FOLDER = Path(__file__).parent / "data"
FP8_BYTES = 1
Use = Literal["fit", "check"]


class MeasuredGemm(Record):
    """Median time of one GEMM; both operands of the named type, BF16 result."""

    m: int = Field(gt=0)
    n: int = Field(gt=0)
    k: int = Field(gt=0)
    operands: Literal["bf16", "fp8"]
    time_us: float = Field(gt=0)
    use: Use = "check"


class MeasuredStep(Record):
    """Median time of one training step of a model under a recipe."""

    model: ModelShape
    recipe: str
    optimiser: Literal["adamw"] | None = None
    time_us: float = Field(gt=0)
    use: Use = "check"


class Measured(Record):
    """Times of one device: where, when and with what they were taken."""

    device: str
    source: str
    date: str
    gemms: tuple[MeasuredGemm, ...] = ()
    steps: tuple[MeasuredStep, ...] = ()


@dataclass(frozen=True)
class Comparison:
    """One measured time beside the model's."""

    device: str
    model: str
    recipe: str
    what: str
    use: Use
    measured_us: float
    modelled_us: float
    bound: str

    @property
    def error_percent(self) -> float:
        """How far the model is off, in percent of what was measured."""
        return 100 * (self.modelled_us - self.measured_us) / self.measured_us


def load_measured() -> list[Measured]:
    """All measured files."""
    return [load_yaml(path, Measured) for path in sorted(FOLDER.glob("*-measured.yaml"))]


def compare(measured: Measured) -> Iterator[Comparison]:
    """Every measured time beside the model's.

    Raises:
        ValueError: the device or a recipe is unknown, or the device lacks a rate.
    """
    device = load_device(measured.device)
    for gemm in measured.gemms:
        timed = time_piece(device, _piece(gemm))
        what = f"{gemm.m}x{gemm.n}x{gemm.k}"
        yield Comparison(
            device.name,
            what,
            gemm.operands,
            "gemm",
            gemm.use,
            gemm.time_us,
            timed.seconds * 1e6,
            timed.bound,
        )
    for run in measured.steps:
        step = step_time(device, run.model, load_recipe(run.recipe), run.optimiser)
        yield Comparison(
            device.name,
            run.model.name,
            run.recipe,
            "step",
            run.use,
            run.time_us,
            step.seconds * 1e6,
            step.bound,
        )


def worst_error(comparisons: list[Comparison], what: str) -> float | None:
    """Largest absolute error of the checked times of a kind, percent; None if there are none."""
    errors = [abs(c.error_percent) for c in comparisons if c.what == what and c.use == "check"]
    return max(errors, default=None)


def fit_achievable(device: Device, gemms: tuple[MeasuredGemm, ...]) -> tuple[float, float]:
    """(share of peak, overhead in us) that best explain the ``fit`` GEMMs: relative least squares.

    time / t_peak = 1 / share + overhead / t_peak is linear in 1 / t_peak, t_peak being the time at
    peak.
    """
    points = [
        (1 / peak, gemm.time_us / peak)
        for gemm in gemms
        if gemm.use == "fit"
        for peak in [time_piece(device, _piece(gemm)).seconds * 1e6]
    ]
    if len(points) < 2:
        raise ValueError("fitting needs at least two GEMMs marked 'use: fit'")
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / spread if spread else 0.0
    return 1 / (mean_y - slope * mean_x), slope


def _piece(gemm: MeasuredGemm) -> Piece:
    width = BF16_BYTES if gemm.operands == BF16 else FP8_BYTES
    moved = width * gemm.k * (gemm.m + gemm.n) + BF16_BYTES * gemm.m * gemm.n
    return Piece("gemm", 2.0 * gemm.m * gemm.n * gemm.k, gemm.operands, float(moved))
