"""Timing an operation honestly: on its own stream of work, with cold caches and fresh inputs.

A GPU runs behind the program that drives it, so time is taken by events on the GPU. In front of
each timed call the GPU is kept busy, long enough for the driver to have queued the whole call:
what is measured is the GPU's time, without gaps between launches. The level-2 cache is overwritten
before the start event, outside the timed window. The wall time of back-to-back calls is taken
separately: once with launching them, which is what an eager training step sees, and once replayed
as CUDA graphs, which is what a step sees that the host does not have to launch.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

Clock = Callable[[], float]
FLUSH_BYTES = 256 << 20  # several times the largest level-2 cache
BUSY_CYCLES = 4_000_000  # about two milliseconds
WARM_UP_CALLS = 3


@dataclass(frozen=True)
class Timing:
    """Microseconds per call: medians, and the spread (maximum - minimum) of the single calls.

    Attributes:
        device_us: on the GPU alone; on a CPU the same as the wall time.
        wall_us: back to back, with the work of launching.
        replayed_us: back to back, replayed as CUDA graphs; None where that was not done.
        not_replayed: why it was not.
        launches: GPU kernels per call, None on a CPU.
    """

    device_us: float
    spread_us: float
    wall_us: float
    replayed_us: float | None
    not_replayed: str
    launches: int | None


def measure(
    call: Callable[[Any], object],
    inputs: Sequence[Any],
    device: torch.device,
    repeats: int = 20,
    clock: Clock = time.perf_counter,
) -> Timing:
    """Time ``call`` on each of the inputs in turn.

    Args:
        inputs: tensors of the same shape with different values, so that no call repeats another.
        repeats: timed calls.

    Raises:
        ValueError: no inputs or repeats, or calls shorter than the clock can tell from nothing.
    """
    if not inputs or repeats < 1:
        raise ValueError("timing: no data: at least one input and one repeat are needed")
    for i in range(WARM_UP_CALLS):
        call(inputs[i % len(inputs)])
    turns = [inputs[i % len(inputs)] for i in range(repeats)]
    if device.type == "cuda":
        single = _on_gpu(call, turns, device)
        wall = _wall_of_all(call, turns, device, clock)
        launches = count_launches(call, inputs[0])
        replayed, reason = _replayed(call, inputs, repeats, device, clock)
    else:
        single = _on_cpu(call, turns, clock)
        wall, launches = statistics.median(single), None
        replayed, reason = None, "no GPU, no graphs"
    middle = statistics.median(single)
    if not middle > 0:
        raise ValueError("timing: below resolution: the clock did not move during a call")
    return Timing(middle, max(single) - min(single), wall, replayed, reason, launches)


def count_launches(call: Callable[[Any], object], argument: Any) -> int:
    """GPU kernels, copies and fills that one call launches."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        call(argument)
        torch.cuda.synchronize()
    return sum(event.device_type.name == "CUDA" for event in profiler.events() or ())


def _on_gpu(
    call: Callable[[Any], object], turns: Sequence[Any], device: torch.device
) -> list[float]:
    flush = torch.empty(FLUSH_BYTES, dtype=torch.uint8, device=device)
    times = []
    for argument in turns:
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        flush.zero_()
        torch.cuda._sleep(BUSY_CYCLES)
        start.record()
        call(argument)
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) * 1e3)
    return times


def _wall_of_all(
    call: Callable[[Any], object], turns: Sequence[Any], device: torch.device, clock: Clock
) -> float:
    torch.cuda.synchronize(device)
    before = clock()
    for argument in turns:
        call(argument)
    torch.cuda.synchronize(device)
    return (clock() - before) * 1e6 / len(turns)


def _replayed(
    call: Callable[[Any], object],
    inputs: Sequence[Any],
    repeats: int,
    device: torch.device,
    clock: Clock,
) -> tuple[float | None, str]:
    """Microseconds per replayed call; None, and why, for a call that cannot be captured."""
    try:
        graphs = [_capture(call, argument) for argument in inputs]
    except RuntimeError as error:
        torch.cuda.synchronize(device)
        return None, f"no CUDA graph can hold it: {str(error).partition(chr(10))[0]}"
    turns = [graphs[i % len(graphs)] for i in range(repeats)]
    return _wall_of_all(torch.cuda.CUDAGraph.replay, turns, device, clock), ""


def _capture(call: Callable[[Any], object], argument: Any) -> torch.cuda.CUDAGraph:
    current, stream = torch.cuda.current_stream(), torch.cuda.Stream()
    stream.wait_stream(current)
    with torch.cuda.stream(stream):
        call(argument)  # what is set up once per stream must not be captured
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        call(argument)
    current.wait_stream(stream)
    return graph


def _on_cpu(call: Callable[[Any], object], turns: Sequence[Any], clock: Clock) -> list[float]:
    times = []
    for argument in turns:
        before = clock()
        call(argument)
        times.append((clock() - before) * 1e6)
    return times
