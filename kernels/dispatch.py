"""Which implementation runs, and why: (format, target) -> Path.

What ``kernels.targets`` does not list for exactly this target is emulated, and the path says so. A
native GEMM must also prove itself: before its first use on a device a small product is compared
with the decoded operands' product, because compilers have been wrong where they did not refuse.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

import torch

from formats import BlockFormat, list_formats, load_format
from kernels import cublas
from kernels import emulate as plain
from kernels.cpu import cpu_path
from kernels.emulate import Emulated, Treatment
from kernels.targets import CPU, INSTRUCTIONS, Operands, target_of

Origin = Literal["native", "emulated"]
NATIVE_TOLERANCE = 1e-5


@dataclass(frozen=True)
class Path:
    """What runs: the implementation's name, native or emulated, and the reason for it."""

    name: str
    origin: Origin
    reason: str


def operands_of(fmt: BlockFormat) -> Operands | None:
    """The instruction operands that hold a format exactly, or None."""
    from kernels.triton_gemm import carrier_of

    carrier = carrier_of(fmt)
    if carrier is None or fmt.scale is None:
        return None
    return carrier, fmt.scale.format.name, fmt.block[1]


def gemm_path(fmt: BlockFormat, target: str) -> Path:
    """How a GEMM whose operands are in this format runs on a target."""
    if fmt.is_high_precision:
        return Path("matmul", "native", "nothing is quantised")
    operands = operands_of(fmt)
    if operands is None:
        return _emulated(f"no block-scaled instruction multiplies '{fmt.name}'")
    if target not in INSTRUCTIONS:
        return _emulated(f"no block-scaled instruction is known for {target}")
    instruction = INSTRUCTIONS[target].get(operands)
    if instruction is None:
        return _emulated(f"{target} has no instruction for {operands[0]} with {operands[1]} scales")
    return Path(instruction, "native", "a matrix unit multiplies these operands")


def quantise_path(target: str) -> Path:
    """How operands are quantised on a target: always emulated, which is exact."""
    if target == CPU:
        found = cpu_path()
        return Path(found.name, "emulated", f"no GPU; {found.reason}")
    return Path("triton", "emulated", f"fused kernel, compiled for {target}")


@torch.compiler.disable(reason="emulation brings its own kernels")
def emulate(x: torch.Tensor, treatments: Sequence[Treatment], dtype: torch.dtype) -> list[Emulated]:
    """Quantise and decode a 2-D tensor for its GEMMs, by the path of its device.

    Args:
        dtype: that the GEMMs multiply in. Values that would be rounded to bfloat16 on the way into
            a GEMM may come rounded already, which saves two passes over memory.
    """
    if x.device.type != "cuda":
        return plain.emulate(x, treatments)
    from kernels.triton_quantize import emulate_triton

    return emulate_triton(x, treatments, dtype if dtype == torch.bfloat16 else None)


@cache
def epilogue_path(device_type: str, dtype: torch.dtype) -> Path:
    """How the product of two operands is multiplied by their factors."""
    if device_type != "cuda":
        return Path("torch", "emulated", "no GPU: the product is multiplied in FP32")
    if dtype in cublas.DATA_TYPES and cublas.library() is not None:
        return Path("cublas", "emulated", "the GEMM multiplies its FP32 sums")
    missing = "no cuBLAS" if dtype in cublas.DATA_TYPES else f"{dtype} products stay torch's"
    return Path("triton", "emulated", f"{missing}: a kernel multiplies the product in FP32")


def scaled_product(
    a: torch.Tensor, b: torch.Tensor, factors: Sequence[torch.Tensor]
) -> torch.Tensor:
    """A times B times its operands' factors, which FP32 takes in: in BF16 they would be a gain.

    Args:
        a, b: [M, K] and [K, N] of one dtype.
        factors: one or two FP32 scalars.
    """
    factor = factors[0] * factors[1] if len(factors) == 2 else factors[0]
    path = epilogue_path(a.device.type, a.dtype).name
    if path == "cublas":
        return cublas.multiply(a, b, factor)
    product = a @ b
    if path == "triton":
        from kernels.triton_epilogue import scale_triton

        return scale_triton(product, factor)
    return (product.float() * factor).to(product.dtype)


def supported(target: str) -> list[tuple[str, Path]]:
    """Every registered format with the path of its GEMMs on a target."""
    names = [entry.name for entry in list_formats() if entry.error is None]
    return [(name, gemm_path(load_format(name), target)) for name in names]


@cache
def proven(fmt: BlockFormat, device: torch.device) -> Path:
    """``gemm_path`` for a device at hand, after a native path has multiplied one tile rightly."""
    path = gemm_path(fmt, target_of(device))
    if path.origin == "native" and not fmt.is_high_precision:
        error = _native_error(fmt, device)
        if not error < NATIVE_TOLERANCE:
            return _emulated(f"{path.name} failed its check on this device: error {error:.1e}")
    return path


def _native_error(fmt: BlockFormat, device: torch.device) -> float:
    """Relative error of a small native product against that of the decoded operands."""
    from kernels.quantize import quantize
    from kernels.triton_gemm import multiply_scaled

    generator = torch.Generator().manual_seed(0)
    x, w = (torch.randn(64, 160, generator=generator).to(device) for _ in range(2))
    left, right = quantize(x, fmt), quantize(w, fmt)
    expected = left.dequantize().double() @ right.dequantize().double().t()
    result = multiply_scaled(left, right, torch.float32).double()
    return float((result - expected).norm() / expected.norm())


def _emulated(reason: str) -> Path:
    return Path("bf16-gemm", "emulated", f"{reason}: decoded operands in an ordinary GEMM")
