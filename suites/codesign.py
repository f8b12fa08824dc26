"""codesign: quality that was trained joined with cost that is modelled, and their Pareto front.

    python bench.py --suite codesign --set quality=[runs/pretrain-small-cpu]

For every recipe of the quality runs: loss degradation against the baseline in percent, SQNR of GEMM
outputs in dB (mean over what was observed), and on each device and cell library the step time of a
model and the area and energy of the format's unit per MAC. A point is on the front of its device
and library if no other is at least as good in everything and better in something; a point that
lacks a number is not compared, and says so. SQNR stands in where a run has no baseline to compare
losses with.
"""

from __future__ import annotations

import hashlib
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field

from formats import BlockFormat, Recipe, list_recipes, load_format, load_recipe, plain_recipe
from hwmodels.circuit_table import load_tables
from hwmodels.device import Device
from hwmodels.energy import circuit_parts
from hwmodels.throughput import step_time
from suites import circuit_rows, hardware_rows
from suites.degradation import is_single_output
from suites.experiment import Cell, Context, Selection
from suites.hardware import check_grid, model_shape
from suites.recipes import build_recipe
from suites.rows import Quantity, Row, modelled
from suites.store import RESULTS, SUMMARY, read_attempts, read_run

QUALITIES = ("loss_degradation", "sqnr_db")
COSTS = ("area", "energy", "step_time")


