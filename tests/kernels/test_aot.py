"""The quantiser compiles for targets that are not at hand, and spills nothing at any tuned tile."""

from __future__ import annotations

import os

import pytest
import torch

from formats import load_format

pytestmark = pytest.mark.skipif(
    os.environ.get("TRITON_INTERPRET") == "1", reason="the interpreter compiles nothing"
)
AXES = {"row": (1,), "column": (0,), "both": (1, 0)}
TARGETS = ("sm_90", "sm_100", "gfx950")
# What training uses most, and a two-level format; all others differ in constants only.
CASES = [
    ("e1m2", "row", 1, False),
    ("e1m2", "both", 16, True),
    ("e2m1", "column", 16, True),
    ("nvfp4", "row", 16, True),
    ("nvfp4", "both", 1, False),
    ("mxfp4-rceil", "both", 1, True),
]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("orientation", "hadamard"), [("row", 16), ("both", 16), ("both", 128)])
def test_the_pass_for_the_amax_compiles_without_spills(
    target: str, orientation: str, hadamard: int
) -> None:
    from kernels.aot import compile_amax
    from kernels.triton_tile import steps_of

    steps = [
        steps_of(load_format("nvfp4"), axis, hadamard, False, torch.bfloat16)
        for axis in AXES[orientation]
    ]
    result = compile_amax(target, steps)
    assert result.spilled_bytes == 0, result.resources
    assert result.machine_code


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("fmt", "orientation", "hadamard", "stochastic"), CASES)
def test_the_quantiser_compiles_without_spills(
    target: str, fmt: str, orientation: str, hadamard: int, stochastic: bool
) -> None:
    from kernels.aot import compile_quantiser
    from kernels.triton_tile import steps_of

    steps = [
        steps_of(load_format(fmt), axis, hadamard, stochastic, torch.bfloat16)
        for axis in AXES[orientation]
    ]
    result = compile_quantiser(target, steps)
    assert result.spilled_bytes == 0, result.resources
    assert result.machine_code
