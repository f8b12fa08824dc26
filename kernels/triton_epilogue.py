"""The epilogue of an emulated GEMM without one: its product times a factor, in place."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from kernels.triton_tile import ceil_div

BLOCK = 4096
WARPS = 4


@triton.jit
def _scale_kernel(product, factor, size, B: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    values = tl.load(product + at, mask=at < size).to(tl.float32) * tl.load(factor)
    tl.store(product + at, values.to(product.dtype.element_ty), mask=at < size)


def scale_triton(product: Tensor, factor: Tensor) -> Tensor:
    """Multiply a contiguous product by an FP32 scalar, in FP32, and return it."""
    assert product.is_contiguous()
    size = product.numel()
    if size:
        _scale_kernel[(ceil_div(size, BLOCK),)](product, factor, size, B=BLOCK, num_warps=WARPS)
    return product
