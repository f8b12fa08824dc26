"""Rows of training runs with given losses, as a study has them."""

from __future__ import annotations

from collections.abc import Sequence

from suites.claims import runs_by_recipe
from suites.degradation import SeedRows
from suites.rows import Row, emulated, measured


def run(recipe: str, seed: int, loss: float) -> Row:
    return Row(
        kind="training",
        config={"recipe": recipe, "seed": seed, "model": "m", "steps": 10, "step_tokens": 100,
                "high_precision_steps": 0},
        values={
            "validation_loss": emulated(loss, "nats/token"),
            "tokens_per_second": measured(2e6, "tokens/s"),
            "energy_joules": measured(9000, "J"),
            "step_seconds": measured(0.1, "s"),
        },
        facts={
            "baseline": "bf16", "parameters": 10_000_000, "epochs": 1.5, "bytes_per_token": 3.0,
            "device": "a GPU",
        },
    )  # fmt: skip


def runs(**losses: Sequence[float]) -> dict[str, SeedRows]:
    rows = [
        run(recipe.replace("_", "-"), seed, loss)
        for recipe, found in losses.items()
        for seed, loss in enumerate(found)
    ]
    return runs_by_recipe(rows)
