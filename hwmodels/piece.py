"""Pieces: the parts that a step is made of, and the time of one on a device.

On a device without measurements a piece takes its roofline, a lower bound on time:

    time = max(FLOP / peak, bytes / bandwidth)

On a device whose file has ``achievable`` values a piece takes what its kind was seen to reach, plus
a launch each:

    gemm        tiling.py: whole waves of tiles at a share of the peak, then the rest of the result
    attention   FLOP at a share of the peak, plus its traffic: with a few blocks of keys to go
                through, a kernel has little to hide its loads behind
    pass        bytes at the bandwidth that a step's element-wise and reducing kernels reach
    stream      bytes at the bandwidth that a copy reaches, times ``slowdown``: the time that this
                very kernel was measured to take over that of its traffic
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hwmodels.device import Achievable, Device
from hwmodels.tiling import tilings

TERA, MICRO = 1e12, 1e-6
Kernel = Literal["gemm", "attention", "pass", "stream"]


@dataclass(frozen=True)
class Piece:
    """Equal pieces of a step, ``launches`` of them.

    Attributes:
        kind: what it counts as when a step's time is broken down.
        flops, bytes: of all launches together.
        rate: operand type that the FLOP are done in.
        shape: (m, n, k) of each of them, if they are GEMMs.
        slowdown: see the module.
    """

    name: str
    kind: str
    flops: float
    rate: str
    bytes: float
    launches: int = 1
    kernel: Kernel = "pass"
    shape: tuple[int, int, int] | None = None
    slowdown: float = 1.0


@dataclass(frozen=True)
class Timed:
    """A piece with its time (s) and what bounds it."""

    piece: Piece
    seconds: float
    bound: str


def time_piece(device: Device, piece: Piece) -> Timed:
    """The time of a piece on a device.

    Raises:
        ValueError: the device lacks the piece's rate.
    """
    reached = device.record.achievable
    times = _roofline(device, piece) if reached is None else _reached(device, piece, reached)
    overlapping = piece.kernel != "attention" or reached is None
    work = times["compute"], times["memory"]
    seconds = (max(work) if overlapping else sum(work)) + times["launch"]
    return Timed(piece, seconds, max(times, key=lambda bound: times[bound]))


def _roofline(device: Device, piece: Piece) -> dict[str, float]:
    memory = piece.slowdown * piece.bytes / (device.bandwidth.value * TERA)
    return {"compute": _at_peak(device, piece, piece.flops), "memory": memory, "launch": 0.0}


def _reached(device: Device, piece: Piece, reached: Achievable) -> dict[str, float]:
    share = reached.passes if piece.kernel == "pass" else reached.bandwidth
    memory = piece.slowdown * piece.bytes / (device.bandwidth.value * TERA * share.value)
    launch = piece.launches * reached.launch.value * MICRO
    compute = 0.0
    if piece.kernel == "attention":
        compute = _at_peak(device, piece, piece.flops) / reached.attention.value
    elif piece.shape is not None:
        compute, reductions = _gemm_seconds(device, piece, piece.shape, reached)
        launch *= 1 + reductions
    return {"compute": compute, "memory": memory, "launch": launch}


def _gemm_seconds(
    device: Device, piece: Piece, shape: tuple[int, int, int], reached: Achievable
) -> tuple[float, int]:
    """Of the fastest tiling, all launches: seconds beside its loads, and reductions per GEMM."""
    assert device.record.compute_units is not None
    share = reached.compute[piece.rate].value if piece.rate in reached.compute else 1.0
    rate = copy_rate(device, reached)
    found = []
    for tiling in tilings(shape, int(device.record.compute_units.value)):
        inner = _at_peak(device, piece, tiling.flops) / share
        exposed = (reached.exposed.value * tiling.result_bytes + tiling.partial_bytes) / rate
        found.append((piece.launches * (inner + exposed), int(tiling.splits > 1)))
    return min(found)


def copy_rate(device: Device, reached: Achievable) -> float:
    """Bytes per second that a copy reads and writes."""
    return device.bandwidth.value * TERA * reached.bandwidth.value


def _at_peak(device: Device, piece: Piece, flops: float) -> float:
    return flops / (device.rate(piece.rate).value * TERA) if flops else 0.0
