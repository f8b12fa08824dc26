"""Stochastic rounding: the right mean everywhere, and draws that depend on nothing but their names.

Means are tested at Z standard errors. With a few hundred tests of this kind in the suite, a right
implementation fails one of them by chance once in about 10^4 seeds, and the seeds are fixed. The
resolution of 16 bits adds 2^-17 of a gap.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from formats import BlockFormat, Grid, load_format, load_recipe
from formats.grid import E1M2, E2M1, INT4
from kernels import Draws, Hadamard, convert, fidelity, quantize
from kernels.emulate import Treatment, emulate
from kernels.reference import round_stochastically

ROOT = Path(__file__).resolve().parents[2]
Z = 5.0
RESOLUTION = 2.0**-17
DRAWS = 1 << 18
LOPSIDED = Grid.from_values((-3.0, -0.5, 0.0, 0.1, 2.0))
GRIDS = {"e2m1": E2M1, "e1m2": E1M2, "int4": INT4, "values": LOPSIDED}
CPU = torch.device("cpu")


def rounded(t: float, grid: Grid, draws: Draws, count: int = DRAWS) -> Tensor:
    """Many draws of one element, in units of the grid."""
    bits16 = draws.bits16(count // 1024, 1024, CPU)
    codes = round_stochastically(torch.full(bits16.shape, t), grid, bits16)
    return torch.tensor(grid.decode_table, dtype=torch.float64)[codes.long()]


def gaps(grid: Grid) -> list[tuple[float, float]]:
    return list(zip(grid.levels, grid.levels[1:], strict=False))


@pytest.mark.parametrize("name", sorted(GRIDS))
@pytest.mark.parametrize("share", [2.0**-12, 0.1, 0.5, 0.73, 1 - 2.0**-12])
def test_the_mean_is_the_input_in_every_gap(name: str, share: float) -> None:
    """Each gap between neighbours, below the smallest step and up to saturation included."""
    grid = GRIDS[name]
    for stream, (low, high) in enumerate(gaps(grid)):
        t = float(torch.tensor(low + share * (high - low)))
        found = rounded(t, grid, Draws(seed=1, stream=stream))
        assert set(found.unique().tolist()) <= {low, high}
        up = (t - low) / (high - low)
        error = (high - low) * (Z * math.sqrt(up * (1 - up) / DRAWS) + RESOLUTION)
        assert abs(float(found.mean()) - t) <= error, (t, low, high)


@pytest.mark.parametrize("name", sorted(GRIDS))
def test_grid_points_stay_and_nothing_passes_the_ends(name: str) -> None:
    grid = GRIDS[name]
    for level in grid.levels:
        assert (rounded(level, grid, Draws(seed=2), 4096) == level).all()
    for beyond, end in ((math.inf, grid.levels[-1]), (1.001, grid.levels[-1])):
        t = beyond if math.isinf(beyond) else end * beyond
        assert (rounded(t, grid, Draws(seed=2), 4096) == end).all()


@pytest.mark.parametrize(("t", "rate"), [(0.05, 0.10), (0.25, 0.50), (2.2, 0.20), (5.9, 0.95)])
def test_B52_B54_rates_of_rounding_up(t: float, rate: float) -> None:
    """A million draws to E2M1, within 4 sigma and the declared resolution."""
    count = 1 << 20
    found = rounded(t, E2M1, Draws(seed=3), count)
    up = float((found > t).double().mean())
    assert abs(up - rate) < 4 * math.sqrt(rate * (1 - rate) / count) + 2 * RESOLUTION
    assert found.max() <= 6


def test_B55_there_is_one_path_and_it_never_gives_zeros() -> None:
    x = torch.randn(1024, generator=torch.Generator().manual_seed(0))
    found = [
        quantize(x, load_format("nvfp4"), rounding="stochastic", seed=s).dequantize()
        for s in range(200)
    ]
    mean = torch.stack(found).mean(0)
    assert fidelity(x, mean).gain == pytest.approx(1.0, abs=0.01)
    assert all(each.count_nonzero() > 700 for each in found)


# --- whole formats ------------------------------------------------------------------------------


def gain_with_error(name: str, rows: int = 2048) -> tuple[float, float]:
    """Gain of stochastic rounding on Gaussian data and its standard error, over 16 streams."""
    x = torch.randn(rows, 256, generator=torch.Generator().manual_seed(0))
    fmt = load_format(name)
    gains = torch.tensor(
        [
            fidelity(x, quantize(x, fmt, rounding="stochastic", seed=seed).dequantize()).gain
            for seed in range(16)
        ]
    )
    return float(gains.mean()), float(gains.std()) / 4


@pytest.mark.parametrize("name", ["e2m1", "e1m2", "int4"])
def test_fp32_scales_leave_no_bias(name: str) -> None:
    gain, error = gain_with_error(name)
    assert abs(gain - 1) < Z * error
    assert error < 1e-4


@pytest.mark.parametrize("name", ["nvfp4", "nvint4"])
def test_a_rounded_down_e4m3_scale_clips_and_that_is_a_bias(
    name: str, record_property: pytest.RecordProperty
) -> None:
    """About 3.5 % of elements pass gmax, which shrinks by 0.3 %: no draws can make up for it."""
    gain, error = gain_with_error(name)
    record_property("gain", gain)
    assert gain == pytest.approx(1 - 0.00325, abs=0.0006)
    assert 1 - gain > 20 * error


def test_headroom_removes_that_bias_at_a_cost_in_noise() -> None:
    """nvfp4-headroom: 17/16 on the scale, 0.8 dB."""
    gain, error = gain_with_error("nvfp4-headroom")
    assert abs(gain - 1) < max(Z * error, 1e-4)
    x = torch.randn(1024, 256, generator=torch.Generator().manual_seed(0))
    plain, roomy = (
        fidelity(x, quantize(x, load_format(name), rounding="stochastic", seed=0).dequantize())
        for name in ("nvfp4", "nvfp4-headroom")
    )
    assert plain.sqnr_db - roomy.sqnr_db == pytest.approx(0.8, abs=0.3)


# --- independence -------------------------------------------------------------------------------


def mask(draws: Draws, rows: int = 100, columns: int = 1000) -> Tensor:
    """Where 1e5 elements in the middle of a gap are rounded up: -1 or 1."""
    bits16 = draws.bits16(rows, columns, CPU)
    codes = round_stochastically(torch.full(bits16.shape, 0.25), E2M1, bits16)
    return codes.double() * 2 - 1


def correlation(left: Tensor, right: Tensor) -> float:
    return float((left.flatten() * right.flatten()).mean())


BASE = Draws(seed=5, step=7, stream=16)


@pytest.mark.parametrize(
    "other",
    [
        replace(BASE, seed=6),
        replace(BASE, step=8),
        replace(BASE, stream=17),  # another operand of the same layer
        replace(BASE, stream=24),  # the same operand of the next layer
        replace(BASE, row=100),
        replace(BASE, column=1000),
        replace(BASE, seed=5 + (1 << 32)),
    ],
    ids=["seed", "step", "operand", "layer", "rows", "columns", "high seed word"],
)
def test_B45_B49_streams_are_independent(other: Draws) -> None:
    """Between runs, steps, tensors, layers, and the parts that ranks hold: below 0.02."""
    assert abs(correlation(mask(BASE), mask(other))) < 0.02


def test_B45_rows_and_neighbours_of_one_tensor_are_independent() -> None:
    found = mask(BASE)
    assert abs(correlation(found[::2], found[1::2])) < 0.02
    for distance in range(1, 9):
        assert abs(correlation(found[:, distance:], found[:, :-distance])) < 0.02
    assert len(found.unique(dim=0)) == len(found)


def test_B45_equal_tensors_of_two_layers_are_rounded_differently() -> None:
    model = torch.nn.Sequential(*(torch.nn.Linear(64, 64, bias=False) for _ in range(2)))
    model[1].weight = torch.nn.Parameter(model[0].weight.detach().clone())
    convert(model, load_recipe("ufp4"))
    treatments = [layer.treatment("dy.dgrad") for layer in model]
    dy = torch.randn(128, 64, generator=torch.Generator().manual_seed(0))
    left, right = (emulate(dy, [treatment])[0].values for treatment in treatments)
    assert not torch.equal(left, right)
    roles = [model[0].treatment(name).draws for name in ("dy.dgrad", "dy.wgrad")]
    assert roles[0] is not None and roles[1] is not None
    assert roles[0].stream != roles[1].stream


# --- the same draws, whoever asks ---------------------------------------------------------------


@pytest.mark.parametrize("name", ["e2m1", "nvint4", "nvfp4-2d"])
@pytest.mark.parametrize("axis", [0, 1])
def test_chunks_and_shards_draw_what_the_whole_draws(
    name: str, axis: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = torch.randn(96, 160, generator=torch.Generator().manual_seed(0))
    fmt = load_format(name)
    whole = quantize(x, fmt, axis, "stochastic", seed=9)
    monkeypatch.setattr("kernels.reference.CHUNK_ELEMENTS", 300)
    chunked = quantize(x, fmt, axis, "stochastic", seed=9)
    assert torch.equal(chunked.codes, whole.codes) and torch.equal(chunked.scales, whole.scales)
    hadamard = Hadamard.from_seed(32, seed=0)
    rotated = quantize(x, fmt, axis, "stochastic", hadamard, seed=9)
    monkeypatch.undo()
    assert torch.equal(quantize(x, fmt, axis, "stochastic", hadamard, seed=9).codes, rotated.codes)


@pytest.mark.parametrize("world", [1, 2, 4])
def test_B46_any_world_size_draws_the_same_for_the_same_tokens(world: int) -> None:
    """Ranks that hold parts of the tokens name where they begin."""
    fmt = load_format("e1m2")
    dy = torch.randn(64, 48, generator=torch.Generator().manual_seed(0))
    draws = Draws(seed=1, step=2, stream=3)
    per_rank = 64 // world
    parts = [
        quantize(part, fmt, rounding="stochastic", seed=replace(draws, row=rank * per_rank))
        for rank, part in enumerate(dy.split(per_rank))
    ]
    whole = quantize(dy, fmt, rounding="stochastic", seed=draws).dequantize()
    assert torch.equal(torch.cat([part.dequantize() for part in parts]), whole)
    along = [
        quantize(part, fmt, 0, "stochastic", seed=replace(draws, column=rank * per_rank))
        for rank, part in enumerate(dy.split(per_rank))
    ]
    whole = quantize(dy, fmt, 0, "stochastic", seed=draws).dequantize()
    assert torch.equal(torch.cat([part.dequantize() for part in along]), whole)


@pytest.mark.parametrize("format_name", ["e2m1", "nvint4", "mxfp4-rceil"])
def test_layouts_draw_by_place_and_not_by_memory(format_name: str) -> None:
    """Emulating X^T along its rows draws what quantising X along its columns does."""
    fmt: BlockFormat = load_format(format_name)
    x = torch.randn(40, 96, generator=torch.Generator().manual_seed(0))
    (emulated,) = emulate(x, [Treatment(fmt, 0, None, Draws(seed=4))])
    found = quantize(x.t().contiguous(), fmt, 1, "stochastic", seed=4)
    factor = 1.0 if emulated.factor is None else emulated.factor
    assert torch.equal((emulated.values * factor).t(), found.dequantize())


def test_B51_draws_depend_on_no_global_state_and_on_no_process() -> None:
    x = torch.ones(4, 64) * 0.3
    x[:, ::16] = 1.0
    code = (
        "import sys, torch; sys.path.insert(0, sys.argv[1])\n"
        "from formats import load_format\n"
        "from kernels import quantize\n"
        "torch.manual_seed(int(sys.argv[2])); torch.rand(int(sys.argv[2]))\n"
        "x = torch.ones(4, 64) * 0.3; x[:, ::16] = 1.0\n"
        "q = quantize(x, load_format('e2m1'), rounding='stochastic', seed=11)\n"
        "print(bytes(q.codes.flatten().tolist()).hex())\n"
    )
    command = [sys.executable, "-c", code, str(ROOT)]
    told = [
        subprocess.run(
            [*command, seed], capture_output=True, text=True, check=True,
            env={**os.environ, "OMP_NUM_THREADS": threads},
        ).stdout.strip()
        for seed, threads in (("1", "1"), ("99", "2"))
    ]  # fmt: skip
    before = torch.get_rng_state()
    here = quantize(x, load_format("e2m1"), rounding="stochastic", seed=11)
    assert torch.equal(torch.get_rng_state(), before)
    assert told == [bytes(here.codes.flatten().tolist()).hex()] * 2
