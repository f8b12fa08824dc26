"""Averaging: the mean of what was added, lent to the model and taken back, through a checkpoint."""

from __future__ import annotations

import torch
from torch import nn

from suites.averaging import WeightAverage


def set_weight(model: nn.Linear, value: float) -> None:
    with torch.no_grad():
        model.weight.fill_(value)


def test_model_has_the_mean_for_a_while_in_place() -> None:
    model = nn.Linear(2, 2, bias=False)
    average, address = WeightAverage(model), model.weight.data_ptr()
    for value in (1.0, 2.0, 6.0):
        set_weight(model, value)
        average.add()
    with average.applied():
        assert torch.allclose(model.weight, torch.tensor(3.0))
        assert model.weight.data_ptr() == address
    assert torch.equal(model.weight, torch.full((2, 2), 6.0))


def test_saved_mean_goes_on_as_if_it_had_not_been_saved() -> None:
    model = nn.Linear(2, 2)
    straight = WeightAverage(model)
    straight.add()
    saved = WeightAverage(model)
    saved.load_state_dict({"points": 1, "means": {k: v.clone() for k, v in straight.means.items()}})
    set_weight(model, 5.0)
    for average in (straight, saved):
        average.add()
    assert saved.points == 2
    assert all(torch.equal(mean, straight.means[name]) for name, mean in saved.means.items())
