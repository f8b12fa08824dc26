"""Validation: the throughput model beside times measured on a real device.

A measured file (data/*-measured.yaml) holds times of GEMMs, of linear layers and of training steps
on one device, each marked ``fit`` or ``check``. The device's ``achievable`` values were fitted to
the first kind only; the errors that count are those of the second.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from pydantic import Field

from formats import load_recipe
from formats.schema import Record
from formats.yamlfile import load_yaml
from hwmodels.device import BF16, Device, load_device
from hwmodels.throughput import Piece, layer_pieces, step_time, time_piece
from hwmodels.workload import BF16_BYTES, Linear, ModelShape

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

    def pieces(self, device: Device) -> Iterator[Piece]:
        """The GEMM as the model sees it, the same on every device."""
        width = BF16_BYTES if self.operands == BF16 else FP8_BYTES
        moved = width * self.k * (self.m + self.n) + BF16_BYTES * self.m * self.n
        yield Piece("gemm", 2.0 * self.m * self.n * self.k, self.operands, float(moved))


class MeasuredLayer(Record):
    """Median time of one linear layer forward and backward: three GEMMs, operands quantised."""

    rows: int = Field(gt=0)
    out_features: int = Field(gt=0)
    in_features: int = Field(gt=0)
    recipe: str
    time_us: float = Field(gt=0)
    use: Use = "check"

    def pieces(self, device: Device) -> Iterator[Piece]:
        """The layer's GEMMs and quantisers on a device."""
        linear = Linear("layer", self.out_features, self.in_features, 1, self.rows)
        yield from layer_pieces(device, linear, load_recipe(self.recipe))


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
    layers: tuple[MeasuredLayer, ...] = ()
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
        what = f"{gemm.m}x{gemm.n}x{gemm.k}"
        yield _comparison(device, gemm, (what, gemm.operands, "gemm"))
    for layer in measured.layers:
        what = f"{layer.rows}x{layer.out_features}x{layer.in_features}"
        yield _comparison(device, layer, (what, layer.recipe, "layer"))
    for run in measured.steps:
        step = step_time(device, run.model, load_recipe(run.recipe), run.optimiser)
        modelled = step.seconds * 1e6
        name = run.model.name
        yield Comparison(
            device.name, name, run.recipe, "step", run.use, run.time_us, modelled, step.bound
        )


def worst_error(comparisons: list[Comparison], what: str) -> float | None:
    """Largest absolute error of the checked times of a kind, percent; None if there are none."""
    errors = [abs(c.error_percent) for c in comparisons if c.what == what and c.use == "check"]
    return max(errors, default=None)


def fit_achievable(
    device: Device, timed: Sequence[MeasuredGemm | MeasuredLayer]
) -> tuple[float, float]:
    """(share of peak, overhead in us) that best explain what is marked ``fit``.

    Relative least squares. With n launches and t_peak the time at the data sheet's peak,
    time / t_peak = 1 / share + overhead * n / t_peak is linear in n / t_peak.

    Raises:
        ValueError: fewer than two times are marked ``fit``.
    """
    # What an earlier fit left in the device's file must not enter this one.
    at_peak = replace(device, record=device.record.model_copy(update={"achievable": None}))
    points = []
    for one in (one for one in timed if one.use == "fit"):
        pieces = [time_piece(at_peak, piece) for piece in one.pieces(at_peak)]
        peak = sum(piece.seconds for piece in pieces) * 1e6
        points.append((len(pieces) / peak, one.time_us / peak))
    if len(points) < 2:
        raise ValueError("fitting needs at least two GEMMs or layers marked 'use: fit'")
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / spread if spread else 0.0
    return 1 / (mean_y - slope * mean_x), slope


def _comparison(
    device: Device, one: MeasuredGemm | MeasuredLayer, named: tuple[str, str, str]
) -> Comparison:
    model, recipe, what = named
    pieces = [time_piece(device, piece) for piece in one.pieces(device)]
    modelled = sum(piece.seconds for piece in pieces) * 1e6
    longest = max(pieces, key=lambda piece: piece.seconds).bound
    return Comparison(device.name, model, recipe, what, one.use, one.time_us, modelled, longest)
