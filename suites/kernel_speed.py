"""kernel-speed: what emulation costs, as a ratio to what the same machine does without it.

An operation is timed beside its *roof*: quantisers beside a copy of the same tensor, GEMMs and
layers beside the BF16 ones. A GPU's clock moves by several per cent with its power limit, so the
roof is taken just before and just after each candidate, in the same run. Two guards stand in front
of every number: the result equals the reference, or nothing is timed; and a time below what the
memory can move is an error, not a record.

This module imports no torch, so that settings are checked at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from formats import load_format, load_recipe
from suites.experiment import Cell, Context, Selection
from suites.rows import Row, measured

if TYPE_CHECKING:
    from suites.kernel_cases import Case
    from suites.timing import Timing

Quantiser = Literal["row", "column", "both"]
Variant = Literal["nearest", "rht", "stochastic", "rht+stochastic"]
Shape = Annotated[list[Annotated[int, Field(gt=0)]], Field(min_length=2, max_length=3)]
# A copy is not the fastest way to move bytes: reads of what is in cache, or wider writes, may beat
# it a little. Anything faster than this share of its time did not do the work.
FLOOR = 0.8


class KernelSpeedSettings(BaseModel):
    """What is timed.

    Attributes:
        formats: of the quantisers.
        gemm_formats: of the block-scaled GEMMs, which need a GPU and an instruction or carrier.
        recipes: of the linear layers, forward and backward.
        tensors: [rows, columns] for the quantisers.
        layers: [tokens, out-features, in-features] for GEMMs and layers.
        inputs: different tensors that the timed calls go through.
        repeats: timed calls.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    formats: list[str] = ["e2m1", "e1m2", "nvfp4", "mxfp4-rceil"]
    gemm_formats: list[str] = []
    recipes: list[str] = ["ufp4", "nvfp4"]
    orientations: list[Quantiser] = ["row", "both"]
    variants: list[Variant] = ["nearest", "rht", "stochastic", "rht+stochastic"]
    tensors: list[Shape] = [[8192, 4096]]
    layers: list[Shape] = [[8192, 4096, 4096], [16384, 2048, 2048]]
    inputs: Annotated[int, Field(ge=1)] = 4
    repeats: Annotated[int, Field(ge=1)] = 20


class KernelSpeed:
    """The experiment behind the suite `kernels`."""

    kind: ClassVar[str] = "kernel-speed"
    Settings: ClassVar[type[BaseModel]] = KernelSpeedSettings

    def cells(self, settings: KernelSpeedSettings, selection: Selection) -> list[Cell]:
        """One cell per operation, format or recipe, and shape.

        Raises:
            ValueError: an unknown format or recipe, or settings that leave nothing to time.
        """
        cells = [
            *_quantiser_cells(settings, selection.formats or settings.formats),
            *_gemm_cells(settings),
            *_layer_cells(settings, selection.recipes or settings.recipes),
        ]
        if not cells:
            raise ValueError("nothing to time: name at least one format or recipe, and a shape")
        return cells

    def run(self, cell: Cell, context: Context) -> Iterable[Row]:
        """Check the candidate, then time roof, candidate, roof.

        Raises:
            ValueError: the candidate is wrong, too fast to be true, or cannot run here.
        """
        from suites.kernel_cases import make_case

        case = make_case(cell.config, context.device)
        case.check()
        before, candidate, after = (
            _time(case, call, cell) for call in (case.roof, case.candidate, case.roof)
        )
        yield _row(cell, case, (before, candidate, after))

    def estimate_seconds(self, cell: Cell) -> float:
        """Mostly compilation, and on a CPU the reference that results are checked against."""
        return 15.0

    def derive(self, rows: Sequence[Row]) -> list[Row]:
        """Nothing: each row stands for itself."""
        return []


def _quantiser_cells(settings: KernelSpeedSettings, formats: Sequence[str]) -> Iterable[Cell]:
    for name in formats:
        fmt = load_format(name)
        for shape in settings.tensors if not fmt.is_high_precision else ():
            for orientation in settings.orientations:
                for variant in settings.variants:
                    operation = f"quantise {orientation} {variant}"
                    yield _cell(settings, operation, "format", name, shape, fmt.digest)


def _gemm_cells(settings: KernelSpeedSettings) -> Iterable[Cell]:
    for name in settings.gemm_formats:
        digest = load_format(name).digest
        for shape in settings.layers:
            yield _cell(settings, "scaled gemm", "format", name, shape, digest)


def _layer_cells(settings: KernelSpeedSettings, recipes: Sequence[str]) -> Iterable[Cell]:
    for name in recipes:
        digest = load_recipe(name).digest
        for shape in settings.layers:
            yield _cell(settings, "linear forward+backward", "recipe", name, shape, digest)


def _cell(
    settings: KernelSpeedSettings, operation: str, by: str, name: str, shape: Shape, digest: str
) -> Cell:
    config = {
        "operation": operation,
        by: name,
        "shape": list(shape),
        "inputs": settings.inputs,
        "repeats": settings.repeats,
    }
    label = f"{operation} {name} {'x'.join(map(str, shape))}"
    return Cell(KernelSpeed.kind, label, config, (digest,))


def _time(case: Case, call: Any, cell: Cell) -> Timing:
    from suites.timing import measure

    return measure(call, case.inputs, case.device, cell.config["repeats"])


def check_floor(time_us: float, least_us: float, label: str) -> None:
    """Raise ValueError if a time is below what the roof says is possible."""
    if time_us < FLOOR * least_us:
        raise ValueError(
            f"{label}: {time_us:.1f} us is below the floor of {FLOOR * least_us:.1f} us that its "
            "bytes take at this machine's own copy rate: the work was not done, or not timed"
        )


def _row(cell: Cell, case: Case, timings: tuple[Timing, Timing, Timing]) -> Row:
    before, candidate, after = timings
    roof_us = (before.device_us + after.device_us) / 2
    roof_wall_us = (before.wall_us + after.wall_us) / 2
    check_floor(candidate.device_us, case.least_share * roof_us, cell.label)
    values = {
        "time_us": measured(candidate.device_us, "us"),
        "spread": measured(candidate.spread_us / candidate.device_us, "1"),
        "wall_us": measured(candidate.wall_us, "us"),
        "roof_us": measured(roof_us, "us"),
        "roof_drift": measured(abs(after.device_us - before.device_us) / roof_us, "1"),
        "ratio_to_roof": measured(case.share(candidate.device_us, roof_us), "1", case.meaning),
        "wall_ratio": measured(case.share(candidate.wall_us, roof_wall_us), "1", case.meaning),
        "bytes_per_second": measured(case.bytes_moved / candidate.device_us * 1e6, "B/s"),
    }
    path = case.path
    facts = {
        "path": path.name,
        "reason": path.reason,
        "roof": case.roof_name,
        "launches": "n/a" if candidate.launches is None else candidate.launches,
        "cache": "level 2 overwritten before each call" if case.device.type == "cuda" else "warm",
        **case.machine(),
    }
    shape = "x".join(map(str, cell.config["shape"]))
    config = {**cell.config, "shape": shape}
    config.setdefault("format", cell.config.get("recipe"))
    return Row(kind="kernel", config=config, values=values, facts=facts)
