"""Validation: the throughput model beside times measured on a real device.

A GEMM, a copy or a layer was timed by itself, so it has the device's ``start`` once; a step was
replayed as a graph and has none. What counts is the error of the times that no constant was fitted
to (``use: check``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from formats import load_recipe
from hwmodels.device import BF16, Device, load_device
from hwmodels.measured import Measured, Timing, Use
from hwmodels.piece import MICRO, Piece, time_piece
from hwmodels.throughput import step_time

TARGETS = {"gemm": 15, "layer": 15, "step": 20}  # largest error that was aimed at, percent


@dataclass(frozen=True)
class Comparison:
    """One measured time beside the model's."""

    device: str
    model: str
    recipe: str | None
    what: str
    use: Use
    measured_us: float
    modelled_us: float
    bound: str

    @property
    def error_percent(self) -> float:
        """How far the model is off, in percent of what was measured."""
        return 100 * (self.modelled_us - self.measured_us) / self.measured_us


def compare(measured: Measured) -> Iterator[Comparison]:
    """Every measured time beside the model's.

    Raises:
        ValueError: the device or a recipe is unknown, or the device lacks a rate.
    """
    device = load_device(measured.device)
    for copy in measured.copies:
        piece = Piece("copy", "copy", 0.0, BF16, copy.bytes, kernel="stream")
        yield _alone(device, copy, [piece], (f"{copy.mib:g} MiB", None, "copy"))
    for gemm in measured.gemms:
        what = f"{gemm.m}x{gemm.n}x{gemm.k}, {gemm.label}"
        yield _alone(device, gemm, [gemm.piece], (what, None, "gemm"))
    for layer in measured.layers:
        what = f"{layer.rows}x{layer.out_features}x{layer.in_features}"
        yield _alone(device, layer, layer.pieces(device), (what, layer.recipe, "layer"))
    for run in measured.steps:
        step = step_time(device, measured.shape(run), load_recipe(run.recipe), run.optimiser)
        name = f"{run.model}, {run.tokens:,} tokens"
        modelled = step.seconds / MICRO
        yield Comparison(
            device.name, name, run.recipe, "step", run.use, run.time_us, modelled, step.bound
        )


def checked(comparisons: Iterable[Comparison], what: str) -> list[Comparison]:
    """The times of a kind that nothing was fitted to."""
    return [one for one in comparisons if one.what == what and one.use == "check"]


def worst(comparisons: Iterable[Comparison], what: str) -> Comparison | None:
    """The checked time of a kind that the model is furthest from; None if there are none."""
    return max(checked(comparisons, what), key=lambda one: abs(one.error_percent), default=None)


def _alone(
    device: Device, one: Timing, pieces: Iterable[Piece], named: tuple[str, str | None, str]
) -> Comparison:
    """What was launched and timed by itself; the start is in place of the first launch."""
    model, recipe, what = named
    timed = [time_piece(device, piece) for piece in pieces]
    modelled = sum(piece.seconds for piece in timed) / MICRO
    if reached := device.record.achievable:
        modelled += reached.start.value - reached.launch.value
    longest = max(timed, key=lambda piece: piece.seconds).bound
    return Comparison(device.name, model, recipe, what, one.use, one.time_us, modelled, longest)
