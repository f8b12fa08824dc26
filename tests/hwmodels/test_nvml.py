"""EnergyWindow on fake GPUs: each way in which a counter can fail to answer."""

import itertools

import pytest

from hwmodels.nvml import EnergyWindow, measure


class NVMLError(Exception):
    pass


class FakeNvml:
    """GPUs that draw constant power; time is the caller's."""

    NVMLError = NVMLError

    def __init__(self, watts=300.0, sampled_watts=None, gpus=4, tick=0.0, mig=False, broken=()):
        self.watts, self.sampled_watts = watts, watts if sampled_watts is None else sampled_watts
        self.gpus, self.tick, self.mig, self.broken = gpus, tick, mig, set(broken)
        self.now, self.reset_at, self.asked = 0.0, None, []

    def clock(self):
        return self.now

    def _answer(self, name):
        if name in self.broken:
            raise NVMLError(f"{name}: Not Supported")

    def nvmlInit(self):  # noqa: N802
        self._answer("init")

    def nvmlDeviceGetHandleByIndex(self, index):  # noqa: N802
        self.asked.append(index)
        if index >= self.gpus:
            raise NVMLError("Invalid Argument")
        return index

    def nvmlDeviceGetHandleByUUID(self, uuid):  # noqa: N802
        self.asked.append(uuid)
        return uuid

    def nvmlDeviceGetMigMode(self, handle):  # noqa: N802
        self._answer("mig")
        return (int(self.mig), int(self.mig))

    def nvmlDeviceGetTotalEnergyConsumption(self, handle):  # noqa: N802
        self._answer("energy")
        seen = self.now - self.now % self.tick if self.tick else self.now
        base = 1e9 if self.reset_at is None or self.now < self.reset_at else 0.0
        return base + seen * self.watts * 1000  # millijoules

    def nvmlDeviceGetPowerUsage(self, handle):  # noqa: N802
        self._answer("power")
        return self.sampled_watts * 1000  # milliwatts


@pytest.fixture(autouse=True)
def _no_mask(monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


def read(nvml, seconds=5.0, **arguments):
    with EnergyWindow(nvml=nvml, clock=nvml.clock, **arguments) as window:
        nvml.now += seconds
    return window.reading


@pytest.mark.parametrize("broken", [("init",), ("energy", "power")])
def test_B98_an_unreadable_counter_is_a_state_with_a_reason(broken):
    reading = read(FakeNvml(broken=broken))
    assert (reading.joules, reading.method) == (None, "none")
    assert "Not Supported" in reading.reason


def test_B98_failing_in_the_middle_ends_the_work_all_the_same():
    nvml = FakeNvml()
    with EnergyWindow(nvml=nvml, clock=nvml.clock) as window:
        nvml.now += 5
        nvml.broken = {"energy", "power"}
        finished = True
    assert finished and window.reading.joules is None and window.reading.reason


def test_B98_a_missing_library_is_a_state(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pynvml", None)
    with EnergyWindow() as window:
        pass
    assert window.reading.joules is None and "not installed" in window.reading.reason


def test_B99_power_stands_in_for_a_broken_counter_and_says_so():
    reading = read(FakeNvml(broken=("energy",)))
    assert (reading.joules, reading.method) == (pytest.approx(1500), "sampled")
    assert "energy counter" in reading.reason


def test_B99_a_counter_that_stands_still_is_not_zero_joules():
    reading = read(FakeNvml(watts=0.0, sampled_watts=100.0))
    assert (reading.joules, reading.method) == (pytest.approx(500), "sampled")
    assert read(FakeNvml(watts=0.0, broken=("power",))).joules is None


def test_B101_only_the_visible_gpu_is_read(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2")
    nvml = FakeNvml()
    read(nvml)
    assert nvml.asked == [2]
    assert "no device number 1" in read(nvml, index=1).reason


def test_B101_a_uuid_is_looked_up_as_one(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-aa,GPU-bb")
    nvml = FakeNvml()
    read(nvml, index=1)
    read(nvml, uuid="GPU-cc")
    assert nvml.asked == ["GPU-bb", "GPU-cc"]


def test_B101_each_of_four_ranks_counts_its_own_gpu_once():
    nvml = FakeNvml()
    total = sum(read(nvml, index=rank).joules for rank in range(4))
    assert nvml.asked == [0, 1, 2, 3] and total == pytest.approx(4 * 1500)


def test_B102_disagreeing_methods_are_both_kept_and_flagged():
    reading = read(FakeNvml(watts=187 / 5, sampled_watts=327 / 5))
    assert reading.counter_joules == pytest.approx(187)
    assert reading.sampled_joules == pytest.approx(327)
    assert reading.gap == pytest.approx(0.749, abs=0.01) and "differ by 75%" in reading.reason


def test_B103_a_short_window_is_too_short_not_zero():
    reading = read(FakeNvml(tick=0.01), seconds=0.001)
    assert reading.joules is None and "too short" in reading.reason


def test_B103_work_is_repeated_until_the_window_is_long_enough():
    nvml = FakeNvml(tick=0.01)
    calls = itertools.count()

    def work():
        next(calls)
        nvml.now += 0.001

    found = measure(
        work,
        repeats=5,
        open_window=lambda: EnergyWindow(nvml=nvml, clock=nvml.clock),
        clock=nvml.clock,
    )
    assert found.joules_per_call == pytest.approx(0.3, rel=0.01)
    assert all(reading.seconds >= 2 for reading in found.readings) and len(found.readings) == 5
    assert found.readings[0].uncertainty_joules == pytest.approx(30, rel=0.02)  # 0.1 s at 300 W


def test_B105_millijoules_and_milliwatts_become_joules():
    reading = read(FakeNvml(watts=300.0), seconds=2.0)
    assert reading.counter_joules == pytest.approx(600)
    assert reading.sampled_joules == pytest.approx(600)
    assert reading.reason == "" and reading.gap == pytest.approx(0)


def test_a_partitioned_gpu_is_refused():
    reading = read(FakeNvml(mig=True))
    assert reading.joules is None and "MIG" in reading.reason
    assert read(FakeNvml(broken=("mig",))).method == "counter"


def test_a_reset_counter_is_noticed():
    nvml = FakeNvml(broken=("power",))
    nvml.reset_at = 1.0
    reading = read(nvml)
    assert reading.joules is None and "reset" in reading.reason