class CodesignSettings(BaseModel):
    """What is joined.

    Attributes:
        quality: folders of finished pretraining runs.
        model: whose step is timed; a built-in shape, a YAML file, or a size of those suites.
        baseline: the recipe that loss degradations are against.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    quality: list[str] = Field(default=[])
    devices: list[str] = ["b200", "b200-uniform"]
    libraries: list[str] = ["asap7"]
    model: str = "dense-1.5b"
    baseline: str = "bf16"


class Codesign:
    """The experiment behind the suite `codesign`."""

    kind: ClassVar[str] = "codesign"
    Settings: ClassVar[type[BaseModel]] = CodesignSettings

    def cells(self, settings: CodesignSettings, selection: Selection) -> list[Cell]:
        """One cell: the join needs all recipes at once.

        Raises:
            ValueError: no run folder, one without quality rows, or an unknown name.
        """
        if not settings.quality:
            raise ValueError(
                "codesign needs the folders of pretraining runs: "
                "--set quality=[runs/pretrain-small-cpu]"
            )
        hardware_rows.load_devices(settings.devices)
        model_shape(settings.model)
        tables = load_tables()
        if unknown := [name for name in settings.libraries if name not in tables]:
            raise ValueError(f"unknown circuit table '{unknown[0]}'; there are {', '.join(tables)}")
        recipes = quality_of(settings)
        if selection.recipes:
            recipes = {name: recipes[name] for name in selection.recipes if name in recipes}
        if not recipes:
            raise ValueError(
                f"{', '.join(settings.quality)}: no recipe with a loss or an SQNR in it"
            )
        known = recipes_in(settings.quality)
        digests = (
            *(find_recipe(name, known).digest for name in recipes),
            *(digest_of(Path(folder)) for folder in settings.quality),
        )
        config = {**settings.model_dump(mode="json"), "recipes": list(recipes)}
        return [Cell(self.kind, f"{len(recipes)} recipes", config, digests)]

    def run(self, cell: Cell, context: Context) -> Iterable[Row]:
        """A row per recipe, device and library, with whether it is on the front."""
        names = set(CodesignSettings.model_fields)
        settings = CodesignSettings.model_validate(
            {key: value for key, value in cell.config.items() if key in names}
        )
        quality = quality_of(settings)
        known = recipes_in(settings.quality)
        points = [
            _point(find_recipe(name, known), quality[name], device, library, settings.model)
            for device in hardware_rows.load_devices(settings.devices)
            for library in settings.libraries
            for name in cell.config["recipes"]
        ]
        return mark_front(points)

    def estimate_seconds(self, cell: Cell) -> float:
        """Nothing is trained."""
        return 1.0

    def derive(self, rows: Sequence[Row]) -> list[Row]:
        """The front is marked within the one cell."""
        return []


def quality_of(settings: CodesignSettings) -> dict[str, dict[str, Quantity]]:
    """Quality by recipe: degradation against the baseline, and mean output SQNR.

    Raises:
        ValueError: a folder is not a run.
    """
    found: dict[str, dict[str, Quantity]] = defaultdict(dict)
    signals: dict[str, list[Quantity]] = defaultdict(list)
    for folder in settings.quality:
        for row in read_run(Path(folder)).rows:
            recipe = str(row.config.get("recipe"))
            if row.kind == "comparison" and row.config.get("metric") == "validation_loss":
                if row.config.get("baseline") == settings.baseline:
                    found[recipe]["loss_degradation"] = row.quantity("degradation_percent")
            elif is_single_output(row):
                signals[recipe].append(row.quantity("sqnr_db"))
    for recipe, quantities in signals.items():
        values = [quantity.value for quantity in quantities if quantity.value is not None]
        if values:
            mean = statistics.fmean(values)
            found[recipe]["sqnr_db"] = quantities[0].model_copy(update={"value": mean})
    return dict(found)


def digest_of(folder: Path) -> str:
    """Identity of what a run holds: a run that went on is joined anew."""
    files = [path for name in (RESULTS, SUMMARY) if (path := folder / name).exists()]
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()


def recipes_in(folders: Sequence[str]) -> dict[str, Recipe]:
    """The recipes that the cells of runs were of, by name; those written on the spot included.

    Raises:
        ValueError: a cell's recipe names a format that is not known here.
    """
    ends = [
        attempt.end.config
        for folder in folders
        for attempt in read_attempts(Path(folder) / RESULTS).values()
    ]
    recipes = [build_recipe(config) for config in ends if config.get("recipe")]
    return {recipe.name: recipe for recipe in recipes}


def find_recipe(name: str, known: Mapping[str, Recipe]) -> Recipe:
    """A recipe by the name that rows carry: a run's, a library's, recipe+format, a format's plain.

    Raises:
        ValueError: neither is known here.
    """
    if name in known:
        return known[name]
    first, _, second = name.partition("+")
    if second:
        return load_recipe(first).with_format(load_format(second))
    if name in {entry.name for entry in list_recipes()}:
        return load_recipe(name)
    return plain_recipe(load_format(name))


def mark_front(points: Sequence[Row]) -> list[Row]:
    """The same rows with ``on_front``, each group of device and library by itself."""
    groups: dict[tuple[Any, Any], list[Row]] = defaultdict(list)
    for row in points:
        groups[row.config["device"], row.config["library"]].append(row)
    return [_marked(row, group) for group in groups.values() for row in group]


def dominates(one: Sequence[float], other: Sequence[float]) -> bool:
    """Whether one is nowhere worse and somewhere better; smaller is better."""
    pairs = list(zip(one, other, strict=True))
    return all(a <= b for a, b in pairs) and any(a < b for a, b in pairs)


def _marked(row: Row, group: Sequence[Row]) -> Row:
    quality = next(
        (
            name
            for name in QUALITIES
            if all(other.quantity(name).value is not None for other in group)
        ),
        None,
    )
    mine = _coordinates(row, quality)
    if quality is None or mine is None:
        lacking = [name for name in COSTS if row.quantity(name).value is None]
        reason = f"not compared: no {', '.join(lacking) or 'quality that all recipes have'}"
        return row.model_copy(update={"facts": {**row.facts, "on_front": False, "reason": reason}})
    others = [found for other in group if (found := _coordinates(other, quality)) is not None]
    on_front = not any(dominates(other, mine) for other in others)
    facts = {**row.facts, "on_front": on_front, "quality": quality}
    return row.model_copy(update={"facts": facts})


def _coordinates(row: Row, quality: str | None) -> list[float] | None:
    """Quality and costs, smaller being better; None when one is missing."""
    if quality is None:
        return None
    values = [row.quantity(name).value for name in (quality, *COSTS)]
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return None
    return [-known[0] if quality == "sqnr_db" else known[0], *known[1:]]


def _point(
    recipe: Recipe, quality: dict[str, Quantity], device: Device, library: str, model: str
) -> Row:
    fmt = hardware_rows.main_format(recipe)
    try:
        check_grid(recipe)
        step = step_time(device, model_shape(model), recipe)
        time = modelled(step.seconds * 1e3, "ms", f"{model} on {device.name}")
        facts = {
            "path": sorted({route.path for route in step.routes.values()}),
            "bound": step.bound,
        }
    except ValueError as error:
        time, facts = hardware_rows.unavailable("ms", str(error)), {}
    area, energy = _unit_costs(fmt, library)
    missing = {quality_name: _missing(quality_name) for quality_name in QUALITIES}
    return Row(
        kind="codesign",
        config={
            "format": fmt.name,
            "recipe": recipe.name,
            "device": device.name,
            "library": library,
        },
        values={**missing, **quality, "area": area, "energy": energy, "step_time": time},
        facts=facts,
    )


def _unit_costs(fmt: BlockFormat, library: str) -> tuple[Quantity, Quantity]:
    """Area and energy per MAC of the format's unit, from the shipped table of a library."""
    try:
        parts = circuit_parts(library, fmt)
    except ValueError as error:
        reason = str(error)
        return hardware_rows.unavailable("um2/MAC", reason), hardware_rows.unavailable(
            "fJ/MAC", reason
        )
    area, energy = circuit_rows.total_cost(parts)
    return modelled(area, "um2/MAC"), modelled(energy, "fJ/MAC")


def _missing(name: str) -> Quantity:
    unit = "%" if name == "loss_degradation" else "dB"
    return Quantity(value=None, unit=unit, origin="emulated", note="not in the quality runs")
