"""Emulator: how much slower than their traffic the program's own quantisers were measured to be.

    quantise   time = start + slowdown * (tensor read once, each orientation written) / copy's rate
    amax       of formats with a scale per tensor: what they take longer than a format that is the
               same but for that, = launch + slowdown * (tensor read once) / copy's rate

The copy is one of the same tensor in the same run: machines of one kind differ by several per cent.
A quantiser's slowdown hangs on its treatment and is the mean over the formats that were measured;
how a value is rounded makes no difference to the pass that looks for the largest.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from statistics import mean
from typing import Literal

from pydantic import Field

from formats import BlockFormat, Operand, load_format
from formats.schema import Record
from formats.yamlfile import load_yaml
from hwmodels.device import Achievable, load_device
from hwmodels.figures import Figure

KERNEL_CONSTANTS = Path(__file__).parent / "data" / "kernels.yaml"
Treatment = Literal["nearest", "rht", "stochastic", "rht+stochastic"]


class QuantiserTime(Record):
    """Median time of one emulated quantiser, BF16 to BF16."""

    format: str
    orientations: Literal[1, 2]
    treatment: Treatment
    time_us: float = Field(gt=0)


class Emulator(Record):
    """Times of the program's own quantisers on one device, which has ``achievable`` values.

    Attributes:
        shape: of the tensor, in BF16.
        copy_us: median time of copying it, which reads and writes it once.
    """

    device: str
    shape: tuple[int, int]
    copy_us: float = Field(gt=0)
    source: str
    date: str
    quantisers: tuple[QuantiserTime, ...]

    def of(self, orientations: int, treatment: Treatment) -> list[tuple[BlockFormat, float]]:
        """What was measured under a treatment: format and time (us)."""
        return [
            (load_format(one.format), one.time_us)
            for one in self.quantisers
            if (one.orientations, one.treatment) == (orientations, treatment)
        ]

    @property
    def reached(self) -> Achievable:
        """What the device reaches otherwise."""
        reached = load_device(self.device).record.achievable
        assert reached is not None
        return reached

    def slowdown(self, time_us: float, passes: int) -> float:
        """A time over that of reading or writing the tensor so many times, as fast as a copy."""
        return 2 * time_us / (passes * (self.copy_us - self.reached.start.value))


class KernelConstants(Record):
    """What kernels were measured to cost."""

    rotation: Figure  # time of fused rotate-and-quantise over quantise alone
    emulator: Emulator


@cache
def kernel_constants() -> KernelConstants:
    """The kernel constants that this part of the model rests on."""
    return load_yaml(KERNEL_CONSTANTS, KernelConstants)


def treatment_of(operand: Operand) -> Treatment:
    """What an operand goes through, by the names of the measured times."""
    if operand.rounding == "stochastic":
        return "rht+stochastic" if operand.hadamard else "stochastic"
    return "rht" if operand.hadamard else "nearest"


@cache
def quantise_slowdown(orientations: int, treatment: Treatment) -> float:
    """Of a quantiser, without what a scale per tensor adds."""
    emulator = kernel_constants().emulator
    start = emulator.reached.start.value
    return mean(
        emulator.slowdown(time - start, 1 + orientations)
        for fmt, time in emulator.of(orientations, treatment)
        if not fmt.is_two_level
    )


@cache
def amax_slowdown(orientations: int, rotated: bool) -> float:
    """Of the pass that looks for a tensor's largest magnitude, after a rotation if there is one."""
    emulator = kernel_constants().emulator
    found = emulator.of(orientations, "rht" if rotated else "nearest")
    launch = emulator.reached.launch.value
    return mean(
        emulator.slowdown(time - plain_time - launch, 1)
        for fmt, time in found
        for plain, plain_time in found
        if fmt.is_two_level and not plain.is_two_level
        if (fmt.element, fmt.block) == (plain.element, plain.block)
    )
