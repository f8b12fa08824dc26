"""Figures of fidelity on cases that can be worked out by hand."""

from __future__ import annotations

import math

import pytest
import torch

from formats import load_format
from formats.grid import E2M1, INT4
from kernels import Hadamard, bucket_utilisation, fidelity, quantize


def test_figures_of_a_shrunk_tensor() -> None:
    """q = 0.9 x: gain 0.9, error 10 %, 20 dB."""
    x = torch.tensor([[3.0, -4.0]])
    found = fidelity(x, 0.9 * x)
    assert found.gain == pytest.approx(0.9)
    assert found.relative_l2 == pytest.approx(0.1)
    assert found.sqnr_db == pytest.approx(20.0, abs=1e-5)


def test_exact_zero_and_poisoned_tensors() -> None:
    x = torch.ones(4)
    assert fidelity(x, x).sqnr_db == math.inf
    assert math.isnan(fidelity(torch.zeros(4), x).gain)
    assert math.isnan(fidelity(x, x * math.nan).gain)


def test_small_errors_are_not_lost_in_fp32() -> None:
    x = torch.full((1 << 20,), 1.0 + 2.0**-12)
    assert fidelity(x, x.double() * (1 - 1e-9)).relative_l2 == pytest.approx(1e-9, rel=1e-3)


def test_utilisation_is_the_share_of_magnitudes_in_use() -> None:
    every = torch.arange(8, dtype=torch.uint8)
    assert bucket_utilisation(every, E2M1) == pytest.approx(1.0)
    assert bucket_utilisation(every + 8, E2M1) == pytest.approx(1.0)  # signs do not count
    assert bucket_utilisation(torch.tensor([0, 8], dtype=torch.uint8), E2M1) == pytest.approx(1 / 8)
    assert bucket_utilisation(torch.tensor([1, 15, 3], dtype=torch.uint8), INT4) < 2 / 8


def test_rotation_fills_the_buckets_of_a_uniform_grid() -> None:
    """B_eff of silu(g) * u with sigma 1.5: .574 as it is, .968 after RHT 16."""
    generator = torch.Generator().manual_seed(0)
    gate, up = (1.5 * torch.randn(1024, 512, generator=generator) for _ in range(2))
    x = torch.nn.functional.silu(gate) * up
    plain, rotated = (
        quantize(x, load_format("e1m2"), hadamard=hadamard)
        for hadamard in (None, Hadamard.from_seed(16, seed=0))
    )
    assert bucket_utilisation(plain.unpacked(), plain.grid) == pytest.approx(0.574, abs=0.005)
    assert bucket_utilisation(rotated.unpacked(), rotated.grid) == pytest.approx(0.968, abs=0.005)
