"""pretrain: one language model per recipe and seed, on real text, from equal starts.

A cell is one recipe at one seed. All recipes of a seed share initial weights, batches and order. At
set steps the GEMMs of the run are measured on its own tensors: losses of two formats often cannot
be told apart on a small budget, while gain and SQNR of their operands can in seconds.

Which recipes run: the settings' own, or those of --recipe; --format F alone means the plain recipe
of that format (it on all six operands, stochastic rounding on dY, no Hadamard), and together with
--recipe that recipe with its format replaced. The high-precision baseline always runs, and first.

This module imports no torch, so that settings are checked at once; the work is in `pretrain_cell`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from pydantic import BaseModel

from formats import Recipe
from suites.corpus import digest_documents
from suites.degradation import compare_recipes, summarise_fidelity
from suites.experiment import Cell, Context, Selection
from suites.grid_rows import grid_rows
from suites.pretrain_settings import PretrainSettings
from suites.recipes import build_recipe, recipe_sources, refuse_equal_names
from suites.rows import Row
from suites.sizes import SIZES
from suites.texts import read_documents

# Floating-point operations per second that a small model reaches, for estimates only.
ASSUMED_RATE = {"cpu": 6e10, "cuda": 1.9e14}
ASSUMED_STEP_RATIO = {"cpu": 2.0, "cuda": 1.6}  # of a quantised step over a high-precision one
ASSUMED_OVERHEAD = {"cpu": 1.0, "cuda": 3.0}  # seconds before a model's first step
# Settings that choose cells and do not decide what a cell gives.
GRID = {"recipes", "seeds", "core", "core_seeds"}


class Pretrain:
    """The experiment behind the suites `pretrain-*`."""

    kind: ClassVar[str] = "pretrain"
    Settings: ClassVar[type[BaseModel]] = PretrainSettings

    def cells(self, settings: PretrainSettings, selection: Selection) -> list[Cell]:
        """One cell per seed and recipe, all recipes of a seed before the next seed.

        The core's seeds come first, so that a run that is cut short has answered what matters most.

        Raises:
            ValueError: an unknown recipe or format, one that does not fit the model, or text that
                is missing.
        """
        baseline = {"recipe": settings.baseline, "format": None}
        chosen = recipe_sources(settings.recipes, selection.recipes, selection.formats)
        sources = [baseline, *(source for source in chosen if source != baseline)]
        recipes = [build_recipe(source) for source in sources]
        refuse_equal_names(recipes)
        # What fits a model is a matter of what is kept; grids and rotations come to the same.
        for recipe in {(r.keep, r.keep_first, r.keep_last): r for r in recipes}.values():
            _check_conversion(settings, recipe)
        text = digest_documents(read_documents(settings.corpus.path, settings.corpus.suffixes))
        shared = settings.model_dump(mode="json", exclude=GRID)
        return [
            Cell(
                kind=self.kind,
                label=f"{recipe.name} seed {seed}",
                config={**shared, **source, "seed": seed, "device": selection.device},
                digests=(recipe.digest, text),
            )
            for is_core in (True, False)
            for seed in range(selection.seeds or settings.seeds_of(is_core))
            for recipe, source in zip(recipes, sources, strict=True)
            if (recipe.name in settings.core) == is_core
        ]

    def run(self, cell: Cell, context: Context) -> Iterable[Row]:
        """Train one model; a training row, the fidelity rows, then the grids of its formats."""
        from suites.pretrain_cell import PretrainCell

        recipe = build_recipe(cell.config)
        settings = settings_of(cell)
        yield from PretrainCell(settings, recipe, cell, context).run()
        yield from grid_rows(operand.format for operand in recipe.operands.values())

    def estimate_seconds(self, cell: Cell) -> float:
        """From operation counts and an assumed rate."""
        settings = settings_of(cell)
        training = settings.training
        per_token = SIZES[settings.model].operations_per_token(training.sequence)
        operations = training.steps * training.step_tokens * per_token
        device = cell.config["device"]
        high_precision = build_recipe(cell.config).is_high_precision
        ratio = 1.0 if high_precision else ASSUMED_STEP_RATIO[device]
        return ASSUMED_OVERHEAD[device] + ratio * operations / ASSUMED_RATE[device]

    def derive(self, rows: Sequence[Row]) -> list[Row]:
        """Degradations with verdicts for every pair of recipes, and fidelity over all layers."""
        return [*compare_recipes(rows), *summarise_fidelity(rows)]


def settings_of(cell: Cell) -> PretrainSettings:
    """The settings that a cell was made from, without its grid."""
    names = PretrainSettings.model_fields.keys() & cell.config.keys()
    return PretrainSettings.model_validate({name: cell.config[name] for name in names})


def _check_conversion(settings: PretrainSettings, recipe: Recipe) -> None:
    """Refuse a recipe that keeps what the model lacks, or keeps all of it, before anything runs."""
    from kernels import convert
    from suites.models import LanguageModel

    convert(LanguageModel(SIZES[settings.model], settings.training.sequence, seed=0), recipe)
