"""The fused CPU path: ``cpu.c``, built by the machine's C compiler when it is first needed.

Building takes about a second and happens once per process, in a folder that is then removed: there
is no stale library to worry about. One call does a whole operand, which eager torch would need a
hundred for; what a call costs matters where layers are small. Threads are torch's own, as its
OpenMP runtime is loaded already.

Shape suffixes: K the contraction, R rows.
"""

from __future__ import annotations

import ctypes
import math
import os
import shutil
import subprocess
import tempfile
from ctypes import POINTER, Structure, byref, c_float, c_int32, c_int64, c_uint32, c_void_p
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from formats import BlockFormat, Grid
from formats.scale import FOUR_OVER_SIX
from kernels.rounding import COLUMNS_PER_CALL, WORD, Draws
from kernels.scaling import TensorScale, round_up_from, tensor_scale
from kernels.spacing import Spacing

SOURCE = Path(__file__).with_name("cpu.c")
COMPILERS = ("cc", "gcc", "clang")
# Each operation rounds by itself. That none can trap lets branches become selections.
NUMERICS = ("-ffp-contract=off", "-fno-trapping-math")
FLAGS = ("-std=gnu11", "-O3", *NUMERICS, "-fopenmp", "-shared", "-fPIC")
# As in the source.
LANES = 64
LEVELS = 256
SCALE_KINDS = ("fp32", "bf16", "minifloat", "power-of-two")


# The source's structures.
class _Spacing(Structure):
    _fields_ = [("limit", c_float), ("finest", c_float), ("relative", c_float)]


class _Table(Structure):
    _fields_ = [
        ("count", c_int32),
        ("zero", c_int32),
        ("is_symmetric", c_int32),
        ("has_negative_zero", c_int32),
        ("levels", c_float * LEVELS),
        ("thresholds", c_float * (LEVELS - 1)),
    ]


class _Format(Structure):
    _fields_ = [
        ("height", c_int32),
        ("width", c_int32),
        ("is_two_level", c_int32),
        ("is_four_over_six", c_int32),
        ("has_table", c_int32),
        ("scale_kind", c_int32),
        ("round_up_from", c_int32),
        ("max_exponent", c_int32),
        ("largest_element", c_float),
        ("largest_scale", c_float),
        ("headroom", c_float),
        ("element", _Spacing),
        ("scale", _Spacing),
        ("table", _Table),
    ]


class _Job(Structure):
    _fields_ = [
        ("length_K", c_int64),
        ("length_R", c_int64),
        ("stride_K", c_int64),
        ("stride_R", c_int64),
        ("out_length_K", c_int64),
        ("out_stride_K", c_int64),
        ("out_stride_R", c_int64),
        ("unit", c_int64),
        ("hadamard", c_int32),
        ("threads", c_int32),
        ("is_stochastic", c_int32),
        ("key", c_uint32 * 2),
        ("step", c_uint32),
        ("stream", c_uint32),
        ("first_row", c_uint32),
        ("first_group", c_uint32),
        ("hadamard_factor", c_float),
    ]


@dataclass(frozen=True)
class CpuPath:
    """What runs on CPU tensors, ``c`` or ``torch``, and why."""

    name: str
    reason: str


@cache
def cpu_path() -> CpuPath:
    """Whether the fused path runs, found out by building it."""
    try:
        _library()
    except OSError as error:
        return CpuPath("torch", f"the fused path was not built: {error}")
    return CpuPath("c", "fused, built by this machine's C compiler")


@cache
def _library() -> ctypes.CDLL:
    """The built source.

    Raises:
        OSError: there is no compiler, or it failed.
    """
    names = [name for name in (os.environ.get("CC"), *COMPILERS) if name and shutil.which(name)]
    if not names:
        raise OSError(f"no C compiler found ({', '.join(COMPILERS)})")
    vectors = ["-mavx2"] if torch.backends.cpu.get_cpu_capability().startswith("AVX") else []
    with tempfile.TemporaryDirectory() as folder:
        built = Path(folder) / "cpu.so"
        command = [names[0], *FLAGS, *vectors, str(SOURCE), "-o", str(built)]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode:
            raise OSError(f"{names[0]}: {result.stderr.strip().partition(chr(10))[0]}")
        library = ctypes.CDLL(str(built))
    library.largest_finite.argtypes = [c_void_p, c_void_p, POINTER(_Format), POINTER(_Job)]
    library.largest_finite.restype = c_float
    library.emulate.argtypes = [c_void_p, *library.largest_finite.argtypes, c_void_p, c_void_p]
    library.emulate.restype = None
    return library


