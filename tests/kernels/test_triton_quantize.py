"""The fused quantiser equals the reference bit for bit: interpreted on a CPU, compiled on a GPU.

Triton decides at import whether it interprets, so without a GPU the cases run in a child process.
Memory that torch hands out is filled with NaN first: what a kernel does not write shows.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import product

import pytest
import torch
import triton
import triton.language as tl
from torch import Tensor

from formats import load_format
from kernels.emulate import Treatment
from kernels.hadamard import Hadamard
from kernels.reference import Plan, quantize_reference, round_stochastically
from kernels.rounding import Draws
from kernels.triton_rounding import GridFacts, round_stochastic

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
ON_GPU = torch.cuda.is_available() and not INTERPRETED
DEVICE = "cuda" if ON_GPU else "cpu"
runs = pytest.mark.skipif(not (ON_GPU or INTERPRETED), reason="runs in the child process")
on_gpu = pytest.mark.gpu
FORMATS = ("e2m1", "e1m2", "int4", "nvfp4", "nvint4", "nvfp4-2d", "four-over-six", "mxfp8")
RULES = ("mxfp4-floor", "mxfp4-rceil", "mxfp4-ceil", "mxfp4-even", "nvfp4-headroom")
OWN_GRID = """
name: own
summary: an uneven code book
element: {values: [%s]}
block: 16
scale: {format: %s}
source: a test
"""


@pytest.mark.skipif(ON_GPU or INTERPRETED, reason="the cases run in this process")
def test_cases_of_this_file_hold_when_interpreted() -> None:
    environment = {**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-m",
        "not gpu",
        "-p",
        "no:cacheprovider",
        __file__,
    ]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout[-4000:] + result.stderr[-2000:]
    assert " passed" in result.stdout


@pytest.fixture(autouse=True)
def poisoned_memory() -> Iterator[None]:
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True, warn_only=True)
    assert torch.empty(3).isnan().all()
    yield
    torch.use_deterministic_algorithms(before)


def sample(rows: int, columns: int, dtype: torch.dtype = torch.bfloat16) -> Tensor:
    """Wide in range, with a NaN, an Inf, a row of zeros and rows at the end of FP32's range.

    BF16 has no subnormals here: the interpreter misreads them.
    """
    generator = torch.Generator().manual_seed(rows * columns)
    x = torch.randn(rows, columns, generator=generator)
    x *= torch.exp(3 * torch.randn(rows, 1, generator=generator))
    x[1, columns // 2], x[2, 1] = float("nan"), float("-inf")
    x[3] = 0.0
    if dtype == torch.float32:
        x[4], x[5] = x[4] * 1e-38, x[5] * 1e-42
    return x.to(dtype).to(DEVICE)


def expected(x: Tensor, treatment: Treatment) -> tuple[Tensor, Tensor | None]:
    """The reference's values in x's layout, the contraction in whole Hadamard pieces."""
    size = 1 if treatment.signs is None else treatment.signs.numel()
    hadamard = None if size == 1 else Hadamard(tuple(treatment.signs.tolist()))
    plan = Plan(treatment.format, treatment.draws, hadamard)
    quantized = quantize_reference(x, treatment.axis, plan)
    length = -(-x.shape[treatment.axis] // size) * size
    values = quantized.values()[: x.shape[1 - treatment.axis], :length]
    values = torch.nn.functional.pad(values, (0, length - values.shape[1]))
    return values if treatment.axis == 1 else values.t(), quantized.tensor_scale


def treat(fmt: str, axis: int, size: int | None, stochastic: bool) -> Treatment:
    signs = None
    if size is not None:
        signs = torch.tensor(Hadamard.from_seed(size, 1).signs, dtype=torch.int8, device=DEVICE)
    draws = Draws(2**40 + 3, 7, 9 + axis, row=5, column=16) if stochastic else None
    return Treatment(load_format(fmt), axis, signs, draws)


def assert_equal(actual: Tensor | None, reference: Tensor | None) -> None:
    assert (actual is None) == (reference is None)
    if actual is not None and reference is not None:
        assert actual.shape == reference.shape
        assert torch.equal(actual.isnan(), reference.isnan())
        assert torch.equal(actual.nan_to_num(), reference.nan_to_num())


def check(x: Tensor, *treatments: Treatment) -> None:
    from kernels.tiling import Tile
    from kernels.triton_quantize import emulate_triton

    before = x.clone()
    reach = 128 if INTERPRETED else 0
    tile = Tile(reach, reach, 4) if reach else None
    for treatment, result in zip(
        treatments, emulate_triton(x, treatments, torch.float32, tile), strict=True
    ):
        values, factor = expected(x, treatment)
        assert_equal(result.values, values)
        assert_equal(result.factor, factor)
    assert torch.equal(x.isnan(), before.isnan())
    assert torch.equal(x.nan_to_num(), before.nan_to_num())


@runs
@pytest.mark.parametrize("fmt", FORMATS + RULES)
def test_both_orientations_equal_the_reference(fmt: str) -> None:
    x = sample(37, 75)
    for size, stochastic in product((None, 16), (False, True)):
        check(x, treat(fmt, 1, size, stochastic), treat(fmt, 0, size, stochastic))


@runs
@pytest.mark.parametrize("size", [32, 64, 128])
def test_longer_transforms_equal_the_reference(size: int) -> None:
    check(sample(37, 140), treat("e1m2", 1, size, False), treat("e1m2", 0, size, False))


@runs
@pytest.mark.parametrize("scale", ["fp32", "bf16", "e4m3", "ue5m3"])
@pytest.mark.parametrize(
    "values",
    ["0, 1, 2.7, 3.1, 6, 8, 9, 11.5", "-3, -1, 0, 0.3, 0.6, 5", "-3, -2, -1, 0, 1, 2, 3"],
)
def test_any_code_book_and_scale_equal_the_reference(tmp_path, values: str, scale: str) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(OWN_GRID % (values, scale))
    for stochastic in (False, True):
        check(sample(20, 50), treat(str(path), 1, None, stochastic))


@runs
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_other_input_types_equal_the_reference(dtype: torch.dtype) -> None:
    x = sample(20, 64, torch.float32)
    x = x if dtype == torch.float32 else x.clamp(-6e4, 6e4).to(dtype)
    check(x, treat("nvfp4", 1, 16, True), treat("e2m1", 0, None, False))


@runs
def test_every_tie_and_its_neighbours_round_as_the_reference_does() -> None:
    fmt = load_format("mxfp4-rceil")
    assert fmt.element is not None
    ties = torch.tensor([*fmt.element.midpoints, *fmt.element.levels])
    points = torch.cat((ties, ties.nextafter(ties + 1), ties.nextafter(ties - 1)))
    x = torch.nn.functional.pad(points.view(-1, 1), (0, 31), value=6.0).to(DEVICE)
    check(x, treat("mxfp4-rceil", 1, None, False))


@triton.jit
def _rounded(t, bits16, out, facts: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, round_stochastic(tl.load(t + at), tl.load(bits16 + at), facts))


@runs
@pytest.mark.parametrize("name", ["e1m2", "int4", "e2m1", "mxfp8"])
def test_stochastic_ties_and_their_neighbours_round_as_the_reference_does(name: str) -> None:
    """Elements (k + 1/2) / 2^16 of a spacing above a level, with draws around k."""
    grid = load_format(name).element
    assert grid is not None
    generator = torch.Generator().manual_seed(0)
    draw = torch.randint(0, 65536, (8192,), generator=generator)
    draw[:4] = torch.tensor([0, 1, 65534, 65535])
    levels = torch.tensor(grid.magnitudes)
    at = torch.randint(0, len(levels) - 1, draw.shape, generator=generator)
    ties = levels[at] + (draw + 0.5) / 65536 * (levels[at + 1] - levels[at])
    t = torch.cat((ties, ties.nextafter(ties + 1), ties.nextafter(ties - 1), levels[at]))
    t = torch.cat((t, -t, 1.01 * t, torch.rand(t.shape, generator=generator) * 2.0**-17))
    near = draw.repeat(16) + torch.randint(-1, 2, t.shape, generator=generator)
    bits16 = near.clamp(0, 65535).int().to(DEVICE)
    t = t.to(DEVICE)
    out = torch.empty_like(t)
    _rounded[(len(t) // 1024,)](
        t, bits16, out, GridFacts.of(grid), BLOCK=1024, enable_fp_fusion=False
    )
    table = torch.tensor(grid.decode_table, device=DEVICE)
    exact = table[round_stochastically(t, grid, bits16).long()]
    assert torch.equal(out, exact)


@runs
@pytest.mark.parametrize("shape", [(1, 1), (1, 16), (17, 1), (3, 129), (129, 3)])
def test_odd_shapes_equal_the_reference(shape: tuple[int, int]) -> None:
    x = torch.linspace(-3, 4, shape[0] * shape[1]).view(shape).to(DEVICE)
    check(x, treat("nvfp4", 1, 16, True), treat("nvfp4", 0, 16, True))


@runs
@pytest.mark.parametrize("shape", [(0, 32), (32, 0), (0, 0)])
def test_empty_tensors_launch_nothing(shape: tuple[int, int], monkeypatch) -> None:
    from kernels import triton_quantize

    monkeypatch.setattr(triton_quantize, "_launch", None)
    x = torch.empty(shape, device=DEVICE)
    for result in triton_quantize.emulate_triton(
        x, [treat("nvfp4", 1, 16, False), treat("e2m1", 0, None, False)]
    ):
        assert result.values.shape == shape
    check(x, treat("nvfp4", 1, 16, True))


@runs
def test_B33_strided_views_are_read_by_their_strides() -> None:
    big = sample(48, 80)
    for x in (big[:, :32], big.t(), big[:, ::2], big[::3], big[6:7].expand(20, -1)):
        check(x, treat("e2m1", 1, None, False), treat("nvfp4", 0, 16, False))


@runs
def test_bfloat16_values_are_exact_where_the_format_says_so() -> None:
    from kernels.triton_quantize import emulate_triton

    x = sample(32, 64)
    for fmt, exact in (("nvfp4", True), ("mxint4", True), ("e2m1", False)):
        (default,) = emulate_triton(x, [treat(fmt, 1, None, False)])
        assert default.values.dtype == (torch.bfloat16 if exact else torch.float32)
        values, _ = expected(x, treat(fmt, 1, None, False))
        (rounded,) = emulate_triton(x, [treat(fmt, 1, None, False)], torch.bfloat16)
        if exact or ON_GPU:  # the interpreter truncates what it stores as BF16
            assert_equal(rounded.values.float(), values.bfloat16().float())
        assert not exact or torch.equal(rounded.values.float().nan_to_num(), values.nan_to_num())


@runs
def test_a_step_in_memory_draws_as_a_step_by_value_does() -> None:
    from kernels.triton_quantize import emulate_triton

    x = sample(16, 32)
    fmt = load_format("e2m1")
    step = torch.tensor(5, device=DEVICE)
    results = [
        emulate_triton(x, [Treatment(fmt, 1, None, Draws(3, at, 1))])[0].values.nan_to_num()
        for at in (5, step, 6)
    ]
    assert torch.equal(results[0], results[1])
    assert not torch.equal(results[0], results[2])


@runs
def test_codes_scales_and_counters_equal_the_reference() -> None:
    from kernels.tiling import Tile
    from kernels.triton_encode import quantize_triton

    x = sample(37, 75)
    for fmt, axis, stochastic in product(FORMATS + RULES, (0, 1), (False, True)):
        treatment = treat(fmt, axis, 16, stochastic)
        hadamard = Hadamard(tuple(treatment.signs.tolist()))
        reference = quantize_reference(x, axis, Plan(treatment.format, treatment.draws, hadamard))
        actual = quantize_triton(x, treatment, Tile(64, 128, 4))
        assert torch.equal(actual.codes, reference.codes), fmt
        assert actual.scales.dtype == reference.scales.dtype
        assert_equal(actual.scales.float(), reference.scales.float())
        assert_equal(actual.tensor_scale, reference.tensor_scale)
        assert actual.counters == reference.counters, fmt


@runs
@pytest.mark.parametrize("shape", [(3, 5, 40), (70,), (2, 3, 4, 5), (0, 3, 16), (2, 3, 0)])
def test_any_shape_and_axis_is_quantised_as_the_reference_does(shape: tuple[int, ...]) -> None:
    from kernels.triton_encode import quantize_fused

    x = torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(DEVICE)
    plan = Plan(load_format("nvfp4"), Draws(5, 6, 7), Hadamard.from_seed(16, 1))
    for axis in dict.fromkeys((0, len(shape) // 2, -1)):
        reference, actual = quantize_reference(x, axis, plan), quantize_fused(x, axis, plan)
        assert torch.equal(actual.codes, reference.codes)
        assert torch.equal(actual.scales, reference.scales)
        assert_equal(actual.dequantize(), reference.dequantize())
        assert actual.counters == reference.counters


@runs
# The interpreter cuts off what does not fit into BF16.
@pytest.mark.parametrize("dtype", [torch.float32, pytest.param(torch.bfloat16, marks=on_gpu)])
def test_the_epilogue_multiplies_in_fp32(dtype: torch.dtype) -> None:
    from kernels.triton_epilogue import scale_triton

    product = torch.randn(7, 1025, generator=torch.Generator().manual_seed(0)).to(DEVICE, dtype)
    factor = torch.tensor(0.3, device=DEVICE)
    exact = (product.float() * factor).to(dtype)
    assert torch.equal(scale_triton(product.clone(), factor), exact)
    assert scale_triton(product[:0], factor).shape == (0, 1025)


@on_gpu
@pytest.mark.parametrize("fmt", FORMATS + RULES)
def test_quantize_on_a_gpu_equals_its_reference(fmt: str) -> None:
    from kernels import quantize

    hadamard = Hadamard.from_seed(16, 1)
    for x, axis in product((sample(37, 75), sample(256, 1024)), (0, 1)):
        for rounding in ("nearest", "stochastic"):
            found, exact = (
                quantize(x, load_format(fmt), axis, rounding, hadamard, seed=3, backend=backend)
                for backend in ("auto", "reference")
            )
            assert torch.equal(found.codes, exact.codes)
            assert_equal(found.scales.float(), exact.scales.float())
            assert_equal(found.tensor_scale, exact.tensor_scale)
            assert found.counters == exact.counters


@on_gpu
def test_the_tuned_tiles_equal_the_reference_at_the_size_of_a_layer() -> None:
    for fmt, size in product(("e1m2", "nvfp4", "mxfp4-rceil"), (None, 16)):
        check(sample(1024, 2048), treat(fmt, 1, size, True), treat(fmt, 0, size, True))


@on_gpu
def test_the_quotient_equals_division_for_every_significand() -> None:
    import triton
    import triton.language as tl

    from kernels.triton_rounding import divisor, quotient

    @triton.jit
    def divide(x, s, out, BLOCK: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        negated, power, reciprocal = divisor(tl.load(s + at))
        tl.store(out + at, quotient(tl.load(x + at), negated, power, reciprocal))

    significands = torch.arange(1 << 23, dtype=torch.int32, device=DEVICE)
    for exponent in (0, 1, 30, 127, 200, 254):
        s = (significands | exponent << 23).view(torch.float32)
        for step in (0.0, 0.25, 0.75, 2.5, 5.0, 7.0):
            x = s * (step + 2.0**-20 * torch.randn_like(s))
            x, s = x[x.isfinite() & (s > 0)], s[x.isfinite() & (s > 0)]
            x, s = x[: len(x) // 1024 * 1024], s[: len(s) // 1024 * 1024]
            out = torch.empty_like(x)
            divide[(len(x) // 1024,)](x, s, out, BLOCK=1024, enable_fp_fusion=False)
            exact = (x / s).abs() >= 2.0**-40
            assert torch.equal(out[exact], (x / s)[exact])


@on_gpu
def test_B38_every_tile_masks_its_tails() -> None:
    from kernels.tiling import TILES
    from kernels.triton_quantize import emulate_triton

    axes = {"row": (1,), "column": (0,), "both": (1, 0)}
    x = sample(387, 1000)
    for (orientation, rotated, stochastic), tile in TILES.items():
        size = 16 if rotated else None
        treatments = [treat("e1m2", axis, size, stochastic) for axis in axes[orientation]]
        results = emulate_triton(x, treatments, torch.float32, tile)
        for treatment, result in zip(treatments, results, strict=True):
            assert_equal(result.values, expected(x, treatment)[0])


@on_gpu
def test_B39_offsets_beyond_2_to_the_31_elements() -> None:
    from kernels.triton_quantize import emulate_triton

    x = torch.zeros(65537, 32768, dtype=torch.bfloat16, device=DEVICE)
    x[-1] = torch.randn(32768, device=DEVICE)
    treatment = treat("nvfp4", 1, None, False)
    (result,) = emulate_triton(x, [treatment])
    values, _ = expected(x[-1:], treatment)
    assert_equal(result.values[-1:].float(), values)
    assert not result.values[:-1].any()


@on_gpu
def test_B56_one_transform_serves_tensors_on_any_device_and_dtype() -> None:
    hadamard = Hadamard.from_seed(16, 1)
    x = sample(16, 64, torch.float32)[6:]
    for dtype in (torch.bfloat16, torch.float32):
        on_cpu = hadamard.rotate(x.cpu().to(dtype))
        assert torch.equal(hadamard.rotate(x.to(dtype)).cpu(), on_cpu)


@on_gpu
def test_B60_the_butterfly_adds_in_the_reference_order() -> None:
    from kernels.triton_quantize import emulate_triton

    x = torch.randn(4096, 16, device=DEVICE).bfloat16()
    treatment = treat("int4", 1, 16, False)
    (result,) = emulate_triton(x, [treatment], torch.float32)
    largest = Hadamard(tuple(treatment.signs.tolist())).rotate(x).abs().amax(1, keepdim=True)
    # On a GPU, dividing by a Python number would multiply by its reciprocal.
    seven = torch.full_like(largest, 7.0)
    assert torch.equal(result.values.abs().amax(1, keepdim=True), largest / seven * seven)
    assert_equal(result.values, expected(x, treatment)[0])


@on_gpu
def test_a_captured_graph_draws_afresh_at_each_replay() -> None:
    from kernels.triton_quantize import emulate_triton

    x = torch.randn(64, 256, device=DEVICE).bfloat16()
    step = torch.zeros((), dtype=torch.int64, device=DEVICE)
    treatment = Treatment(load_format("e2m1"), 1, None, Draws(1, step, 2))
    emulate_triton(x, [treatment])
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        (result,) = emulate_triton(x, [treatment])
    for at in (3, 4):
        step.fill_(at)
        graph.replay()
        again = Treatment(load_format("e2m1"), 1, None, Draws(1, at, 2))
        assert_equal(result.values, expected(x, again)[0])


@runs
@pytest.mark.parametrize("scale", ["fp32", "bf16", "e4m3", "ue5m3"])
def test_small_grids_saturate_their_scales_as_the_reference_does(tmp_path, scale: str) -> None:
    """Quotients by a largest value below 1 leave FP32 at its upper end."""
    path = tmp_path / "own.yaml"
    text = OWN_GRID % ("0, 0.25, 0.5", f"{scale}, headroom: 17/16")
    for level in ("none", "fp32") if scale in ("e4m3", "ue5m3") else ("none",):
        path.write_text(f"{text}tensor_scale: {level}\n")
        for size in (3.4e38, 2.0**-120):
            x = torch.full((16, 32), size, device=DEVICE)
            x[:, 16:] = 0.0
            for dtype in (torch.float32, torch.bfloat16):
                check(x.to(dtype), Treatment(load_format(str(path)), 1))


@runs
def test_a_scale_at_its_largest_saturates_elements_as_the_reference_does(tmp_path) -> None:
    """E1M2 under 2^127 ends at 1.75 x 2^127, which FP32 and BF16 pass."""
    path = tmp_path / "own.yaml"
    text = OWN_GRID % ("0", "e8m0, rule: rceil")
    path.write_text(text.replace("{values: [0]}", "e1m2"))
    check(
        torch.full((16, 32), 3.38e38, dtype=torch.bfloat16, device=DEVICE),
        Treatment(load_format(str(path)), 1),
    )
