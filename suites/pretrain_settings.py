"""What a `pretrain` suite may set; nothing here needs torch."""

from __future__ import annotations

import hashlib
import json
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, field_validator

from suites.corpus import CorpusSettings
from suites.recipes import RecipeEntry
from suites.schedule import TrainingSettings
from suites.sizes import SIZES


class ReferenceBand(BaseModel):
    """Where the baseline's bits per byte lies when trained with the settings of this digest."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    low: float
    high: float
    settings: str


class PretrainSettings(BaseModel):
    """The grid of cells and how each is trained.

    Attributes:
        recipes: names or paths, or whole recipes, written as in a recipe's file.
        seeds: number of paired seeds, counted from 0.
        core: names of the recipes that get more seeds than that, and are run before the others.
        core_seeds: number of paired seeds of these.
        fidelity_steps: steps at which the GEMMs are measured, before the step is taken.
        fidelity_seeds: number of seeds, counted from 0, at which they are; None for all.
        reference_band: what the baseline is expected to reach; rows say whether it did.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str = "small"
    recipes: list[RecipeEntry] = ["bf16", "e2m1-ref", "ufp4", "nvfp4"]
    baseline: str = "bf16"
    seeds: Annotated[int, Field(gt=0)] = 1
    core: list[str] = []
    core_seeds: Annotated[int, Field(gt=0)] = 5
    fidelity_steps: list[Annotated[int, Field(ge=0)]] = []
    fidelity_seeds: Annotated[int, Field(gt=0)] | None = None
    corpus: CorpusSettings = CorpusSettings()
    training: TrainingSettings = TrainingSettings()
    reference_band: ReferenceBand | None = None

    @field_validator("model")
    @classmethod
    def _model_is_known(cls, name: str) -> str:
        if name not in SIZES:
            raise ValueError(f"unknown model size '{name}' (known: {', '.join(SIZES)})")
        return name

    def seeds_of(self, is_core: bool) -> int:
        """Number of paired seeds of a recipe."""
        return self.core_seeds if is_core else self.seeds

    @property
    def run_digest(self) -> str:
        """Identity of all but recipe and seed that decides a run; a band holds for one."""
        facts = self.model_dump(mode="json", include={"model", "corpus", "training"})
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:12]
