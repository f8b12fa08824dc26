"""The version that is remembered is the one that Triton itself would take.

Without a GPU a driver stands in that compiles for one and launches nothing.
"""

from __future__ import annotations

import os
from typing import Any

import pytest
import torch
from torch import Tensor
from triton.backends.compiler import GPUTarget
from triton.runtime import driver

from formats import load_format
from kernels import launching, triton_encode, triton_quantize
from kernels.emulate import Treatment
from kernels.launching import Launcher
from kernels.rounding import Draws
from kernels.tiling import Tile

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
interpreted = pytest.mark.skipif(
    os.environ.get("TRITON_INTERPRET") == "1", reason="an interpreted kernel has no versions"
)


class Driver:
    """Compiles for an H200 and launches nothing."""

    utils = launcher_cls = property(lambda self: self)

    def __call__(self, *arguments: Any) -> Driver:
        return self

    def load_binary(self, *arguments: Any) -> tuple[int, ...]:
        return 1, 1, 32, 0, 1024

    def get_device_properties(self, device: int) -> dict[str, int]:
        return {"max_shared_mem": 232448, "multiprocessor_count": 132}

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return 0

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", 90, 32)


class Watched:
    """A kernel that says which version Triton took."""

    def __init__(self, kernel: Any) -> None:
        self.kernel, self.taken = kernel, []

    def __getitem__(self, grid: tuple[int, ...]) -> Any:
        def launch(*arguments: Any, **options: Any) -> Any:
            self.taken.append(self.kernel[grid](*arguments, **options))
            return self.taken[-1]

        return launch


@pytest.fixture
def _driver(monkeypatch: pytest.MonkeyPatch) -> None:
    if not torch.cuda.is_available():
        monkeypatch.setattr(driver, "_active", Driver())


def tensors() -> list[Tensor]:
    """Whatever decides: sizes, strides, alignment."""
    memory = torch.randn(66, 66, device=DEVICE).bfloat16()
    even, odd = (memory.flatten()[i:][: 64 * 64].view(64, 64) for i in (0, 1))
    return [even, odd, even.t(), memory, even[:1], even[:, :1]]


def treatments() -> list[list[Treatment]]:
    signs = torch.ones(16, dtype=torch.int8, device=DEVICE)
    step = torch.zeros((), dtype=torch.int64, device=DEVICE)
    e1m2, nvfp4 = load_format("e1m2"), load_format("nvfp4")
    return [
        [Treatment(e1m2, 1)],
        [Treatment(e1m2, 1, signs, Draws(1, 2, 3))],
        [Treatment(e1m2, 1, signs.repeat(2)[1:17])],
        [Treatment(e1m2, 1, signs)],
        [Treatment(e1m2, 1, signs, Draws(1 << 40, 16, 1, row=1 << 31))],
        [Treatment(e1m2, 1, signs, Draws(5, step, 3))],
        [Treatment(nvfp4, 1)],
        [Treatment(nvfp4, 1), Treatment(nvfp4, 0, signs)],
    ]


@interpreted
@pytest.mark.usefixtures("_driver")
def test_the_remembered_version_is_the_one_that_triton_takes(monkeypatch) -> None:
    for name in ("_quantiser", "_amax"):
        monkeypatch.setattr(triton_quantize, name, Both(getattr(triton_quantize, name)))
    for x in tensors():
        triton_encode.quantize_triton(x, Treatment(load_format("nvfp4"), 1))
        for some in treatments():
            for _ in range(2):
                triton_quantize.emulate_triton(x, some, torch.bfloat16)
    assert triton_quantize._quantiser.compared == 2 * len(tensors()) * len(treatments())


@interpreted
@pytest.mark.usefixtures("_driver")
def test_another_tile_is_another_version(monkeypatch) -> None:
    launcher = Launcher(Watched(triton_quantize.emulate_kernel))
    monkeypatch.setattr(triton_quantize, "_quantiser", launcher)
    x, one = torch.ones(64, 64, device=DEVICE), [Treatment(load_format("e1m2"), 1)]
    for tile in (Tile(4, 64, 1), Tile(8, 64, 1), Tile(8, 64, 2)):
        triton_quantize.emulate_triton(x, one, tile=tile)
    assert len(set(launcher.versions.values())) == 3


class Both:
    """Launches twice, as remembered and as Triton would, and compares the versions."""

    def __init__(self, launcher: Launcher) -> None:
        self.watched = Watched(launcher.kernel)
        self.launcher = Launcher(self.watched)
        self.compared = 0

    def launch(
        self, grid: Any, arguments: Any, constants: Any, options: Any, deciding: Any
    ) -> None:
        self.launcher.launch(grid, arguments, constants, options, deciding)
        remembered = self.launcher.versions[deciding, *constants.values(), *options.values()]
        assert self.watched.kernel[grid](*arguments, **constants, **options) is remembered
        self.compared += 1


@interpreted
@pytest.mark.usefixtures("_driver")
def test_ever_new_shapes_do_not_fill_the_memory(monkeypatch) -> None:
    monkeypatch.setattr(launching, "MOST_VERSIONS", 3)
    launcher = Launcher(Watched(triton_quantize.emulate_kernel))
    monkeypatch.setattr(triton_quantize, "_quantiser", launcher)
    for rows in range(1, 9):
        x = torch.ones(rows, 16, device=DEVICE)
        triton_quantize.emulate_triton(x, [Treatment(load_format("e1m2"), 1)])
        assert 1 <= len(launcher.versions) <= 3
