"""The reference and the emulation against the exact referee, on whatever hypothesis thinks of."""

from __future__ import annotations

import math
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from torch import Tensor

from formats import BlockFormat, load_format
from kernels import Draws, Hadamard, Quantized, quantize
from kernels.emulate import Treatment, emulate
from kernels.packing import unpack
from tests.numerics.library import QUANTISED, facts_of, write_format
from tests.numerics.referee import Verdict, draw, judge, philox
from tests.numerics.witnesses import COMPARED

# Without shrinking: the examples are small as they are, and the referee is slow.
FEW = settings(
    max_examples=100,
    deadline=None,
    derandomize=True,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
)
DTYPES = (torch.float32, torch.bfloat16, torch.float16)
LAYOUTS = ("contiguous", "transposed", "every second", "inside", "expanded")
# Where things go wrong: zero, subnormal, E4M3's and E8M0's ends, FP32's end.
EXPONENTS = (-149, -140, -127, -126, -60, -20, -10, -6, 0, 3, 9, 60, 120, 127)
SPECIALS = (math.nan, math.inf, -math.inf, 3.0e38, -3.4028234663852886e38, 2.0**-149, -0.0, 0.0)


@dataclass(frozen=True)
class Case:
    """One tensor and what is done with it."""

    x: Tensor
    axis: int
    draws: Draws | None
    hadamard: Hadamard | None


@st.composite
def tensors(draw: st.DrawFn) -> Tensor:
    """A 2-D tensor with blocks of very different magnitude, zeros, and now and then a special."""
    rows, columns = draw(st.integers(0, 5)), draw(st.integers(0, 40))
    dtype, layout = draw(st.sampled_from(DTYPES)), draw(st.sampled_from(LAYOUTS))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**32)))
    x = torch.randn(rows, columns, generator=generator, dtype=torch.float64)
    around = draw(st.lists(st.sampled_from(EXPONENTS), min_size=1, max_size=4))
    exponents = torch.tensor(around).repeat(columns)[:columns].sort().values
    x = x.clamp(-2, 2) * 2.0 ** exponents.double()
    if draw(st.booleans()):
        # Few significant bits: ties, and elements that sit on grid points.
        x = torch.round(x * 2.0 ** -exponents.double() * 4) / 4 * 2.0 ** exponents.double()
    x = x.to(dtype)
    for value in draw(st.lists(st.sampled_from(SPECIALS), max_size=2)):
        if x.numel():
            at = draw(st.integers(0, x.numel() - 1))
            x.view(-1)[at] = value
    return laid_out(x, layout)


def laid_out(x: Tensor, layout: str) -> Tensor:
    """The same values in another memory layout; "expanded" repeats the first row."""
    if layout == "transposed":
        return x.t().contiguous().t()
    if layout == "every second":
        return torch.stack((x, torch.full_like(x, 7.0)), dim=-1).flatten(1)[:, ::2]
    if layout == "inside":
        return torch.nn.functional.pad(x, (3, 2, 1, 0), value=7.0)[1:, 3 : 3 + x.shape[1]]
    return x[:1].expand(x.shape[0], -1) if layout == "expanded" and x.shape[0] else x


@st.composite
def cases(draw: st.DrawFn) -> Case:
    draws = st.builds(
        Draws,
        seed=st.integers(0, 2**64 - 1),
        step=st.integers(0, 2**31),
        stream=st.integers(0, 2**32 - 1),
        row=st.integers(0, 2**31),
        column=st.integers(0, 2**20).map(lambda n: 8 * n),
    )
    hadamard = st.builds(Hadamard.from_seed, st.sampled_from((1, 2, 16, 32)), st.integers(0, 99))
    return Case(
        draw(tensors()),
        draw(st.sampled_from((0, 1, -1, -2))),
        draw(st.none() | draws),
        draw(st.none() | hadamard),
    )


@st.composite
def random_formats(draw: st.DrawFn) -> BlockFormat:
    """A format that a user might write: 2 to 16 values, symmetric or not, and any scale."""
    size = draw(st.integers(2, 16))
    unit = 2.0 ** draw(st.integers(-12, 12))
    steps = draw(st.lists(st.floats(2.0**-7, 8.0, width=32), min_size=size, max_size=size))
    negatives = draw(st.integers(0, size - 1)) if size <= 8 else draw(st.integers(1, size - 1))
    values = [0.0]
    for step in steps[: size - 1 - negatives]:
        values.append(values[-1] + step * unit)
    for step in steps[size - 1 - negatives : -1]:
        values.insert(0, values[0] - step * unit)
    scale = draw(st.sampled_from(("fp32", "bf16", "e4m3", "ue5m3", "e8m0")))
    rule = draw(st.sampled_from(("floor", "ceil", "rceil", "even")))
    two_level = scale in ("e4m3", "ue5m3") and draw(st.booleans())
    headroom = draw(st.sampled_from(("1.0", "17/16")))
    block = draw(st.sampled_from(("1", "3", "8", "16", "24", "[2, 4]", "[16, 16]")))
    with tempfile.TemporaryDirectory() as folder:
        return write_format(
            Path(folder),
            element=f"{{values: {values}}}",
            block=block,
            scale=f"{{format: {scale}, headroom: {headroom}"
            + (f", rule: {rule}}}" if scale == "e8m0" else "}"),
            tensor_scale="fp32" if two_level else "none",
            gain=draw(st.sampled_from(("1.0", "0.9959"))),
        )


