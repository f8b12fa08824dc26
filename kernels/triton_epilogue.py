"""The epilogue of an emulated GEMM: its product times the factors of its operands, in place."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from kernels.triton_tile import ceil_div

BLOCK = 4096
WARPS = 4


@triton.jit
def _scale_kernel(product, factor_0, factor_1, size, B: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    factor = tl.load(factor_0)
    if factor_1 is not None:
        factor *= tl.load(factor_1)
    values = tl.load(product + at, mask=at < size).to(tl.float32) * factor
    tl.store(product + at, values.to(product.dtype.element_ty), mask=at < size)


def scale_triton(product: Tensor, factors: list[Tensor]) -> Tensor:
    """Multiply a contiguous product by one or two FP32 scalars, in FP32, and return it."""
    assert product.is_contiguous()
    size = product.numel()
    if size:
        pair = (*factors, None)[:2]
        _scale_kernel[(ceil_div(size, BLOCK),)](product, *pair, size, B=BLOCK, num_warps=WARPS)
    return product
