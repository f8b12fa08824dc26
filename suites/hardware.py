"""hardware: what formats cost, on devices, on what-if devices, and as circuits.

A cell is one format (with the plain recipe) or one recipe; a first cell has what does not depend on
the format: the devices' published figures, the published area model's reproduction, units that do
two grids, and the throughput model beside measured times. This suite measures nothing: origins are
"published" and "modelled", every constant's source is in its note, and the times that the model is
compared with come from a file that says where they were taken.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict

from formats import Recipe, load_format
from hwmodels.codebook import CodeBook
from hwmodels.energy import load_energy_class
from hwmodels.liberty import load_liberty
from hwmodels.synthesis import tool_version
from hwmodels.workload import ModelShape, list_models, load_model
from suites import circuit_rows, hardware_rows
from suites.experiment import Cell, Context, Selection
from suites.grid_rows import grid_rows
from suites.recipes import build_recipe
from suites.rows import Row
from suites.sizes import SIZES

SEQUENCE, STEP_TOKENS = 256, 16384  # of the suites' own models, as pretrain-small trains them


class HardwareSettings(BaseModel):
    """What is priced.

    Attributes:
        devices, energies: names or YAML files.
        models: the same, or sizes of the pretraining suites.
        libraries: names of shipped circuit tables; empty means all.
        liberty: a Liberty file in which the formats are synthesised now.
        detail: rows per step, or per GEMM too.
        optimiser: whose memory traffic is counted; none is by default.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    formats: list[str] = ["e2m1", "e1m2", "int4", "nvfp4", "nvint4"]
    devices: list[str] = ["h200", "b200", "mi355x", "b200-uniform"]
    models: list[str] = ["dense-1.5b", "moe-7.9b-a1.3b", "moe-124b"]
    energies: list[str] = ["accelerator-7nm"]
    libraries: list[str] = []
    liberty: str | None = None
    detail: Literal["step", "gemm"] = "step"
    optimiser: Literal["adamw"] | None = None


class Hardware:
    """The experiment behind the suite `hardware`."""

    kind: ClassVar[str] = "hardware"
    Settings: ClassVar[type[BaseModel]] = HardwareSettings

    def cells(self, settings: HardwareSettings, selection: Selection) -> list[Cell]:
        """The common cell, then one per format and recipe.

        Raises:
            ValueError: an unknown name, a faulty file, a grid that no circuit is generated for, or
                a Liberty file that is missing or that no tool is there to use.
        """
        hardware_rows.load_devices(settings.devices)
        for name in settings.models:
            model_shape(name)
        for name in settings.energies:
            load_energy_class(name)
        if settings.liberty is not None:
            tool_version()
            load_liberty(Path(settings.liberty))
        named = selection.formats or (() if selection.recipes else tuple(settings.formats))
        sources = [{"format": name, "recipe": None} for name in named]
        sources += [{"format": None, "recipe": name} for name in selection.recipes]
        shared = settings.model_dump(mode="json", exclude={"formats"})
        cells = [Cell(self.kind, "devices and models", {**shared, "format": None, "recipe": None})]
        for source in sources:
            recipe = build_recipe(source)
            check_grid(recipe)
            digests = (recipe.digest,)
            cells.append(Cell(self.kind, recipe.name, {**shared, **source}, digests))
        return cells

    def run(self, cell: Cell, context: Context) -> Iterable[Row]:
        """All rows of a format, or those that belong to none."""
        settings = settings_of(cell)
        if cell.config["format"] is None and cell.config["recipe"] is None:
            return _common_rows(settings)
        return recipe_rows(build_recipe(cell.config), settings)

    def estimate_seconds(self, cell: Cell) -> float:
        """A second each, from shipped tables; synthesis takes longer."""
        return 20.0 if cell.config["liberty"] else 1.0

    def derive(self, rows: Sequence[Row]) -> list[Row]:
        """Nothing: quality is joined with cost by the suite `codesign`."""
        return []


def recipe_rows(recipe: Recipe, settings: HardwareSettings) -> Iterator[Row]:
    """Grid, area, circuit, throughput and energy of a recipe's format."""
    yield from grid_rows(operand.format for operand in recipe.operands.values())
    fmt = hardware_rows.main_format(recipe)
    if not fmt.is_high_precision:
        yield from circuit_rows.area_rows(fmt)
        tables = circuit_rows.tables_for(fmt, settings.libraries, settings.liberty)
        yield from circuit_rows.circuit_rows(fmt, tables)
    classes = [load_energy_class(name) for name in settings.energies]
    for device in hardware_rows.load_devices(settings.devices):
        for name in settings.models:
            model = model_shape(name)
            yield from hardware_rows.throughput_rows(
                device, model, recipe, settings.detail, settings.optimiser
            )
            yield from hardware_rows.energy_rows(device, model, recipe, classes)


def model_shape(name: str) -> ModelShape:
    """A built-in shape, a YAML file, or a size of the pretraining suites.

    Raises:
        ValueError: unknown, or a faulty file.
    """
    if name in SIZES and name not in list_models():
        size = SIZES[name]
        return ModelShape(
            name=name,
            layers=size.layers,
            width=size.width,
            heads=size.heads,
            hidden=size.hidden,
            vocabulary=size.vocabulary,
            experts=size.experts,
            top_k=size.top_k,
            tied=size.tied,
            sequence=SEQUENCE,
            tokens=STEP_TOKENS,
        )
    return load_model(name)


def check_grid(recipe: Recipe) -> None:
    """Refuse grids that circuits are not generated for.

    Raises:
        ValueError: more than 16 codes, or levels without a small common step.
    """
    for operand in recipe.operands.values():
        if operand.format.element is not None:
            CodeBook.from_grid(operand.format.element)


def settings_of(cell: Cell) -> HardwareSettings:
    """The settings that a cell was made from."""
    own = {"format", "recipe"}
    data: dict[str, Any] = {key: value for key, value in cell.config.items() if key not in own}
    return HardwareSettings.model_validate(data)


def _common_rows(settings: HardwareSettings) -> Iterator[Row]:
    for device in hardware_rows.load_devices(settings.devices):
        yield hardware_rows.device_row(device)
    yield from circuit_rows.table_5_rows()
    tables = circuit_rows.tables_for(load_format("nvfp4"), settings.libraries, None)
    yield from circuit_rows.dual_rows(tables)
    yield from hardware_rows.validation_rows()
    yield from recipe_rows(build_recipe({"format": None, "recipe": "bf16"}), settings)
