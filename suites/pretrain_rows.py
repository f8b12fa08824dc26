"""What a pretraining run left behind, as result rows."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from typing import Any

from formats import Recipe
from suites.batches import Validation
from suites.pretrain_settings import PretrainSettings
from suites.rows import Quantity, Row, Series, emulated, measured
from suites.sizes import ModelConfig
from suites.training import DivergedError

GIB = 2**30


@dataclass(frozen=True)
class Outcome:
    """A run that ended, at its last step or at a number that was not finite.

    Attributes:
        losses: training loss of each step, nats per token; `validation_losses` by steps taken.
        averaged_loss: validation loss of the mean of the weights at `averaged_points` validations
            of the tail, nats per token; None if the run diverged.
        observations: config and values of each fidelity row.
        facts: what only the machine and the model know: device, path of the GEMMs, layers, ...
        router_agreement: share of expert choices equal to those of high precision, mixtures only.
    """

    settings: PretrainSettings
    recipe: Recipe
    seed: int
    model: ModelConfig
    validation: Validation
    losses: list[float]
    validation_losses: list[tuple[int, float]]
    averaged_loss: float | None
    averaged_points: int
    step_seconds: list[float]
    energy: Quantity
    observations: list[dict[str, dict[str, Any]]]
    peak_memory: Quantity
    facts: dict[str, Any]
    diverged: DivergedError | None = None
    router_agreement: float | None = None

    @property
    def final_validation_loss(self) -> float:
        """Nats per token; NaN if the run diverged."""
        return math.nan if self.diverged else self.validation_losses[-1][1]

    @property
    def tail_train_loss(self) -> float:
        """Mean training loss of the last steps, nats per token; NaN if the run diverged."""
        tail = self.losses[self.settings.training.tail_start :]
        return math.nan if self.diverged else statistics.fmean(tail)

    @property
    def bits_per_byte(self) -> float:
        """Of the validation text."""
        return self.validation.bits_per_byte(self.final_validation_loss)


def training_row(outcome: Outcome) -> Row:
    """The row of kind "training"."""
    return Row(
        kind="training",
        status="diverged" if outcome.diverged else "ok",
        config=_config(outcome),
        values=_losses(outcome) | _costs(outcome),
        facts=_facts(outcome),
        series=_series(outcome),
        error=str(outcome.diverged) if outcome.diverged else None,
    )


def fidelity_rows(outcome: Outcome) -> list[Row]:
    """Rows of kind "fidelity", one per observed operand or GEMM output."""
    units = {"sqnr_db": "dB"}
    return [
        Row(
            kind="fidelity",
            config={
                "recipe": outcome.recipe.name, "seed": outcome.seed, **observation["config"]
            },
            values={
                name: emulated(value, units.get(name, ""))
                for name, value in observation["values"].items()
            },
        )
        for observation in outcome.observations
    ]  # fmt: skip


def _config(outcome: Outcome) -> dict[str, Any]:
    training = outcome.settings.training
    return {
        "recipe": outcome.recipe.name,
        "seed": outcome.seed,
        "model": outcome.model.name,
        "steps": training.steps,
        "step_tokens": training.step_tokens,
        "sequence": training.sequence,
        "learning_rate": training.learning_rate,
        "high_precision_steps": training.high_precision_steps,
    }


def _losses(outcome: Outcome) -> dict[str, Quantity]:
    quantity = measured if outcome.recipe.is_high_precision else emulated
    values = {
        "validation_loss": quantity(outcome.final_validation_loss, "nats/token"),
        "bits_per_byte": quantity(outcome.bits_per_byte, "bits/byte"),
        "tail_train_loss": quantity(outcome.tail_train_loss, "nats/token"),
        "averaged_validation_loss": quantity(
            math.nan if outcome.diverged else outcome.averaged_loss,
            "nats/token",
            f"of the mean of the weights at {outcome.averaged_points} points of the tail",
        ),
    }
    if outcome.router_agreement is not None:
        values["router_agreement"] = quantity(outcome.router_agreement, "")
    return values


def _costs(outcome: Outcome) -> dict[str, Quantity]:
    training = outcome.settings.training
    seconds = outcome.step_seconds[training.high_precision_steps :]
    step = statistics.median(seconds) if seconds else None
    rate = training.step_tokens / step if step else None
    operations = outcome.model.operations_per_token(training.sequence)
    return {
        "step_seconds": measured(step, "s", f"median of {len(seconds)} steps"),
        "tokens_per_second": measured(rate, "tokens/s"),
        "model_tflops": measured(
            rate * operations / 1e12 if rate else None,
            "TFLOP/s",
            "GEMMs and attention of the model, counted; emulation is not",
        ),
        "peak_memory_gib": outcome.peak_memory,
        "energy_joules": outcome.energy,
    }


def _facts(outcome: Outcome) -> dict[str, Any]:
    facts = {
        **outcome.facts,
        "baseline": outcome.settings.baseline,
        "parameters": outcome.model.parameters,
        "bytes_per_token": outcome.validation.bytes_per_token,
    }
    if outcome.recipe.name == outcome.settings.baseline:
        facts["reference_band"] = compare_with_band(outcome)
    if outcome.diverged is not None:
        facts["diverged_step"] = outcome.diverged.step
        facts["diverged_layer"] = outcome.diverged.layer
        facts["diverged_tensor"] = outcome.diverged.tensor
    return facts


def compare_with_band(outcome: Outcome) -> str:
    """Whether the baseline trained as well as it is known to, in words."""
    band, digest = outcome.settings.reference_band, outcome.settings.run_digest
    if band is None or band.settings != digest:
        return f"no band is known for these settings ({digest})"
    inside = band.low <= outcome.bits_per_byte <= band.high  # False for the NaN of a diverged run
    return f"{'inside' if inside else 'outside'} {band.low:g} to {band.high:g} bits per byte"


def _series(outcome: Outcome) -> dict[str, Series]:
    curves = {
        "train_loss": list(enumerate(outcome.losses, start=1)),
        "validation_loss": outcome.validation_losses,
    }
    return {
        name: Series(
            x=[float(step) for step, _ in curve],
            y=[loss for _, loss in curve],
            x_label="step",
            y_label=name.replace("_", " "),
            unit="nats/token",
        )
        for name, curve in curves.items()
    }
