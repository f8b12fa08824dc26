"""Averaging: the mean of the weights at several points of a run's tail, as one more model.

Two runs that differ by their rounding alone end at different points around the same valley. The
mean of a run's last weights lies nearer to the middle (weight averaging, arXiv:1803.05407, and of
the latest checkpoints, arXiv:2209.14981), so its loss tells recipes apart with less noise. All
recipes are averaged alike, over the points at which they are validated.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn


class WeightAverage:
    """A running mean of a model's parameters.

    Attributes:
        points: number of sets of weights in the mean.
    """

    def __init__(self, model: nn.Module) -> None:
        self.model, self.points = model, 0
        self.means: dict[str, Tensor] = {}

    @torch.no_grad()
    def add(self) -> None:
        """Take the model's weights as they are now into the mean."""
        self.points += 1
        for name, weight in self.model.named_parameters():
            if name in self.means:
                self.means[name].lerp_(weight, 1 / self.points)
            else:
                self.means[name] = weight.detach().clone()

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Let the model have the mean weights for a while; they change in place, and back."""
        own = {name: weight.detach().clone() for name, weight in self.model.named_parameters()}
        self._write(self.means)
        try:
            yield
        finally:
            self._write(own)

    def state_dict(self) -> dict[str, Any]:
        """All that the mean is made of."""
        return {"points": self.points, "means": self.means}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a saved mean of the same model."""
        self.points = state["points"]
        for name, weight in self.model.named_parameters():
            if name in state["means"]:
                self.means[name] = state["means"][name].to(weight.device)

    @torch.no_grad()
    def _write(self, weights: dict[str, Tensor]) -> None:
        for name, weight in self.model.named_parameters():
            weight.copy_(weights[name])
