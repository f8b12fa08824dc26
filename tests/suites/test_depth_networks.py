"""Signals through depth: the law holds where it must, and norms undo a gain."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from formats import Recipe, load_format, load_recipe, plain_recipe
from formats.grid import Grid
from suites.depth_networks import Signal, Stack, build, follow, measure
from suites.depth_settings import DepthSettings

SETTINGS = DepthSettings(layers=6, width=64, tokens=256, seeds=1)


def signals(network: str, recipe: Recipe, direction: str) -> list[Signal]:
    found = measure(SETTINGS, network, recipe, 0, "cpu")  # type: ignore[arg-type]
    return [signal for signal in found if signal.direction == direction]


def test_product_law_holds_for_a_stack_of_linear_layers() -> None:
    """Each GEMM's shrinkage is passed on; noise adds only a little of its own."""
    last = signals("stack", load_recipe("e2m1-ref"), "forward")[-1]
    assert last.layer == SETTINGS.layers
    assert last.predicted_gain < 0.98
    assert last.gain == pytest.approx(last.predicted_gain, abs=0.02)


def test_first_layer_is_predicted_exactly_and_the_last_gradient_is_not_touched() -> None:
    first = signals("stack", load_recipe("e2m1-ref"), "forward")[0]
    assert first.gain == pytest.approx(first.predicted_gain, abs=1e-6)
    last = signals("stack", load_recipe("e2m1-ref"), "backward")[-1]
    assert (last.gain, last.predicted_gain) == (pytest.approx(1.0), 1.0)


def test_norms_leave_of_the_gain_only_what_the_direction_lost() -> None:
    """An unbiased quantiser lengthens a signal by its noise; a norm takes that back."""
    plain, normed = (
        signals(network, load_recipe("ufp4"), "forward")[-1]
        for network in ("stack", "stack, normalised")
    )
    assert plain.gain == pytest.approx(1.0, abs=0.01)
    assert plain.gain / plain.cosine > 1.02
    assert normed.gain == pytest.approx(normed.cosine, abs=0.01)


def test_fine_format_keeps_every_signal() -> None:
    fine = plain_recipe(replace(load_format("int4"), element=Grid.from_int(8)))
    for network in ("stack", "stack, normalised", "decoder"):
        gains = [signal.gain for signal in signals(network, fine, "forward")]
        assert gains == pytest.approx([1.0] * len(gains), abs=1e-2)


def test_twins_of_high_precision_are_equal() -> None:
    model, run = build(SETTINGS, "stack", 0, "cpu")
    twin, _ = build(SETTINGS, "stack", 0, "cpu")
    assert isinstance(model, Stack)
    for one, other in zip(
        follow(model, run, []).values(), follow(twin, run, []).values(), strict=True
    ):
        assert all(torch.equal(one.tensors[d], other.tensors[d]) for d in one.tensors)
        assert set(one.behind.values()) == {0}
