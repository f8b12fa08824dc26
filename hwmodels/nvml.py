"""EnergyWindow: joules that a GPU measured itself, through NVML, with every reason for not knowing.

NVML keeps a counter of millijoules since the driver was loaded. The difference of two readings
around some work is the right way to measure, with care:

* the counter moves every 20 to 100 ms, so a window lasts 2 s or more, the work being repeated;
* it may be missing (older or virtual GPUs), refused, not ready, reset, or shared (MIG): each is a
  *state with a reason*. An unreadable counter is never zero joules;
* the power reading, sampled meanwhile and integrated, is a second opinion; the gap between the two
  is part of the result, above 10% it is flagged, and alone it stands in for a missing counter
  ("sampled");
* NVML does not know CUDA_VISIBLE_DEVICES: devices are found by UUID or by their place in that list.

The energy is the whole board's (memory included, host excluded) while it *emulates* a format; it
says nothing about hardware that has the format. Values are joules; NVML's are millijoules and
milliwatts.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Literal

MIN_WINDOW_SECONDS = 2.0
SAMPLE_SECONDS = 0.05
COUNTER_PERIOD_SECONDS = 0.1  # slowest update that is reported of any card
MAX_GAP = 0.10
MILLI = 1e-3

Method = Literal["counter", "sampled", "none"]


@dataclass(frozen=True)
class Reading:
    """Energy of one window.

    Attributes:
        joules: by ``method``; None when nothing could be read.
        counter_joules, sampled_joules: both methods where they worked.
        uncertainty_joules: what the counter's update period alone leaves open.
        reason: why there is no number, or what is wrong with it; empty when all is well.
    """

    seconds: float
    joules: float | None
    method: Method
    counter_joules: float | None = None
    sampled_joules: float | None = None
    uncertainty_joules: float | None = None
    reason: str = ""

    @property
    def gap(self) -> float | None:
        """Relative difference of the two methods, None unless both worked."""
        if not self.counter_joules or self.sampled_joules is None:
            return None
        return abs(self.counter_joules - self.sampled_joules) / self.counter_joules


@dataclass
class EnergyWindow:
    """Measures the work between entering and leaving: ``with EnergyWindow() as window: ...``.

    Attributes:
        index: place of the GPU among the visible ones, as CUDA counts.
        uuid: "GPU-...", when known (torch.cuda.get_device_properties): CUDA may order GPUs by speed
            where NVML orders them by bus, so this is the safe way to name one of several.
        synchronise: called before both readings, so that queued work counts (on CUDA, torch's).
        nvml: the pynvml module, or a stand-in.
        reading: the result, after leaving.
    """

    index: int = 0
    uuid: str | None = None
    synchronise: Callable[[], None] = field(default=lambda: None)
    nvml: Any = None
    clock: Callable[[], float] = time.monotonic
    reading: Reading | None = None

    def __post_init__(self) -> None:
        self._device: Any = None
        self._reason = ""
        self._samples: list[tuple[float, float]] = []
        self._stop = threading.Event()

    def __enter__(self) -> EnergyWindow:
        self._open()
        self.synchronise()
        self._start = self.clock()
        self._before = self._counter()
        self._sample()
        self._sampler = threading.Thread(target=self._sample_until_stopped, daemon=True)
        if self._device is not None:
            self._sampler.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.synchronise()
        after = self._counter()
        self._sample()
        seconds = self.clock() - self._start
        self._stop.set()
        if self._sampler.is_alive():
            self._sampler.join()
        self.reading = self._evaluate(seconds, after)

    def _open(self) -> None:
        """Find the device; on any failure, remember why there is none."""
        if self.nvml is None:
            try:
                import pynvml
            except ImportError:
                self._reason = "nvidia-ml-py is not installed"
                return
            self.nvml = pynvml
        try:
            self.nvml.nvmlInit()
            handle = self._find()
            if self._is_partitioned(handle):
                self._reason = "MIG is on: the counter covers the whole GPU, not this partition"
                return
            self._device = handle
        except self.nvml.NVMLError as error:
            self._reason = f"NVML: {error}"
        except ValueError as error:
            self._reason = str(error)

    def _find(self) -> Any:
        """The NVML handle of the GPU."""
        if self.uuid is not None:
            return self.nvml.nvmlDeviceGetHandleByUUID(self.uuid)
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        if visible is None:
            return self.nvml.nvmlDeviceGetHandleByIndex(self.index)
        names = [name.strip() for name in visible.split(",") if name.strip()]
        if self.index >= len(names) or names[self.index] == "-1":
            raise ValueError(f"CUDA_VISIBLE_DEVICES={visible} has no device number {self.index}")
        name = names[self.index]
        if name.startswith("MIG-"):
            raise ValueError("a MIG partition has no energy counter of its own")
        if name.isdecimal():
            return self.nvml.nvmlDeviceGetHandleByIndex(int(name))
        return self.nvml.nvmlDeviceGetHandleByUUID(name)

    def _is_partitioned(self, handle: Any) -> bool:
        try:
            current, _ = self.nvml.nvmlDeviceGetMigMode(handle)
        except self.nvml.NVMLError:
            return False  # a GPU that cannot be partitioned does not answer
        return bool(current)

    def _counter(self) -> float | None:
        """Joules since the driver was loaded."""
        if self._device is None:
            return None
        try:
            return self.nvml.nvmlDeviceGetTotalEnergyConsumption(self._device) * MILLI
        except self.nvml.NVMLError as error:
            self._reason = f"energy counter: {error}"
            return None

    def _sample(self) -> None:
        """Add a power reading in watts; a GPU without one simply leaves no samples."""
        if self._device is None:
            return
        try:
            watts = self.nvml.nvmlDeviceGetPowerUsage(self._device) * MILLI
        except self.nvml.NVMLError:
            return
        self._samples.append((self.clock(), watts))

    def _sample_until_stopped(self) -> None:
        while not self._stop.wait(SAMPLE_SECONDS):
            self._sample()

    def _sampled(self) -> float | None:
        """Integral of the power samples (trapezoids), joules."""
        samples = sorted(self._samples)
        if len(samples) < 2:
            return None
        pairs = zip(samples, samples[1:], strict=False)
        return sum((t1 - t0) * (p0 + p1) / 2 for (t0, p0), (t1, p1) in pairs)

    def _evaluate(self, seconds: float, after: float | None) -> Reading:
        sampled = self._sampled()
        counted = None
        if self._before is not None and after is not None:
            counted = after - self._before
        readable = counted is not None or sampled is not None
        if readable and seconds < MIN_WINDOW_SECONDS:
            why = f"window of {seconds:.3g} s is too short: {MIN_WINDOW_SECONDS:g} s are needed"
            return Reading(seconds, None, "none", counted, sampled, None, why)
        if counted is not None and counted <= 0:
            counted, self._reason = (
                None,
                "the energy counter stood still or was reset in the window",
            )
        if counted is not None:
            open_ended = COUNTER_PERIOD_SECONDS * counted / seconds
            reading = Reading(seconds, counted, "counter", counted, sampled, open_ended)
            if reading.gap is not None and reading.gap > MAX_GAP:
                return replace(
                    reading, reason=f"counter and integrated power differ by {reading.gap:.0%}"
                )
            return reading
        if sampled is not None:
            return Reading(seconds, sampled, "sampled", None, sampled, None, self._reason)
        reason = self._reason or "nothing could be read"
        return Reading(seconds, None, "none", reason=reason)


@dataclass(frozen=True)
class Measurement:
    """Energy per call of some work: median over windows, with their spread."""

    joules_per_call: float | None
    spread: float | None
    method: Method
    calls_per_window: int
    readings: tuple[Reading, ...]
    reason: str = ""


def measure(
    work: Callable[[], object],
    repeats: int = 5,
    open_window: Callable[[], EnergyWindow] = EnergyWindow,
    clock: Callable[[], float] = time.monotonic,
) -> Measurement:
    """Joules of one call of ``work``, repeated until each window lasts at least 2 s.

    A first, discarded pass warms up and sets the number of calls per window.
    """
    started, calls = clock(), 0
    while clock() - started < MIN_WINDOW_SECONDS:
        work()
        calls += 1
    readings = []
    for _ in range(repeats):
        with open_window() as window:
            inside = clock()
            done = 0
            while done < calls or clock() - inside < MIN_WINDOW_SECONDS:
                work()
                done += 1
        assert window.reading is not None
        readings.append((window.reading, done))
    return _summarise(readings)


def _summarise(readings: list[tuple[Reading, int]]) -> Measurement:
    last = tuple(reading for reading, _ in readings)
    reasons = sorted({reading.reason for reading in last if reading.reason})
    per_call = sorted(r.joules / n for r, n in readings if r.joules is not None)
    if len(per_call) < len(readings):
        return Measurement(None, None, "none", readings[0][1], last, "; ".join(reasons))
    middle = per_call[len(per_call) // 2]
    spread = (per_call[-1] - per_call[0]) / middle if middle else None
    methods = {reading.method for reading in last}
    method: Method = "counter" if methods == {"counter"} else "sampled"
    return Measurement(middle, spread, method, readings[0][1], last, "; ".join(reasons))
