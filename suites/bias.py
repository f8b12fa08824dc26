"""bias: gain, SQNR and bucket utilisation of formats on known distributions, with and without RHT.

A cell is one format; its rows are distributions x Hadamard sizes. Every figure is the mean over
independent samples and carries its standard error, s / sqrt(samples), so that a gap between two
formats can be told from chance. All formats see the same samples. Gain and SQNR are of the rotated
tensor where there is a rotation: it is orthonormal, so both would be the same after rotating back.

This module imports no torch, so that settings are checked at once.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from formats import BlockFormat, load_format
from suites.experiment import Cell, Context, Selection
from suites.grid_rows import grid_rows
from suites.rows import Quantity, Row, emulated

Distribution = Literal["gaussian", "laplace", "student-t", "outliers", "swiglu"]
ROWS = 512  # of a sample; blocks run along its columns
ASSUMED_ELEMENTS_PER_SECOND = 4e6
UNITS = {"gain": "", "sqnr_db": "dB", "utilisation": ""}


class BiasSettings(BaseModel):
    """What is measured.

    Attributes:
        hadamards: sizes of the transform; 1 is none.
        columns: of a sample, the contraction axis.
        samples: independent samples behind each mean.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    formats: list[str] = ["e2m1", "e1m2", "int4", "nvfp4", "nvint4"]
    distributions: list[Distribution] = ["gaussian", "swiglu"]
    hadamards: list[Annotated[int, Field(ge=1)]] = [1, 16]
    rounding: Literal["nearest", "stochastic"] = "nearest"
    columns: Annotated[int, Field(gt=0)] = 512
    samples: Annotated[int, Field(ge=2)] = 8
    seed: int = 0


class Bias:
    """The experiment behind the suite `bias`."""

    kind: ClassVar[str] = "bias"
    Settings: ClassVar[type[BaseModel]] = BiasSettings

    def cells(self, settings: BiasSettings, selection: Selection) -> list[Cell]:
        """One cell per format.

        Raises:
            ValueError: an unknown or high-precision format, a size that is not a power of two or
            does
                not divide the columns, or a recipe, which has no meaning here.
        """
        if selection.recipes:
            raise ValueError("--recipe: the suite measures formats; name them with --format")
        _check_hadamards(settings)
        shared = settings.model_dump(mode="json", exclude={"formats"})
        return [
            Cell(self.kind, fmt.name, {**shared, "format": name}, (fmt.digest,))
            for name in selection.formats or settings.formats
            for fmt in [_load_quantised(name)]
        ]

    def run(self, cell: Cell, context: Context) -> Iterable[Row]:
        """The format's grid, then one row per distribution and Hadamard size."""
        settings = settings_of(cell)
        fmt = load_format(cell.config["format"])
        yield from grid_rows([fmt])
        pairs = [(d, size) for d in settings.distributions for size in settings.hadamards]
        for done, (distribution, size) in enumerate(pairs):
            context.progress(done, len(pairs), f"{fmt.name} {distribution} {size}")
            yield _row(settings, fmt, distribution, size)

    def estimate_seconds(self, cell: Cell) -> float:
        """From the number of elements and an assumed rate."""
        config = cell.config
        rows = len(config["distributions"]) * len(config["hadamards"])
        return rows * config["samples"] * ROWS * config["columns"] / ASSUMED_ELEMENTS_PER_SECOND

    def derive(self, rows: Sequence[Row]) -> list[Row]:
        """Nothing: each row stands for itself."""
        return []


def settings_of(cell: Cell) -> BiasSettings:
    """The settings that a cell was made from, with its format as the only one."""
    shared = {name: value for name, value in cell.config.items() if name != "format"}
    return BiasSettings.model_validate({**shared, "formats": [cell.config["format"]]})


def measure(
    fmt: BlockFormat, distribution: str, size: int, settings: BiasSettings, sample: int
) -> dict[str, float]:
    """Gain, SQNR in dB and bucket utilisation of one sample; `size` 1 rotates nothing."""
    from kernels import Hadamard, bucket_utilisation, fidelity, quantize
    from suites.distributions import draw

    seed = settings.seed * settings.samples + sample
    x = draw(distribution, (ROWS, settings.columns), seed)
    hadamard = Hadamard.from_seed(size, seed) if size > 1 else None
    quantized = quantize(x, fmt, rounding=settings.rounding, hadamard=hadamard, seed=seed)
    figures = fidelity(hadamard.rotate(x) if hadamard else x, quantized.dequantize())
    utilisation = bucket_utilisation(quantized.unpacked(), quantized.grid)
    return {"gain": figures.gain, "sqnr_db": figures.sqnr_db, "utilisation": utilisation}


def _row(settings: BiasSettings, fmt: BlockFormat, distribution: str, size: int) -> Row:
    samples = [
        measure(fmt, distribution, size, settings, sample) for sample in range(settings.samples)
    ]
    values: dict[str, Quantity] = {}
    for name, unit in UNITS.items():
        figures = [sample[name] for sample in samples]
        error = statistics.stdev(figures) / math.sqrt(len(figures))
        values[name] = emulated(statistics.fmean(figures), unit)
        values[f"{name}_standard_error"] = emulated(error, unit)
    config: dict[str, Any] = {
        "format": fmt.name,
        "distribution": distribution,
        "hadamard": size if size > 1 else "none",
        "rounding": settings.rounding,
    }
    elements = settings.samples * ROWS * settings.columns
    return Row(kind="bias", config=config, values=values, facts={"elements": elements})


def _load_quantised(name: str) -> BlockFormat:
    fmt = load_format(name)
    if fmt.is_high_precision:
        raise ValueError(f"format '{fmt.name}' is high precision: it has no bias to measure")
    return fmt


def _check_hadamards(settings: BiasSettings) -> None:
    for size in settings.hadamards:
        if size & (size - 1) or settings.columns % size:
            raise ValueError(
                f"hadamards: {size} is not a power of two that divides columns {settings.columns}"
            )
