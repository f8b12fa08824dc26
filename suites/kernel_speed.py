"""kernel-speed: what emulation costs, as a ratio to what the same machine does without it.

An operation is timed beside its *roof*: quantisers beside a copy of the same tensor, GEMMs and
layers beside the BF16 ones. A GPU's clock moves by several per cent with its power limit, so the
roof is taken just before and just after each candidate, in the same run. Two guards stand in front
of every number: the result equals the reference, or nothing is timed; and a time below what the
memory can move is an error, not a record.

Rivals, other projects' code for the same operation, are timed beside the same roof and beside ours.

This module imports no torch, so that settings are checked at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from formats import load_format, load_recipe
from suites.experiment import Cell, Context, Selection
from suites.kernel_rows import timed_row
from suites.rivals import LAYER, RIVALS, Offer, check_rivals, find_version
from suites.rows import Row

Quantiser = Literal["row", "column", "both"]
Variant = Literal["nearest", "rht", "stochastic", "rht+stochastic"]
Shape = Annotated[list[Annotated[int, Field(gt=0)]], Field(min_length=2, max_length=3)]


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
        rivals: other projects to time, by name; one that is not installed gives a row that says so.
        rival_paths: folders that hold a rival's package, by name; these are timed too.
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
    rivals: list[str] = []
    rival_paths: dict[str, str] = {}

    @field_validator("rivals", "rival_paths")
    @classmethod
    def _known(cls, names: Any) -> Any:
        check_rivals(names)
        return names


class KernelSpeed:
    """The experiment behind the suite `kernels`."""

    kind: ClassVar[str] = "kernel-speed"
    Settings: ClassVar[type[BaseModel]] = KernelSpeedSettings

    def cells(self, settings: KernelSpeedSettings, selection: Selection) -> list[Cell]:
        """One cell per operation, format or recipe, and shape.

        Raises:
            ValueError: an unknown format or recipe, a folder without its rival, or nothing to time.
        """
        cells = [
            *_quantiser_cells(settings, selection.formats or settings.formats),
            *_gemm_cells(settings),
            *_layer_cells(settings, selection.recipes or settings.recipes),
            # Last: should a rival break the GPU's context, ours are timed already.
            *_rival_cells(settings, selection),
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

        if "rival" in cell.config:
            from suites.kernel_rivals import race

            yield race(cell, context.device)
            return
        case = make_case(cell.config, context.device)
        case.check()
        yield timed_row(cell, case)

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
            yield _cell(settings, LAYER, "recipe", name, shape, digest)


def _rival_cells(settings: KernelSpeedSettings, selection: Selection) -> Iterable[Cell]:
    """Every mode of every offer; a selection of formats or recipes narrows the offers too."""
    chosen = {"format": selection.formats, "recipe": selection.recipes}
    shapes = {"format": settings.tensors, "recipe": settings.layers}
    for rival in dict.fromkeys([*settings.rivals, *settings.rival_paths]):
        found = _found(settings, rival)
        for offer in RIVALS[rival].offers:
            wanted = not chosen[offer.by] or offer.name in chosen[offer.by]
            for mode, shape in product(offer.modes, shapes[offer.by] if wanted else ()):
                yield _rival_cell(settings, offer, shape, {**found, "mode": mode})


def _rival_cell(
    settings: KernelSpeedSettings, offer: Offer, shape: Shape, extra: Mapping[str, Any]
) -> Cell:
    digest = (load_format if offer.by == "format" else load_recipe)(offer.name).digest
    cell = _cell(settings, offer.operation, offer.by, offer.name, shape, digest)
    return replace(
        cell,
        label=f"{cell.label} by {extra['rival']}, {extra['mode']}",
        config={**cell.config, **extra, "remark": offer.remark},
    )


def _found(settings: KernelSpeedSettings, rival: str) -> dict[str, str | None]:
    """The rival and where it is: part of the cell, so that one installed later is timed then."""
    folder = settings.rival_paths.get(rival)
    folder = None if folder is None else str(Path(folder).resolve())
    return {"rival": rival, "version": find_version(rival, folder), "folder": folder}


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
