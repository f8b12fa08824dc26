"""cuBLAS's GEMM with a factor that lies in GPU memory, which torch's own operator does not offer.

The tensor scales of an emulated product are known to the GPU alone. Torch hands cuBLAS its factor
from the host; here it is read from memory and meets the sums in FP32, before they are rounded. A
pass over the product afterwards took a tenth of a small layer's time, and rounded twice.

https://docs.nvidia.com/cuda/cublas/#cublasgemmex
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import torch
from torch import Tensor

# Values of cudaDataType_t, cublasComputeType_t, cublasGemmAlgo_t and so on, from its headers.
DATA_TYPES = {torch.bfloat16: 14, torch.float16: 2}
COMPUTE_32F = 68
GEMM_DEFAULT = -1
AS_IT_LIES, TRANSPOSED = 0, 1
FACTORS_ON_HOST, FACTORS_ON_DEVICE = 0, 1


@cache
def library() -> ctypes.CDLL | None:
    """The library that torch itself has loaded; None where torch multiplies by something else."""
    if torch.version.cuda is None:
        return None
    try:
        found = ctypes.CDLL(f"libcublas.so.{torch.version.cuda.partition('.')[0]}")
        found.cublasGemmEx_64.argtypes = _gemm_arguments()
    except (OSError, AttributeError):
        return None
    found.cublasSetPointerMode_v2.argtypes = [ctypes.c_void_p, ctypes.c_int]
    return found


def _gemm_arguments() -> list[Any]:
    pointer, size, code = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int
    matrix = [pointer, code, size]
    sizes = [size, size, size]
    return [pointer, code, code, *sizes, pointer, *matrix, *matrix, pointer, *matrix, code, code]


def multiply(a_MK: Tensor, b_KN: Tensor, factor: Tensor) -> Tensor:
    """(A B) * factor, [M, N] in the dtype of A and B, rounded once from FP32.

    Args:
        a_MK, b_KN: both bfloat16 or both float16, on one GPU, any strides.
        factor: FP32 scalar on that GPU.

    Raises:
        RuntimeError: cuBLAS refuses.
    """
    product_MN = a_MK.new_empty(a_MK.shape[0], b_KN.shape[1])
    if not a_MK.shape[1]:
        return product_MN.zero_()
    if product_MN.numel():
        with torch.cuda.device(a_MK.device):
            _launch(a_MK, b_KN, factor, product_MN)
    return product_MN


def _launch(a_MK: Tensor, b_KN: Tensor, factor: Tensor, product_MN: Tensor) -> None:
    """In cuBLAS's order, down the columns, a matrix is its transpose: B^T A^T makes the product."""
    cublas, handle = library(), torch.cuda.current_blas_handle()
    assert cublas is not None
    (m, k), n = a_MK.shape, b_KN.shape[1]
    (b, b_form, b_pitch), (a, a_form, a_pitch) = _as_it_lies(b_KN), _as_it_lies(a_MK)
    kind, zero = DATA_TYPES[a.dtype], _zero(a.device)
    cublas.cublasSetPointerMode_v2(handle, FACTORS_ON_DEVICE)
    try:
        status = cublas.cublasGemmEx_64(
            handle, b_form, a_form, n, m, k, factor.data_ptr(),
            b.data_ptr(), kind, b_pitch, a.data_ptr(), kind, a_pitch,
            zero.data_ptr(), product_MN.data_ptr(), kind, n, COMPUTE_32F, GEMM_DEFAULT,
        )  # fmt: skip
    finally:
        cublas.cublasSetPointerMode_v2(handle, FACTORS_ON_HOST)
    if status:
        raise RuntimeError(f"cuBLAS refused a product of {m} x {k} x {n}: status {status}")


def _as_it_lies(matrix: Tensor) -> tuple[Tensor, int, int]:
    """The matrix, copied if neither axis is contiguous; whether it lies transposed; its pitch."""
    rows, columns = matrix.shape
    row_stride, column_stride = matrix.stride()
    if column_stride == 1 and row_stride >= columns:
        return matrix, AS_IT_LIES, row_stride
    if row_stride == 1 and column_stride >= rows:
        return matrix, TRANSPOSED, column_stride
    return matrix.contiguous(), AS_IT_LIES, columns


_zeros: dict[torch.device, Tensor] = {}


def _zero(device: torch.device) -> Tensor:
    """What the product's old content is multiplied by; while a graph is captured, the graph's own.

    Made from a value of the host, which waits until it has arrived: any stream may read it.
    """
    if device not in _zeros:
        if torch.cuda.is_current_stream_capturing():
            return torch.zeros((), device=device)
        _zeros[device] = torch.tensor(0.0, device=device)
    return _zeros[device]
