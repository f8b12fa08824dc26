"""Ahead-of-time compilation of the GEMM and the quantiser for targets that are not at hand.

Triton needs no GPU to compile for one. What comes out is looked at, not run: the instruction in the
assembly, registers, and bytes spilled to memory, which a good kernel has none of.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from kernels.targets import NVFP4, Operands
from kernels.tiling import Tile, choose_amax_tile, choose_tile
from kernels.triton_gemm import GemmTile, scaled_gemm_kernel
from kernels.triton_quantize import DRAW_SCALARS, amax_kernel, emulate_kernel
from kernels.triton_tile import Steps

NVIDIA_LANES, AMD_LANES = 32, 64


@dataclass(frozen=True)
class Compiled:
    """What a compiler made of a kernel: its assembly and what it says of resources.

    Attributes:
        machine_code: disassembled; of NVIDIA targets, whose assembly is compiled once more.
    """

    assembly: str
    machine_code: str
    resources: str
    spilled_bytes: int

    def count(self, pattern: str) -> int:
        """How often a regular expression occurs in the assembly."""
        return len(re.findall(pattern, self.assembly))


def compile_gemm(target: str, operands: Operands) -> Compiled:
    """Compile ``scaled_gemm_kernel`` for a target such as "sm_100" or "gfx950".

    Raises:
        RuntimeError: Triton cannot compile these operands for the target.
    """
    tile = GemmTile()
    element, _, block = operands
    constants = {
        "TYPE": element,
        "PACKED": 2 if element == "e2m1" else 1,
        "SCALED": block,
        "E4M3_SCALES": operands == NVFP4,
        "HAS_FACTOR": True,
        "BM": tile.rows,
        "BN": tile.columns,
        "BK": tile.depth,
    }
    types = {"out": "*bf16", "factor": "*fp32", "M": "i32", "N": "i32", "K": "i32"}
    options = {"num_warps": tile.warps, "num_stages": tile.stages}
    return _compile(scaled_gemm_kernel, target, constants, types, options)


def compile_quantiser(target: str, steps: Sequence[Steps], tile: Tile | None = None) -> Compiled:
    """Compile the fused quantiser of a contiguous BF16 tensor for one or two treatments.

    Its sizes are multiples of 16, and a step is read from memory, as in training.
    """
    tile = tile or choose_tile(tuple(steps))
    constants, types = _tensor(tile)
    types |= dict.fromkeys(DRAW_SCALARS, "i32")
    for i in range(2):
        step = steps[i] if i < len(steps) else None
        constants[f"steps_{i}"] = step
        types |= {f"rows_{i}": "i32", f"columns_{i}": "i32", f"out_{i}": "*bf16"}
        types |= {f"signs_{i}": "*i8", f"amax_{i}": "*fp32", f"factor_{i}": "*fp32"}
        types[f"step_{i}"] = "*i64"
        unused = _unused(
            step, [name for name in emulate_kernel.arg_names if name.endswith(f"_{i}")]
        )
        constants |= dict.fromkeys(unused)
    return _compile(emulate_kernel, target, constants, types, tile.options)


def compile_amax(target: str, steps: Sequence[Steps]) -> Compiled:
    """Compile the pass that looks for the amax of a contiguous BF16 tensor, sizes as above."""
    tile = choose_amax_tile(tuple(steps))
    constants, types = _tensor(tile)
    for i in range(2):
        step = steps[i] if i < len(steps) else None
        constants[f"steps_{i}"] = step
        types |= {f"signs_{i}": "*i8", f"amax_{i}": "*fp32"}
        constants |= dict.fromkeys(_unused(step, (f"signs_{i}", f"amax_{i}")))
    return _compile(amax_kernel, target, constants, types, tile.options)


def _tensor(tile: Tile) -> tuple[dict[str, Any], dict[str, str]]:
    """Constants and types of a tensor's arguments, and a tile's."""
    sizes = dict.fromkeys(("rows", "columns", "row_stride", "covered_columns"), "i32")
    return {"column_stride": 1, **tile.constants}, {"x": "*bf16", **sizes}


def _unused(step: Steps | None, names: Sequence[str]) -> list[str]:
    """Those of a treatment's arguments that are None at run time."""
    if step is None:
        return [name for name in names if not name.startswith("steps")]
    needed = {
        "signs": step.hadamard > 1,
        "amax": step.scale.two_level,
        "factor": step.scale.two_level or step.correction != 1.0,
        "seed": step.stochastic,
        "step_": step.stochastic,
        "stream": step.stochastic,
        "first": step.stochastic,
    }
    missing = tuple(prefix for prefix, is_needed in needed.items() if not is_needed)
    return [name for name in names if name.startswith(missing)]


def _compile(
    kernel: Any,
    target: str,
    constants: Mapping[str, Any],
    types: Mapping[str, str],
    options: Mapping[str, Any],
) -> Compiled:
    """Compile a kernel; arguments without a type are bytes, and all but draws aligned to 16."""
    names = kernel.arg_names
    source = ASTSource(
        fn=kernel,
        signature={n: "constexpr" if n in constants else types.get(n, "*u8") for n in names},
        constexprs={(names.index(name),): value for name, value in constants.items()},
        attrs={
            (i,): [["tt.divisibility", 16]]
            for i, name in enumerate(names)
            if name not in constants and name not in DRAW_SCALARS
        },
    )
    compiled = triton.compile(source, target=_gpu_target(target), options=dict(options))
    if "cubin" in compiled.asm:
        return _nvidia(compiled.asm["ptx"], compiled.asm["cubin"])
    return _amd(compiled.asm["amdgcn"])


def _gpu_target(target: str) -> GPUTarget:
    if target.startswith("sm_"):
        return GPUTarget("cuda", int(target.removeprefix("sm_")), NVIDIA_LANES)
    return GPUTarget("hip", target, AMD_LANES)


def _nvidia(ptx: str, cubin: bytes) -> Compiled:
    """The stack frame of a kernel without arrays is what it spills."""
    tools = Path(triton.__file__).parent / "backends/nvidia/bin"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        Path(file.name).write_bytes(cubin)
        usage = _output_of(str(tools / "cuobjdump"), "-res-usage", file.name)
        machine_code = _output_of(str(tools / "cuobjdump"), "-sass", file.name)
    resources = re.search(r"REG:\d+ STACK:(\d+).*", usage)
    if resources is None:
        raise RuntimeError(f"cuobjdump reports no resources: {usage}")
    return Compiled(ptx, machine_code, resources.group(0), int(resources.group(1)))


def _output_of(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def _amd(assembly: str) -> Compiled:
    found = re.findall(r"\.([sv]gpr_spill_count|[av]gpr_count):\s+(\d+)", assembly)
    spilled = sum(4 * int(count) for name, count in found if "spill" in name)
    return Compiled(
        assembly, assembly, ", ".join(f"{name} {count}" for name, count in found), spilled
    )
