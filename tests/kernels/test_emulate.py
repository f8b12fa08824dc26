"""Emulation equals the reference bit for bit, by the fused path and in plain torch."""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch
from torch import Tensor, nn

from formats import BlockFormat, Grid, list_formats, load_format, load_recipe
from kernels import cpu
from kernels.convert import convert
from kernels.cpu import CpuPath, cpu_path
from kernels.emulate import Emulated, Treatment, emulate
from kernels.hadamard import Hadamard
from kernels.reference import Plan, quantize_reference
from kernels.rounding import Draws
from kernels.scaling import decode_scales

FORMATS = [
    fmt
    for fmt in (load_format(entry.name) for entry in list_formats())
    if not fmt.is_high_precision
]
DRAWS = Draws(seed=7, step=5, stream=9, row=8, column=16)
fused_only = pytest.mark.skipif(cpu_path().name != "c", reason=cpu_path().reason)
BOTH_PATHS = pytest.mark.parametrize(
    "path", [pytest.param("c", marks=fused_only), "torch"], indirect=True
)


@pytest.fixture
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(cpu, "cpu_path", lambda: CpuPath(request.param, "the test asks for it"))
    return request.param


def wild(rows: int, columns: int) -> Tensor:
    """Many magnitudes, NaN and Inf, a row near underflow, a column of zeros."""
    generator = torch.Generator().manual_seed(rows)
    x = torch.randn(rows, columns, generator=generator)
    x = x * torch.randn(rows, columns, generator=generator).mul(2).exp()
    x[3, 4], x[20, 30] = math.inf, math.nan
    x[10] *= 1e-38
    x[:, 9] = 0
    return x


def assert_equals_reference(
    x: Tensor, fmt: BlockFormat, axis: int, draws: Draws | None, size: int | None
) -> None:
    hadamard = None if size is None else Hadamard.from_seed(size, seed=3)
    signs = None if hadamard is None else torch.tensor(hadamard.signs, dtype=torch.int8)
    (emulated,) = emulate(x, [Treatment(fmt, axis, signs, draws)])
    expected = quantize_reference(x, axis, Plan(fmt, draws, hadamard))
    columns = x.shape[axis] + -x.shape[axis] % (size or 1)
    values = expected.values()[: x.shape[1 - axis], :columns]
    torch.testing.assert_close(
        emulated.values, values if axis == 1 else values.t(), rtol=0, atol=0, equal_nan=True
    )
    assert (emulated.factor is None) == (expected.tensor_scale is None)
    if emulated.factor is not None and expected.tensor_scale is not None:
        assert torch.equal(emulated.factor, expected.tensor_scale)


@pytest.mark.usefixtures("path")
@BOTH_PATHS
@pytest.mark.parametrize("size", [None, 16, 32])
@pytest.mark.parametrize("draws", [None, DRAWS], ids=["nearest", "stochastic"])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("fmt", FORMATS, ids=lambda fmt: fmt.name)
def test_equals_the_reference(
    fmt: BlockFormat, axis: int, draws: Draws | None, size: int | None
) -> None:
    assert_equals_reference(wild(33, 50), fmt, axis, draws, size)


@pytest.mark.usefixtures("path")
@BOTH_PATHS
@pytest.mark.parametrize("size", [None, 16])
@pytest.mark.parametrize("draws", [None, DRAWS], ids=["nearest", "stochastic"])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("name", ["e2m1", "nvfp4", "nvfp4-2d", "four-over-six", "mxfp8"])
def test_many_tiles_equal_the_reference(
    name: str, axis: int, draws: Draws | None, size: int | None
) -> None:
    for x in (wild(150, 203), wild(256, 128)):
        assert_equals_reference(x, load_format(name), axis, draws, size)


@pytest.mark.usefixtures("path")
@BOTH_PATHS
@pytest.mark.parametrize("shape", [(1, 7), (0, 16), (40, 0), (48, 256)])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("size", [1, 2, 128])
def test_odd_shapes_and_sizes(shape: tuple[int, int], axis: int, size: int) -> None:
    for name in ("mxfp4-floor", "nvfp4-2d"):
        assert_equals_reference(torch.randn(shape), load_format(name), axis, DRAWS, size)
        assert_equals_reference(torch.randn(shape).bfloat16(), load_format(name), axis, None, None)


@pytest.mark.usefixtures("path")
@BOTH_PATHS
@pytest.mark.parametrize("draws", [None, DRAWS], ids=["nearest", "stochastic"])
@pytest.mark.parametrize(
    "values", [(0.0, 0.3, 1.0, 1.1), (-2.0, -0.5, 0.0, 0.7)], ids=["magnitudes", "signed"]
)
def test_grids_without_a_formula_and_with_a_gain(
    values: tuple[float, ...], draws: Draws | None
) -> None:
    fmt = dataclasses.replace(
        load_format("nvfp4"), element=Grid.from_values(values), gain=0.9, block=(1, 4)
    )
    assert_equals_reference(wild(33, 50), fmt, 0, draws, 16)


