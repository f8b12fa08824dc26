"""Native GEMMs: compiled for every target without its hardware, and right where they can be run."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch

from formats import load_format
from kernels.quantize import quantize
from kernels.targets import INSTRUCTIONS, MXFP4, MXFP8, NVFP4, Operands
from kernels.triton_gemm import carrier_codes, carrier_of, check_decomposes_e4m3_scales

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
runs = pytest.mark.skipif(not INTERPRETED, reason="runs in the child process")
compiles = pytest.mark.skipif(INTERPRETED, reason="the interpreter compiles nothing")
PAIRS = [(target, operands) for target, table in INSTRUCTIONS.items() for operands in table]
# What each instruction is called in the assembly; releases spell the scale vector differently.
SPELLINGS = {
    ("sm_100", NVFP4): r"tcgen05\.mma\S*kind::mxf4nvf4\.block_scale\.(block16|scale_vec::4X)",
    ("sm_100", MXFP4): r"tcgen05\.mma\S*kind::mxf4\.block_scale\.(block32|scale_vec::2X)",
    ("sm_100", MXFP8): r"tcgen05\.mma\S*kind::mxf8f6f4\.block_scale\.(block32|scale_vec::1X)",
    ("sm_120", NVFP4): r"mma\.sync\S*kind::mxf4nvf4\.block_scale\.scale_vec::4X\S*e2m1\S*ue4m3",
    ("sm_120", MXFP4): r"mma\.sync\S*kind::mxf4nvf4\.block_scale\.scale_vec::2X\S*e2m1\S*ue8m0",
    ("sm_120", MXFP8): r"mma\.sync\S*kind::mxf8f6f4\.block_scale\.scale_vec::1X\S*e4m3\S*ue8m0",
    ("gfx950", MXFP4): r"v_mfma_scale_f32_\d+x\d+x\d+_f8f6f4",
    ("gfx950", MXFP8): r"v_mfma_scale_f32_\d+x\d+x\d+_f8f6f4",
}
SPELLINGS |= {
    ("sm_103", operands): SPELLINGS["sm_100", operands] for operands in INSTRUCTIONS["sm_103"]
}


@compiles
@pytest.mark.parametrize(("target", "operands"), PAIRS)
def test_B86_every_listed_pair_compiles_to_its_instruction_without_spills(
    target: str, operands: Operands
) -> None:
    from kernels.aot import compile_gemm

    result = compile_gemm(target, operands)
    assert result.count(SPELLINGS[target, operands]) > 0
    assert result.spilled_bytes == 0, result.resources


@compiles
def test_B86_a_pair_that_aborts_the_compiler_is_refused_before_it() -> None:
    with pytest.raises(
        ValueError, match=r"Triton 3\.6\.0 cannot compile E4M3 block scales for sm_90"
    ):
        check_decomposes_e4m3_scales("sm_90", "3.6.0")
    check_decomposes_e4m3_scales("sm_90", "3.9.0")
    check_decomposes_e4m3_scales("sm_100", "3.6.0")


def test_grids_have_a_carrier_only_where_it_is_exact() -> None:
    carriers = {name: carrier_of(load_format(name)) for name in ("nvfp4", "mxfp4-even", "mxint4")}
    assert carriers == {"nvfp4": "e2m1", "mxfp4-even": "e2m1", "mxint4": "e4m3"}
    assert carrier_of(load_format("nvint4")) is None
    assert carrier_of(load_format("e2m1")) is None
    assert carrier_of(load_format("bf16")) is None


def test_the_e4m3_carrier_holds_every_level_exactly() -> None:
    fmt = load_format("mxint4")
    quantized = quantize(torch.arange(-7.0, 8.0).repeat(3)[None, :32].contiguous() * 4, fmt)
    carried = carrier_codes(quantized).view(torch.float8_e4m3fn).float()
    table = torch.tensor(quantized.grid.decode_table)
    assert torch.equal(carried, table[quantized.unpacked().long()])


def test_operands_that_do_not_fit_are_refused() -> None:
    from kernels.triton_gemm import multiply_scaled

    x = torch.ones(4, 64)
    for left, right, message in (
        ("nvfp4", "mxfp4-rceil", "takes one format"),
        ("nvint4", "nvint4", "has no block-scaled instruction"),
    ):
        with pytest.raises(ValueError, match=message):
            multiply_scaled(quantize(x, load_format(left)), quantize(x, load_format(right)))
    fmt = load_format("mxint4")
    with pytest.raises(ValueError, match="contractions differ"):
        multiply_scaled(quantize(x, fmt), quantize(x[:, :32], fmt))


@compiles
def test_B87_products_are_right_when_interpreted() -> None:
    environment = {**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-k", "interpreted_product", __file__]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout[-4000:]
    assert " passed" in result.stdout


def product_error(fmt_name: str, rows: int, depth: int, device: str) -> float:
    """Relative error of the scaled product of random operands, against decoded ones in float64."""
    from kernels.triton_gemm import multiply_scaled

    generator = torch.Generator().manual_seed(depth)
    fmt = load_format(fmt_name)
    x = torch.randn(rows, depth, generator=generator).to(device)
    w = torch.randn(17, depth, generator=generator).to(device)
    left, right = quantize(x, fmt), quantize(w, fmt)
    expected = left.dequantize().double() @ right.dequantize().double().t()
    result = multiply_scaled(left, right, torch.float32).double()
    return float((result - expected).norm() / expected.norm())


@runs
@pytest.mark.parametrize("fmt", ["mxfp4-rceil", "mxint4", "mxfp8"])
@pytest.mark.parametrize("depth", [32, 160])
def test_interpreted_product_equals_the_decoded_one(fmt: str, depth: int) -> None:
    assert product_error(fmt, 33, depth, "cpu") < 1e-6


@pytest.mark.gpu
@pytest.mark.parametrize("fmt", ["mxfp4-rceil", "mxint4"])
def test_B36_B37_tails_of_the_contraction_are_masked(fmt: str) -> None:
    for rows in (33, 64):
        for pieces in range(1, 18):
            assert product_error(fmt, rows, 32 * pieces, "cuda") < 1e-5


@pytest.mark.gpu
@pytest.mark.parametrize("fill", [0x00, 0xFF])
def test_B35_memory_behind_the_operands_does_not_matter(fill: int) -> None:
    from kernels.triton_gemm import multiply_scaled

    fmt = load_format("mxfp4-rceil")
    x = torch.randn(5, 80, device="cuda")
    results = []
    for _ in range(2):
        poison = torch.full((1 << 26,), fill, dtype=torch.uint8, device="cuda")
        del poison
        left = quantize(x, fmt)
        results.append(multiply_scaled(left, left, torch.float32))
    assert torch.equal(results[0], results[1])
    assert results[0].isfinite().all()


@pytest.mark.gpu
def test_B85_the_native_path_of_this_device_is_proven_before_use() -> None:
    from kernels.dispatch import proven

    for name in ("mxfp4-rceil", "nvfp4"):
        assert proven(load_format(name), torch.device("cuda", 0)).reason


@pytest.mark.gpu
@pytest.mark.parametrize("fmt", ["mxfp4-rceil", "mxint4"])
def test_a_graph_can_hold_a_product(fmt: str) -> None:
    from kernels.triton_gemm import multiply_scaled

    operand = quantize(torch.randn(64, 96, device="cuda"), load_format(fmt))
    expected = multiply_scaled(operand, operand)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = multiply_scaled(operand, operand)
    graph.replay()
    assert torch.equal(captured, expected)