def verdict(case: Case, fmt: BlockFormat) -> Verdict:
    rows = case.x.double().movedim(case.axis, -1).tolist()
    columns = len(rows[0]) if rows else 0
    signs = case.hadamard.signs if case.hadamard else ()
    bits16 = None
    if case.draws is not None:
        d = case.draws
        height = len(rows) + -len(rows) % fmt.block[0]
        width = columns + -columns % (len(signs) or 1)
        width += -width % fmt.block[1]
        bits16 = [
            [draw(d.seed, int(d.step), d.stream, d.row + i, d.column + j) for j in range(width)]
            for i in range(height)
        ]
    found = judge(rows, facts_of(fmt), signs, bits16)
    COMPARED["referee"] += sum(len(row) for row in found.codes)
    return found


def same(found: Tensor, expected: list[list[float]]) -> bool:
    """Equal numbers in equal places, a NaN being equal to a NaN."""
    wanted = torch.tensor(expected, dtype=torch.float64).view(found.shape)
    return bool(((found == wanted) | (found.isnan() & wanted.isnan())).all())


def check(case: Case, fmt: BlockFormat) -> None:
    before = case.x.clone()
    found = quantize(case.x, fmt, case.axis, *_rounding(case), seed=case.draws)
    assert torch.equal(case.x.nan_to_num(), before.nan_to_num())
    if case.x.movedim(case.axis, -1).shape[0] == 0:
        assert found.codes.numel() == 0 and found.dequantize().shape == case.x.shape
        return
    expected = verdict(case, fmt)
    assert unpack(found.codes, found.grid.bits, len(expected.codes[0])).tolist() == expected.codes
    assert same(found.scales.double(), expected.scales)
    assert (None if found.tensor_scale is None else float(found.tensor_scale)) == expected.factor
    assert same(found.decoded().double(), expected.decoded)
    check_dequantize(case, found, expected)
    check_emulation(case, fmt, expected)


def _rounding(case: Case) -> tuple[str, Hadamard | None]:
    return ("nearest" if case.draws is None else "stochastic", case.hadamard)


def check_dequantize(case: Case, found: Quantized, expected: Verdict) -> None:
    along = case.x.movedim(case.axis, -1)
    decoded = torch.tensor(expected.decoded)[: along.shape[0], : along.shape[1]]
    assert same(found.dequantize().movedim(case.axis, -1).double(), decoded.tolist())


def check_emulation(case: Case, fmt: BlockFormat, expected: Verdict) -> None:
    """What a GEMM is given is what the codes say."""
    signs = case.hadamard and torch.tensor(case.hadamard.signs, dtype=torch.int8)
    treatment = Treatment(fmt, case.axis % 2, signs, case.draws)
    (emulated,) = emulate(case.x, [treatment])
    factor = 1.0 if emulated.factor is None else emulated.factor
    values = (emulated.values * factor).movedim(case.axis % 2, -1)
    decoded = torch.tensor(expected.decoded)[: values.shape[0], : values.shape[1]]
    assert same(values.double(), decoded.tolist())


@pytest.mark.parametrize("name", QUANTISED)
@settings(FEW, max_examples=25)
@given(case=cases())
def test_library_formats_equal_the_referee(name: str, case: Case) -> None:
    check(case, load_format(name))


@FEW
@given(case=cases(), fmt=random_formats())
def test_random_grids_equal_the_referee(case: Case, fmt: BlockFormat) -> None:
    check(case, fmt)


@pytest.mark.parametrize(
    ("counter", "key", "words"),
    [
        ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        (
            (0xFFFFFFFF,) * 4,
            (0xFFFFFFFF,) * 2,
            (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD),
        ),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)
def test_the_referees_philox_gives_the_known_answers(
    counter: tuple[int, ...], key: tuple[int, ...], words: tuple[int, ...]
) -> None:
    """From Random123's kat_vectors (philox4x32 10), the authors' own test data."""
    assert tuple(philox(counter, key)) == words
