"""Independent libraries testify. Where one of them differs, the difference itself is the test.

Which library is right about what: ml_dtypes and gfloat about elements, torchao about MX scales and,
except for its lower clamp, about NVFP4. Tensors hold at most 2^16 elements: witnesses are slow.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from formats import SCALE_FORMATS, Grid, load_format
from formats.grid import E1M2, E2M1, E4M3, INT4
from kernels import Hadamard, quantize
from kernels.reference import round_stochastically, round_to_codes
from kernels.scaling import decode_scales
from tests.numerics.witnesses import (
    COMPARED,
    gfloat_codes,
    gfloat_format,
    ml_dtypes_codes,
    torchao_mxfp4,
    torchao_nvfp4,
    witness,
)

RULES = ("floor", "rceil", "ceil", "even")
DTYPES = (torch.float32, torch.bfloat16, torch.float64)


def probes(grid: Grid, dtype: torch.dtype) -> Tensor:
    """All levels and ties with their neighbours in this dtype, both signs, and a bell curve."""
    points = torch.tensor(grid.levels + grid.midpoints, dtype=torch.float64).to(dtype)
    up, down = torch.tensor(torch.inf, dtype=dtype), torch.tensor(-torch.inf, dtype=dtype)
    near = torch.cat((points, torch.nextafter(points, up), torch.nextafter(points, down)))
    generator = torch.Generator().manual_seed(0)
    bell = (torch.randn(8192, generator=generator).double() * grid.max / 3).to(dtype)
    edges = torch.tensor([0.0, -0.0, grid.max * 2, -grid.max * 100, 1e-30, -1e-30]).to(dtype)
    return torch.cat((near, -near, bell, edges))


def numpy_of(t: Tensor) -> np.ndarray:
    """BF16 is widened, which is exact."""
    return (t.float() if t.dtype == torch.bfloat16 else t).numpy()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    ("grid", "name"), [(E2M1, "float4_e2m1fn"), (E4M3, "float8_e4m3fn")], ids=["e2m1", "e4m3"]
)
def test_ml_dtypes_casts_elements_alike(grid: Grid, name: str, dtype: torch.dtype) -> None:
    t = probes(grid, dtype)
    if name == "float8_e4m3fn":  # it has NaN above 464 where we saturate: a choice, see B14
        t = t.clamp(-448, 448)
    if dtype == torch.float64:  # its cast of float64 is double rounding by way of FP32: see B12
        t = t.float().double()
    assert np.array_equal(round_to_codes(t, grid).numpy(), ml_dtypes_codes(numpy_of(t), name))


def test_B12_float64_is_rounded_once() -> None:
    """The first rounding must not make a tie of what is none."""
    t = torch.tensor([0.25 + 2.0**-40, 5 * (1 + 2.0**-40)], dtype=torch.float64)
    assert round_to_codes(t, E2M1).tolist() == [1, 7]
    singles = torch.tensor([0.25 * (1 + 2.0**-14), 5 * (1 + 2.0**-14)])
    assert round_to_codes(singles, E2M1).tolist() == [1, 7]
    assert round_to_codes(singles.bfloat16(), E2M1).tolist() == [0, 6]  # rounded by the caller


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    ("grid", "exponent", "mantissa"), [(E2M1, 2, 1), (E1M2, 1, 2)], ids=["e2m1", "e1m2"]
)
def test_gfloat_rounds_elements_alike(
    grid: Grid, exponent: int, mantissa: int, dtype: torch.dtype
) -> None:
    t = probes(grid, dtype)
    theirs = gfloat_codes(t.double().numpy(), exponent, mantissa)
    assert np.array_equal(round_to_codes(t, grid).numpy(), theirs)


def test_gfloat_decodes_e1m2_alike() -> None:
    gfloat = witness("gfloat")
    info = gfloat_format(1, 2)
    values = [gfloat.decode_float(info, code).fval for code in range(16)]
    assert str(values) == str(list(E1M2.decode_table))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_int4_rounds_as_numpys_half_to_even(dtype: torch.dtype) -> None:
    t = probes(INT4, dtype)
    rounded = np.clip(np.rint(t.double().numpy()), -7, 7).astype(np.int64)
    assert np.array_equal(round_to_codes(t, INT4).numpy(), rounded & 0xF)


@pytest.mark.parametrize(
    ("name", "theirs", "used"),
    [("nvfp4", "float8_e4m3fn", 0x7F), ("mxfp4-floor", "float8_e8m0fnu", 0xFF)],
)
def test_ml_dtypes_decodes_all_scale_bytes_alike(name: str, theirs: str, used: int) -> None:
    COMPARED["ml_dtypes"] += 256
    scale_bytes = np.arange(256, dtype=np.uint8)
    expected = scale_bytes.view(getattr(witness("ml_dtypes"), theirs)).astype(np.float32)
    ours = decode_scales(torch.from_numpy(scale_bytes), load_format(name)).numpy()
    assert np.array_equal(ours, expected, equal_nan=True)
    assert np.isfinite(ours[:used]).all()


def test_gfloat_decodes_ue5m3_alike() -> None:
    """gfloat has no unsigned minifloats, so the sign bit goes in front: E5M3 with 9 bits."""
    gfloat = witness("gfloat")
    rule = load_format("nvfp4").scale
    assert rule is not None
    values = [gfloat.decode_float(gfloat_format(5, 3), byte).fval for byte in range(255)]
    assert tuple(values) == SCALE_FORMATS["ue5m3"].values[:255]


def mixed(rows: int, columns: int, block: int) -> Tensor:
    """Bell-shaped values whose blocks differ in magnitude."""
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(rows, columns, generator=generator)
    exponents = torch.randint(-8, 8, (rows, columns // block), generator=generator)
    return x * 2.0 ** exponents.repeat_interleave(block, dim=1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("rule", RULES)
def test_torchao_has_the_same_four_mx_rules(rule: str, dtype: torch.dtype) -> None:
    x = mixed(64, 512, 32).to(dtype)
    amaxes = torch.linspace(1, 8, 2048).to(dtype)
    x = torch.cat((x, torch.nn.functional.pad(amaxes.view(-1, 1), (0, 31)).view(-1, 512)))
    codes, scales = torchao_mxfp4(x, rule)
    ours = quantize(x, load_format(f"mxfp4-{rule}"))
    assert torch.equal(ours.scales, scales.view(ours.scales.shape))
    assert torch.equal(ours.unpacked(), codes)


@pytest.mark.parametrize("rule", RULES)
def test_torchao_differs_where_the_scale_is_byte_0(rule: str) -> None:
    """Its element divides by 2^-126, the smallest normal number, though byte 0 means 2^-127."""
    x = torch.full((1, 32), 2.0**-128)
    codes, scales = torchao_mxfp4(x, rule)
    ours = quantize(x, load_format(f"mxfp4-{rule}"))
    assert scales.flatten().tolist() == ours.scales.flatten().tolist() == [0]
    assert torch.equal(ours.dequantize(), x)
    assert E2M1.decode_table[int(codes[0, 0])] * 2.0**-127 < 2.0**-128


@pytest.mark.parametrize("rule", RULES)
def test_torchao_differs_for_infinity(rule: str) -> None:
    """It stores a large scale and codes of 6; here the block is poisoned, as by a NaN."""
    x = torch.ones(1, 32)
    x[0, 3] = torch.inf
    assert torchao_mxfp4(x, rule)[1].item() in (253, 254)
    assert quantize(x, load_format(f"mxfp4-{rule}")).scales.item() == 255


def test_torchao_nvfp4_differs_below_its_clamp_and_by_a_last_bit() -> None:
    """Scales below 2^-6 become 2^-6; t may be off by an ulp, for it divides where we multiply."""
    x = mixed(64, 512, 512)
    codes, scales = torchao_nvfp4(x)
    ours = quantize(x, load_format("nvfp4"))
    smallest = 8  # the byte of 2^-6
    assert torch.equal(ours.scales.clamp(min=smallest), scales)
    assert (ours.scales < smallest).any()
    unclamped = (ours.scales == scales).repeat_interleave(16, dim=1)
    assert float((ours.unpacked() != codes)[unclamped].float().mean()) < 1e-3


def test_B04_torchao_clamps_small_scales_where_we_store_zero() -> None:
    """Its scales end at 2^-6; the rules of Transformer Engine have no lower clamp."""
    x = torch.cat((torch.full((1, 16), 2.1e-6), torch.ones(1, 16)), dim=1)
    assert torchao_nvfp4(x)[1].view(torch.float8_e4m3fn).float().tolist() == [[2.0**-6, 448.0]]
    ours = quantize(x, load_format("nvfp4"))
    assert ours.scales.tolist() == [[0, 0x7E]]
    assert ours.dequantize()[0, :16].abs().max() == 0
    assert ours.counters.flushed == 16


def test_torchao_gives_nan_for_a_tensor_of_zeros() -> None:
    codes, scales = torchao_nvfp4(torch.zeros(1, 16))
    assert scales.view(torch.float8_e4m3fn).float().isnan().all()
    assert quantize(torch.zeros(1, 16), load_format("nvfp4")).dequantize().abs().max() == 0


@pytest.mark.parametrize("size", [2, 4, 16, 32, 128])
def test_scipy_has_the_same_hadamard_matrix(size: int) -> None:
    linalg = witness("scipy.linalg")
    COMPARED["scipy"] += 2 * size * size
    plain = Hadamard((1,) * size).matrix().double().numpy()
    assert np.allclose(plain, linalg.hadamard(size) / np.sqrt(size), rtol=1e-7, atol=0)
    hadamard = Hadamard.from_seed(size, seed=7)
    expected = np.diag(hadamard.signs) @ linalg.hadamard(size) / np.sqrt(size)
    assert np.allclose(hadamard.matrix().double().numpy(), expected, rtol=1e-7, atol=0)


@pytest.mark.parametrize(
    ("grid", "exponent", "mantissa"), [(E2M1, 2, 1), (E1M2, 1, 2)], ids=["e2m1", "e1m2"]
)
def test_gfloat_rounds_stochastically_alike(grid: Grid, exponent: int, mantissa: int) -> None:
    """Ours upside down: it adds bits to what is cut off, so that a large number rounds up.

    Elements are those whose fraction of a gap 16 bits can hold.
    """
    gfloat = witness("gfloat")
    COMPARED["gfloat stochastic"] += 8192
    generator = torch.Generator().manual_seed(0)
    steps = 2.0**-18 * grid.max
    count = torch.randint(-(2**18), 2**18, (8192,), generator=generator)
    t = (count * steps).float()
    bits = torch.randint(0, 65536, t.shape, generator=generator)
    mode = gfloat.RoundMode.StochasticFast
    theirs = gfloat.round_ndarray(
        gfloat_format(exponent, mantissa),
        t.double().numpy(),
        mode,
        True,
        (65535 - bits).numpy(),
        16,
    )
    codes = round_stochastically(t, grid, bits.int())
    ours = torch.tensor(grid.decode_table)[codes.long()]
    assert np.array_equal(ours.double().numpy(), theirs)


def test_a_missing_witness_skips_here_and_fails_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception):
        witness("a_library_that_is_not_installed")
    monkeypatch.setenv("CI", "true")
    with pytest.raises(ModuleNotFoundError):
        witness("a_library_that_is_not_installed")