def runs(x: Tensor, fmt: BlockFormat) -> bool:
    """Whether the fused path takes this tensor in this format: tiles hold whole blocks."""
    fits = LANES % fmt.block[0] == 0
    return x.device.type == "cpu" and x.numel() > 0 and fits and cpu_path().name == "c"


def emulate_fused(
    x_KR: Tensor, fmt: BlockFormat, signs: Tensor | None, draws: Draws | None
) -> tuple[Tensor, TensorScale | None]:
    """Element times block scale, FP32 [K, R] in x's layout, and the tensor's scale.

    Args:
        x_KR: any strides; K is padded to whole Hadamard pieces.
        signs: int8 [n] of the Hadamard transform, or None.
        draws: for stochastic rounding, with K along the columns, or None.
    """
    x_KR, described = x_KR.float(), _describe(fmt)
    job = _job(x_KR, fmt, signs, draws)
    rows, columns = x_KR.shape[1], job.out_length_K
    values = torch.empty(rows, columns).t() if x_KR.stride(0) == 1 else torch.empty(columns, rows)
    job.out_stride_K, job.out_stride_R = values.stride()
    source, signs_at = x_KR.data_ptr(), None if signs is None else signs.data_ptr()
    scale, encode, decode = None, None, None
    if fmt.is_two_level:
        assert fmt.element is not None and fmt.scale is not None
        largest = _library().largest_finite(source, signs_at, byref(described), byref(job))
        scale = tensor_scale(torch.tensor(largest), fmt.element, fmt.scale)
        encode, decode = scale.encode.data_ptr(), scale.decode.data_ptr()
    _library().emulate(
        source, values.data_ptr(), signs_at, byref(described), byref(job), encode, decode
    )
    return values, scale


def _job(x_KR: Tensor, fmt: BlockFormat, signs: Tensor | None, draws: Draws | None) -> _Job:
    size = 0 if signs is None else signs.numel()
    job = _Job(
        *x_KR.shape,
        *x_KR.stride(),
        out_length_K=x_KR.shape[0] + (-x_KR.shape[0] % size if size else 0),
        unit=math.lcm(fmt.block[1], size or 1, COLUMNS_PER_CALL),
        hadamard=size,
        threads=torch.get_num_threads(),
        hadamard_factor=1.0 / math.sqrt(size or 1),
    )
    if draws is not None:
        job.is_stochastic = True
        job.key[:] = draws.seed & WORD, draws.seed >> 32 & WORD
        job.step, job.stream = int(draws.step) & WORD, draws.stream
        job.first_row, job.first_group = draws.row, draws.column // COLUMNS_PER_CALL
    return job


@cache
def _describe(fmt: BlockFormat) -> _Format:
    assert fmt.element is not None and fmt.scale is not None
    element, rule, spacing = fmt.element, fmt.scale, Spacing.of(fmt.element)
    kind = rule.format.name if rule.format.kind == "wide" else rule.format.kind
    described = _Format(
        height=fmt.block[0],
        width=fmt.block[1],
        is_two_level=fmt.is_two_level,
        is_four_over_six=rule.rule == FOUR_OVER_SIX,
        has_table=spacing is None,
        scale_kind=SCALE_KINDS.index(kind),
        largest_element=element.max,
        largest_scale=rule.max,
        headroom=rule.headroom,
        table=_table(element),
    )
    if kind == "power-of-two":
        described.round_up_from = round_up_from(element, rule.rule)
        described.max_exponent = element.max_exponent
    if spacing is not None:
        described.element = _Spacing(spacing.limit, spacing.finest, spacing.relative)
    if kind == "minifloat":
        of_scale = Spacing.of_scale(rule)
        described.scale = _Spacing(of_scale.limit, of_scale.finest, of_scale.relative)
    return described


def _table(grid: Grid) -> _Table:
    table = _Table(
        len(grid.levels), grid.zero_index, grid.is_symmetric, grid.negative_zero_code is not None
    )
    table.levels[: len(grid.levels)] = grid.levels
    table.thresholds[: len(grid.levels) - 1] = grid.thresholds()
    return table
