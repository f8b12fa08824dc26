"""depth: does shrinkage multiply up through the layers of a network?

The UFP4 paper (arXiv:2606.20381, section 3) argues: quantised operands give <Z, Z_q> / <Z, Z> =
eta = 1 - delta for a GEMM's output Z, and a signal that goes through many GEMMs keeps

    prod(1 - delta_k)  ~  exp(-sum delta_k)                                     (the product law)

Here a network and its high-precision twin of equal weights get equal inputs, and the gain
<x, x_q> / <x, x> of their signals, and of their gradients, is taken layer by layer beside the
product of the gains of the GEMMs that the signal has gone through, each measured on its own inputs.

Networks, at their initial weights on random inputs:

    stack              linear layers alone, which pass a gain on as it is: the law's own case
    stack, normalised  with RMSNorm before each linear layer, which undoes any gain
    decoder            the language model of the other suites: residual stream, norms, attention

This module imports no torch, so that settings are checked at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from pydantic import BaseModel

from suites.depth_settings import DepthSettings
from suites.experiment import Cell, Context, Selection
from suites.recipes import build_recipe, recipe_sources, refuse_equal_names
from suites.rows import Row, emulated

ASSUMED_SECONDS = 3.0


class Depth:
    """The experiment behind the suite `depth`."""

    kind: ClassVar[str] = "depth"
    Settings: ClassVar[type[BaseModel]] = DepthSettings

    def cells(self, settings: DepthSettings, selection: Selection) -> list[Cell]:
        """One cell per network, recipe and seed.

        Raises:
            ValueError: an unknown recipe or format, or one that quantises nothing.
        """
        sources = recipe_sources(settings.recipes, selection.recipes, selection.formats)
        recipes = [build_recipe(source) for source in sources]
        refuse_equal_names(recipes)
        for recipe in recipes:
            if recipe.is_high_precision:
                raise ValueError(f"recipe '{recipe.name}' quantises nothing: it has no bias")
        shared = settings.model_dump(mode="json", exclude={"networks", "recipes", "seeds"})
        return [
            Cell(
                kind=self.kind,
                label=f"{network}: {recipe.name} seed {seed}",
                config={**shared, **source, "network": network, "seed": seed},
                digests=(recipe.digest,),
            )
            for network in settings.networks
            for recipe, source in zip(recipes, sources, strict=True)
            for seed in range(selection.seeds or settings.seeds)
        ]

    def run(self, cell: Cell, context: Context) -> Iterable[Row]:
        """One row per layer, signal and direction."""
        from suites.depth_networks import measure

        recipe = build_recipe(cell.config)
        names = DepthSettings.model_fields.keys() & cell.config.keys()
        settings = DepthSettings.model_validate({name: cell.config[name] for name in names})
        network, seed = cell.config["network"], cell.config["seed"]
        for signal in measure(settings, network, recipe, seed, context.device):
            config: dict[str, Any] = {
                "recipe": recipe.name,
                "seed": seed,
                "network": network,
                "signal": signal.name,
                "direction": f"{signal.direction}, {network}: {signal.name}",
                "layer": signal.layer,
            }
            values = {
                "gain": emulated(signal.gain, ""),
                "predicted_gain": emulated(signal.predicted_gain, "", "product law"),
                "cosine": emulated(signal.cosine, ""),
            }
            yield Row(kind="depth", config=config, values=values)

    def estimate_seconds(self, cell: Cell) -> float:
        """A few seconds each, most of them compiling."""
        return ASSUMED_SECONDS

    def derive(self, rows: Sequence[Row]) -> list[Row]:
        """Nothing: each row stands for itself."""
        return []