@pytest.mark.usefixtures("path")
@BOTH_PATHS
def test_ties_of_a_uniform_grid_go_to_the_even_code_whatever_level_that_is() -> None:
    grid = Grid.from_values(tuple(float(level) for level in range(-3, 4)))  # 0 has code 3
    fmt = dataclasses.replace(load_format("e1m2"), element=grid)
    ties = torch.tensor([[3.0, *grid.midpoints, *[0.0] * 9]])
    assert_equals_reference(ties, fmt, 1, None, None)
    (emulated,) = emulate(ties, [Treatment(fmt, 1)])
    assert emulated.values[0, 1:7].tolist() == [-3, -1, -1, 1, 1, 3]


@pytest.mark.usefixtures("path")
@BOTH_PATHS
def test_a_strided_view_is_the_same_operand() -> None:
    x = wild(64, 40)
    for axis in (0, 1):
        assert_equals_reference(x[1::2, 3:].t(), load_format("nvfp4"), axis, DRAWS, 16)


@pytest.mark.usefixtures("path")
@BOTH_PATHS
@pytest.mark.parametrize(
    "draws",
    [
        Draws(),
        Draws(seed=2**64 - 1, step=2**32 - 1, stream=2**32 - 1, row=3, column=8),
        Draws(seed=0x9E3779B97F4A7C15, step=torch.tensor(2**31), stream=2**31, row=2**20),
    ],
    ids=["zeros", "ones", "top bits"],
)
def test_every_bit_of_a_draw_counts(draws: Draws) -> None:
    """Fractions of bits / 2^16 are rounded down, and of one more up; scales are 1."""
    bits16 = draws.bits16(5, 27, torch.device("cpu"))
    treatment = Treatment(load_format("mxint4"), axis=1, draws=draws)
    down, up = (emulate(4.0 + (bits16 + more) / 65536.0, [treatment])[0].values for more in (0, 1))
    assert torch.equal(down, torch.full((5, 27), 4.0))
    assert torch.equal(up, torch.full((5, 27), 5.0))


@fused_only
def test_the_number_of_threads_changes_nothing() -> None:
    x, treatment = wild(256, 200), Treatment(load_format("nvfp4"), axis=1, draws=DRAWS)
    threads = torch.get_num_threads()
    results = []
    try:
        for number in (1, 3):
            torch.set_num_threads(number)
            results.append(emulate(x, [treatment])[0].values)
    finally:
        torch.set_num_threads(threads)
    torch.testing.assert_close(*results, rtol=0, atol=0, equal_nan=True)


@fused_only
def test_B75_compiled_and_eager_are_bitwise_equal_on_bf16(monkeypatch: pytest.MonkeyPatch) -> None:
    treatment = Treatment(load_format("nvfp4"), axis=1)
    x = torch.randn(16, 16, 768, dtype=torch.bfloat16).flatten(0, 1)

    def fake_quant(x: Tensor) -> Emulated:
        return emulate(x, [treatment])[0]

    fused = torch.compile(fake_quant, backend="aot_eager")(x)
    monkeypatch.setattr(cpu, "cpu_path", lambda: CpuPath("torch", "the test asks for it"))
    expected = fake_quant(x)
    assert torch.equal(fused.values, expected.values)
    assert fused.factor is not None and expected.factor is not None
    assert torch.equal(fused.factor, expected.factor)


@fused_only
def test_B76_compiled_code_leaves_subnormals_alone() -> None:
    emulate(torch.randn(32, 32), [Treatment(load_format("nvfp4"), axis=0)])
    smallest = decode_scales(torch.zeros(1, dtype=torch.uint8), load_format("mxfp4-floor"))
    assert smallest.item() == 2.0**-127
    assert (torch.tensor(0.1875) * torch.tensor(2.0**-124)).item() == 0.1875 * 2.0**-124


@fused_only
def test_a_compiled_model_equals_the_eager_one() -> None:
    torch.manual_seed(0)
    recipe = dataclasses.replace(load_recipe("nvfp4"), keep_last=0.0)
    model = convert(nn.Sequential(nn.Linear(32, 48), nn.Linear(48, 32)), recipe)
    x, dy = torch.randn(2, 32, 32)
    results = []
    for run in (model, torch.compile(model)):
        model.zero_grad()
        y = run(x)
        y.backward(dy)
        results.append([y, *(layer.weight.grad for layer in model)])
    for eager_result, compiled_result in zip(*results, strict=True):
        assert torch.equal(compiled_result, eager_result)
