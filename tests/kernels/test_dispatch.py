"""Paths are matched by exact target, and every one says why."""

from __future__ import annotations

import pytest
import torch

from formats import load_format
from kernels import dispatch
from kernels.cpu import cpu_path
from kernels.dispatch import gemm_path, quantise_path, supported
from kernels.targets import INSTRUCTIONS, target_of

NATIVE = [
    ("nvfp4", "sm_100", "mxf4nvf4"),
    ("nvfp4", "sm_103", "mxf4nvf4"),
    ("nvfp4", "sm_120", "block_scale"),
    ("four-over-six", "sm_100", "mxf4nvf4"),
    ("mxfp4-rceil", "sm_100", "mxf4"),
    ("mxfp4-floor", "gfx950", "v_mfma_scale"),
    ("mxint4", "sm_100", "mxf8f6f4"),
    ("mxfp8", "gfx950", "v_mfma_scale"),
]


@pytest.mark.parametrize(("fmt", "target", "instruction"), NATIVE)
def test_native_paths_name_their_instruction(fmt: str, target: str, instruction: str) -> None:
    path = gemm_path(load_format(fmt), target)
    assert path.origin == "native"
    assert instruction in path.name


@pytest.mark.parametrize(
    ("fmt", "target", "reason"),
    [
        ("nvfp4", "gfx950", "no instruction for e2m1 with e4m3 scales"),
        ("nvint4", "sm_100", "no block-scaled instruction multiplies 'nvint4'"),
        ("e2m1", "sm_100", "no block-scaled instruction multiplies 'e2m1'"),
        ("nvfp4", "sm_90", "no block-scaled instruction is known for sm_90"),
        ("nvfp4", "cpu", "no block-scaled instruction is known for cpu"),
    ],
)
def test_an_emulated_path_says_why(fmt: str, target: str, reason: str) -> None:
    path = gemm_path(load_format(fmt), target)
    assert path.origin == "emulated"
    assert reason in path.reason


@pytest.mark.parametrize("capability", [(12, 1), (10, 1), (11, 0), (8, 6)])
def test_B92_relatives_of_a_supported_target_are_emulated(capability, monkeypatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    target = target_of(torch.device("cuda"))
    assert target == f"sm_{capability[0]}{capability[1]}"
    assert target not in INSTRUCTIONS
    assert {path.origin for name, path in supported(target) if name != "bf16"} == {"emulated"}


def test_B92_the_listed_targets_are_native_and_no_device_is_a_cpu(monkeypatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (10, 3))
    assert gemm_path(load_format("nvfp4"), target_of(torch.device("cuda"))).origin == "native"
    assert target_of(torch.device("cpu")) == "cpu"
    assert quantise_path("cpu").name == cpu_path().name
    assert quantise_path("sm_90").name == "triton"


def test_a_native_path_that_computes_wrongly_is_not_taken(monkeypatch) -> None:
    fmt = load_format("mxfp4-rceil")
    monkeypatch.setattr(dispatch, "target_of", lambda device: "sm_100")
    for error, origin in ((1e-7, "native"), (0.3, "emulated"), (float("nan"), "emulated")):
        dispatch.proven.cache_clear()
        monkeypatch.setattr(dispatch, "_native_error", lambda fmt, device, error=error: error)
        assert dispatch.proven(fmt, torch.device("cpu")).origin == origin
    dispatch.proven.cache_clear()


def test_every_format_has_a_path_on_every_target() -> None:
    for target in (*INSTRUCTIONS, "sm_90", "cpu"):
        paths = dict(supported(target))
        assert paths["bf16"].origin == "native"
        assert all(path.reason for path in paths.values())
