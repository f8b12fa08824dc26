import pytest

from hwmodels.netlist import Netlist
from hwmodels.power import edges, switching_energy


def test_edges_count_rises_and_falls():
    assert edges(0b0110, 4) == (1, 1)
    assert edges(0b1010, 4) == (2, 1)
    assert edges(0b1111, 4) == (0, 0)


def test_one_inverter_costs_its_load_and_its_table(osu018):
    inverter = osu018.cells["INVX1"]
    document = {
        "modules": {
            "unit": {
                "ports": {
                    "a": {"direction": "input", "bits": [2]},
                    "y": {"direction": "output", "bits": [3]},
                },
                "cells": {"g": {"type": "INVX1", "connections": {"A": [2], "Y": [3]}}},
            }
        }
    }
    netlist = Netlist.from_json(document, osu018)
    still = switching_energy(netlist, osu018, netlist.evaluate({"a": [0, 0, 0]}), 3)
    moving = switching_energy(netlist, osu018, netlist.evaluate({"a": [0, 1, 0]}), 3)
    assert still == 0
    load = 0.5 * inverter.pins["A"].capacitance * osu018.voltage**2
    assert moving > load  # the input's capacitance, and the cell's own energy on top


def test_energy_needs_a_transition(osu018):
    with pytest.raises(ValueError, match="at least two vectors"):
        switching_energy(Netlist((), {}), osu018, {}, 1)
