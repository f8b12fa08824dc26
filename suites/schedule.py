"""Schedule: how long, how fast and on what batches a model is trained; nothing here needs torch.

The learning rate rises linearly over the warm-up and then falls to `final_fraction` of its peak,

    cosine   along half a cosine over all the remaining steps, wsd      in a straight line over the
    last `decay_fraction` of all steps (warm-up, stable, decay).
"""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

Fraction = Annotated[float, Field(ge=0, le=1)]


class TrainingSettings(BaseModel):
    """Everything about a training run but its model, its text, its recipe and its seed.

    Attributes:
        high_precision_steps: first steps that every recipe takes in high precision. A small model
            learns to look back in its text at once, some time in its first hundreds of steps, and
            chance decides when; recipes that part later differ by less chance.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    steps: Annotated[int, Field(gt=0)] = 300
    high_precision_steps: Annotated[int, Field(ge=0)] = 0
    batch: Annotated[int, Field(gt=0)] = 16  # sequences of a micro-batch
    accumulate: Annotated[int, Field(gt=0)] = 1  # micro-batches of a step
    sequence: Annotated[int, Field(gt=0)] = 128  # tokens
    max_epochs: Annotated[float, Field(gt=0)] = 4

    learning_rate: Annotated[float, Field(gt=0)] = 3e-3
    warmup_steps: Annotated[int, Field(ge=0)] = 20
    decay: Literal["cosine", "wsd"] = "cosine"
    decay_fraction: Fraction = 0.2
    final_fraction: Fraction = 0.1
    betas: tuple[Fraction, Fraction] = (0.9, 0.95)
    weight_decay: Annotated[float, Field(ge=0)] = 0.1
    clip_norm: Annotated[float, Field(gt=0)] = 1.0
    balance_weight: Annotated[float, Field(ge=0)] = 0.01  # of a mixture's load-balance loss

    validation_sequences: Annotated[int, Field(gt=0)] = 256
    validation_every: Annotated[int, Field(gt=0)] = 100  # steps; the last step always validates
    tail_fraction: Annotated[float, Field(gt=0, le=1)] = (
        0.2  # of the steps, for the tail's mean loss
    )
    checkpoint_every: Annotated[int, Field(gt=0)] = 100  # steps

    @model_validator(mode="after")
    def _warmup_ends(self) -> TrainingSettings:
        if self.warmup_steps >= self.steps:
            raise ValueError(f"warmup_steps {self.warmup_steps} is not below steps {self.steps}")
        if self.high_precision_steps >= self.steps:
            raise ValueError(
                f"high_precision_steps {self.high_precision_steps} is not below steps {self.steps}"
            )
        return self

    @property
    def step_tokens(self) -> int:
        """Tokens of one optimizer step."""
        return self.batch * self.accumulate * self.sequence

    @property
    def tail_start(self) -> int:
        """Steps that are not of the tail; it holds one step at least."""
        return self.steps - max(1, round(self.tail_fraction * self.steps))

    @property
    def micro_batches(self) -> int:
        """Micro-batches of the whole run."""
        return self.steps * self.accumulate

    def learning_rate_at(self, step: int) -> float:
        """Learning rate of a step, counted from 0."""
        if step < self.warmup_steps:
            return self.learning_rate * (step + 1) / self.warmup_steps
        return self.learning_rate * (1 - (1 - self.final_fraction) * self._decayed(step))

    def _decayed(self, step: int) -> float:
        """How much of the decay lies behind, 0 to 1."""
        if self.decay == "cosine":
            progress = (step - self.warmup_steps) / (self.steps - self.warmup_steps)
            return (1 - math.cos(math.pi * progress)) / 2
        stable = max(self.steps * (1 - self.decay_fraction), self.warmup_steps)
        return max(0.0, (step - stable) / (self.steps - stable))
