"""A product with its factor: every layout of its operands, one rounding, and graphs that replay."""

from __future__ import annotations

import ctypes
from contextlib import nullcontext
from itertools import product

import pytest
import torch
from torch import Tensor

from kernels import cublas, dispatch

on_gpu = pytest.mark.gpu
SIZES = [(5, 24, 7), (1, 8, 3), (16, 1, 9), (4, 6, 1), (64, 160, 32)]


class ObviousCublas:
    """The GEMM as the vendor documents it, down the columns, on memory of this process."""

    def __init__(self) -> None:
        self.mode = cublas.FACTORS_ON_HOST

    def cublasSetPointerMode_v2(self, handle: int, mode: int) -> None:  # noqa: N802
        self.mode = mode

    def cublasGemmEx_64(self, *arguments: int) -> int:  # noqa: N802
        _, left_form, right_form, m, n, k, alpha, a, _, lda, b, _, ldb, beta, c, _, ldc, *_ = (
            arguments
        )
        assert self.mode == cublas.FACTORS_ON_DEVICE
        left = _matrix(a, (k, m) if left_form else (m, k), lda)
        right = _matrix(b, (n, k) if right_form else (k, n), ldb)
        left, right = left.t() if left_form else left, right.t() if right_form else right
        sums = left.float() @ right.float() * _scalar(alpha)
        assert _scalar(beta) == 0.0
        _matrix(c, (m, n), ldc).copy_(sums)
        return 0


def _matrix(address: int, shape: tuple[int, int], pitch: int) -> Tensor:
    rows, columns = shape
    assert pitch >= rows
    size = (columns - 1) * pitch + rows
    memory = (ctypes.c_int16 * size).from_address(address)
    flat = torch.frombuffer(memory, dtype=torch.bfloat16)
    return flat.as_strided(shape, (1, pitch))


def _scalar(address: int) -> float:
    return ctypes.c_float.from_address(address).value


@pytest.fixture
def obvious(monkeypatch: pytest.MonkeyPatch) -> ObviousCublas:
    library = ObviousCublas()
    monkeypatch.setattr(cublas, "library", lambda: library)
    monkeypatch.setattr(cublas, "_zeros", {})
    monkeypatch.setattr(torch.cuda, "current_blas_handle", lambda: 1)
    monkeypatch.setattr(torch.cuda, "device", lambda device: nullcontext())
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    return library


def whole_numbers(rows: int, columns: int, seed: int, device: str = "cpu") -> Tensor:
    """Small enough for every sum of products to be exact."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-6, 7, (rows, columns), generator=generator).to(device, torch.bfloat16)


def layouts(matrix: Tensor) -> list[Tensor]:
    """The same matrix, as memory can hold it."""
    wider = matrix.repeat(1, 3)
    return [
        matrix,
        matrix.t().contiguous().t(),
        wider[:, : matrix.shape[1]],
        wider.t().contiguous().t()[:, : matrix.shape[1]],
        matrix.repeat_interleave(2, 1)[:, ::2],
        matrix.repeat_interleave(2, 0)[::2],
    ]


def exact_product(a: Tensor, b: Tensor, factor: Tensor) -> Tensor:
    return (a.double() @ b.double()).float().mul(factor).to(a.dtype)


@pytest.mark.parametrize("size", SIZES)
def test_operands_in_every_layout_give_the_product(size, obvious: ObviousCublas) -> None:
    m, k, n = size
    a, b, factor = whole_numbers(m, k, 0), whole_numbers(k, n, 1), torch.tensor(0.3)
    exact = exact_product(a, b, factor)
    for left, right in product(layouts(a), layouts(b)):
        assert torch.equal(left, a)
        assert torch.equal(cublas.multiply(left, right, factor), exact)
    assert obvious.mode == cublas.FACTORS_ON_HOST


def test_products_without_terms_or_without_elements_need_no_library(monkeypatch) -> None:
    monkeypatch.setattr(cublas, "library", lambda: None)
    factor = torch.tensor(2.0)
    none, empty = torch.ones(3, 0).bfloat16(), torch.ones(0, 5).bfloat16()
    assert torch.equal(cublas.multiply(none, empty, factor), torch.zeros(3, 5).bfloat16())
    assert cublas.multiply(empty, torch.ones(5, 2).bfloat16(), factor).shape == (0, 2)


def test_a_refusal_is_an_error_and_leaves_the_library_as_it_was(obvious, monkeypatch) -> None:
    monkeypatch.setattr(obvious, "cublasGemmEx_64", lambda *arguments: 7)
    with pytest.raises(RuntimeError, match="refused a product of 2 x 3 x 4: status 7"):
        cublas.multiply(whole_numbers(2, 3, 0), whole_numbers(3, 4, 1), torch.tensor(1.0))
    assert obvious.mode == cublas.FACTORS_ON_HOST


def test_every_path_of_the_epilogue_says_why(monkeypatch) -> None:
    monkeypatch.setattr(cublas, "library", lambda: None)
    path = dispatch.epilogue_path.__wrapped__
    assert path("cpu", torch.float32).name == "torch"
    assert "no cuBLAS" in path("cuda", torch.bfloat16).reason
    assert "float32 products stay torch's" in path("cuda", torch.float32).reason
    monkeypatch.setattr(cublas, "library", object)
    assert path("cuda", torch.bfloat16).name == "cublas"


@on_gpu
@pytest.mark.parametrize("size", SIZES)
def test_a_gpu_computes_the_same(size) -> None:
    m, k, n = size
    a, b = whole_numbers(m, k, 0, "cuda"), whole_numbers(k, n, 1, "cuda")
    factor = torch.tensor(0.3, device="cuda")
    for dtype in (torch.bfloat16, torch.float16):
        left, right = a.to(dtype), b.to(dtype)
        assert dispatch.epilogue_path("cuda", dtype).name == "cublas"
        exact = exact_product(left, right, factor)
        for pair in product(layouts(left), layouts(right)):
            assert torch.equal(dispatch.scaled_product(*pair, [factor]), exact)
    ones = torch.ones((), device="cuda")
    assert torch.equal(dispatch.scaled_product(a, b, [ones, ones]), a @ b)


@on_gpu
def test_a_graph_reads_the_factor_afresh(monkeypatch) -> None:
    monkeypatch.setattr(cublas, "_zeros", {})
    a, b = whole_numbers(64, 128, 0, "cuda"), whole_numbers(128, 32, 1, "cuda")
    factor = torch.tensor(1.0, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = cublas.multiply(a, b, factor)
    for value in (0.3, -2.0):
        factor.fill_(value)
        graph.replay()
        assert torch.equal(captured, exact_product(a, b, factor))
