import pytest

from hwmodels.netlist import Netlist
from hwmodels.timing import arrivals, critical_path, typical_slew


def chain(length: int, library) -> Netlist:
    cells = {
        f"g{i}": {"type": "INVX1", "connections": {"A": [i + 2], "Y": [i + 3]}}
        for i in range(length)
    }
    ports = {"a": {"direction": "input", "bits": [2]}}
    return Netlist.from_json({"modules": {"unit": {"ports": ports, "cells": cells}}}, library)


def test_a_chain_takes_longer_than_its_part(osu018):
    delays = [critical_path(chain(length, osu018), osu018) for length in (1, 2, 4, 8)]
    assert delays == sorted(delays)
    assert delays[3] > 6 * delays[0]


def test_the_first_gate_is_the_table(osu018):
    netlist = chain(1, osu018)
    slew = typical_slew(osu018)
    (arc,) = osu018.cells["INVX1"].outputs[0].arcs
    assert arrivals(netlist, slew)[3]["rise"][0] == pytest.approx(arc.delay["rise"].at(slew, 0.0))
