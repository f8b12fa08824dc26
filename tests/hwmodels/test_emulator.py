from itertools import product

import pytest

from formats import load_recipe
from hwmodels.emulator import amax_slowdown, kernel_constants, quantise_slowdown, treatment_of

TREATMENTS = ("nearest", "rht", "stochastic", "rht+stochastic")


def test_every_treatment_was_measured_and_none_is_faster_than_its_traffic():
    for orientations, treatment in product((1, 2), TREATMENTS):
        assert 1 < quantise_slowdown(orientations, treatment) < 3
    for orientations, rotated in product((1, 2), (False, True)):
        assert amax_slowdown(orientations, rotated) > 1


def test_rotations_and_random_bits_cost_time():
    nearest, rht, stochastic = (quantise_slowdown(1, name) for name in TREATMENTS[:3])
    assert nearest < rht < stochastic


def test_a_slowdown_is_time_over_that_of_traffic():
    """The copy's is one, and so are half of its time for a pass and twice for four."""
    emulator = kernel_constants().emulator
    moving = emulator.copy_us - emulator.reached.start.value
    for passes in (1, 2, 4):
        assert emulator.slowdown(passes * moving / 2, passes) == pytest.approx(1.0)


def test_treatments_of_operands_have_the_names_of_the_measured_ones():
    operands = load_recipe("e2m1-ref").operands
    found = {name: treatment_of(operand) for name, operand in operands.items()}
    assert found["x.fprop"] == "nearest" and found["x.wgrad"] == "rht"
    assert found["dy.dgrad"] == "stochastic" and found["dy.wgrad"] == "rht+stochastic"
