"""Racing a rival: its code and ours for one operation, on the same tensors, beside one roof.

A rival rounds as its authors chose, so it need not equal our reference. What it computes is
compared instead: its SQNR against the unquantised result, and its distance from ours, are in the
row, for nobody to compare the speed of something that computes nonsense. What cannot run here is a
row too, with the reason.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from textwrap import shorten
from typing import Any

from torch import Tensor
from triton.errors import TritonError

from kernels import Hadamard, fidelity
from kernels.dispatch import Path
from suites.experiment import Cell
from suites.kernel_cases import HADAMARD_SIZE, Case, make_case, training_step
from suites.kernel_rows import row_config, time_call, timed_row
from suites.rival_adapters import ADAPTERS, Config
from suites.rivals import RIVALS
from suites.rows import Quantity, Row, measured
from suites.runner import CELL_ERRORS

LONGEST_REASON = 300
# What other people's code, of another version than was looked at, may end with.
RIVAL_ERRORS = (
    *CELL_ERRORS, AssertionError, AttributeError, ImportError, LookupError, TypeError, TritonError,
)  # fmt: skip


def race(cell: Cell, device: str) -> Row:
    """Time a rival and, just before it, ours.

    Raises:
        ValueError: ours is wrong.
    """
    config = cell.config
    if config["version"] is None:
        return _unavailable(cell, f"not installed: {RIVALS[config['rival']].install}")
    case = make_case(config, device)
    case.check()
    ours = time_call(cell, case, case.candidate)
    try:
        call, rotation = _rival(config, case)
        quality = _quality(case, call, rotation)
        path = Path(_name(config), "emulated", config["remark"])
        row = timed_row(cell, replace(case, candidate=call, path=path), ours)
    except RIVAL_ERRORS as error:
        return _unavailable(cell, f"{type(error).__name__}: {error}")
    return row.model_copy(update={"values": row.values | quality})


def _name(config: Config) -> str:
    return f"{config['rival']} {config['version'] or 'absent'}, {config['mode']}"


def _unavailable(cell: Cell, reason: str) -> Row:
    """Not a failure of this run: the rival cannot be timed on this machine."""
    reason = shorten(reason, LONGEST_REASON, placeholder=" ...")
    values = {"time_us": Quantity(value=None, unit="us", origin="measured", note=reason)}
    facts = {"path": _name(cell.config), "reason": reason}
    return Row(kind="kernel", config=row_config(cell), values=values, facts=facts)


def _rival(config: Config, case: Case) -> tuple[Callable[[Any], Any], Tensor | None]:
    """What is timed, and the rotation in which its result is."""
    if config["mode"] == "cuda" and case.device.type != "cuda":
        raise ValueError("this mode needs a GPU")
    adapter = ADAPTERS[config["rival"]]
    with _importable(config["folder"], adapter.hollow):
        if case.layer is None:
            quantiser = adapter.quantiser(config)
            return quantiser.call, quantiser.rotation
        return training_step(*adapter.layer(config, case.layer)), None


@contextmanager
def _importable(folder: str | None, hollow: tuple[str, ...]) -> Iterator[None]:
    """Make a rival's modules importable while its adapter imports them."""
    places = [] if folder is None else [folder]
    sys.path[:0] = places
    try:
        for name in hollow:
            spec = importlib.util.find_spec(name) if name not in sys.modules else None
            if spec is not None:
                sys.modules[name] = importlib.util.module_from_spec(spec)
        yield
    finally:
        for place in places:
            sys.path.remove(place)


def _quality(
    case: Case, call: Callable[[Any], Any], rotation: Tensor | None
) -> dict[str, Quantity]:
    """How far the rival's results are from the unquantised ones and from ours: the worst tensor."""
    x = case.inputs[0]
    if case.layer is None:
        truths, ours = [x], [_ours(case, x, rotation is not None)]
        theirs = [_rotated_back(call(x), rotation)]
        note = "against the input"
    else:
        truths, ours, theirs = case.roof(x), case.candidate(x), call(x)
        note = "of y, dx and dw against those of BF16, the lowest"
    sqnr = min(fidelity(*pair).sqnr_db for pair in zip(truths, theirs, strict=True))
    our_sqnr = min(fidelity(*pair).sqnr_db for pair in zip(truths, ours, strict=True))
    distance = max(fidelity(*pair).relative_l2 for pair in zip(ours, theirs, strict=True))
    return {
        "sqnr_db": measured(sqnr, "dB", note),
        "our_sqnr_db": measured(our_sqnr, "dB", note),
        "distance_from_ours": measured(distance, "1", "relative L2, the largest"),
    }


def _ours(case: Case, x: Tensor, rotated: bool) -> Tensor:
    """What our quantiser makes of x; it leaves a tensor's own factor to the GEMM's epilogue."""
    (result,) = case.candidate(x)
    values = result.values[: x.shape[0], : x.shape[1]].float()
    values = values if result.factor is None else values * result.factor
    matrix = Hadamard.from_seed(HADAMARD_SIZE, 0).matrix() if rotated else None
    return _rotated_back(values, matrix)


def _rotated_back(values: Tensor, rotation: Tensor | None) -> Tensor:
    if rotation is None:
        return values
    back = rotation.to(values.device).float().t()
    return (values.float().reshape(-1, len(back)) @ back).reshape(values.shape)
