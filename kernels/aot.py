"""Ahead-of-time compilation of the native GEMM for targets that are not at hand.

Triton needs no GPU to compile for one. What comes out is looked at, not run: the instruction in the
assembly, registers, and bytes spilled to memory, which a good kernel has none of.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from kernels.targets import NVFP4, Operands
from kernels.triton_gemm import GemmTile, scaled_gemm_kernel

NVIDIA_LANES, AMD_LANES = 32, 64


@dataclass(frozen=True)
class Compiled:
    """What a compiler made of a kernel: its assembly and what it says of resources."""

    assembly: str
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
    names = scaled_gemm_kernel.arg_names
    types = {"out": "*bf16", "factor": "*fp32", "M": "i32", "N": "i32", "K": "i32"}
    source = ASTSource(
        fn=scaled_gemm_kernel,
        signature={n: "constexpr" if n in constants else types.get(n, "*u8") for n in names},
        constexprs={(names.index(name),): value for name, value in constants.items()},
        attrs={(i,): [["tt.divisibility", 16]] for i in range(len(names) - len(constants))},
    )
    options = {"num_warps": tile.warps, "num_stages": tile.stages}
    compiled = triton.compile(source, target=_gpu_target(target), options=options)
    if "cubin" in compiled.asm:
        return _nvidia(compiled.asm["ptx"], compiled.asm["cubin"])
    return _amd(compiled.asm["amdgcn"])


def _gpu_target(target: str) -> GPUTarget:
    if target.startswith("sm_"):
        return GPUTarget("cuda", int(target.removeprefix("sm_")), NVIDIA_LANES)
    return GPUTarget("hip", target, AMD_LANES)


def _nvidia(ptx: str, cubin: bytes) -> Compiled:
    """The stack frame of a kernel without arrays is what it spills."""
    tool = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        Path(file.name).write_bytes(cubin)
        command = [str(tool), "-res-usage", file.name]
        usage = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    resources = re.search(r"REG:\d+ STACK:(\d+).*", usage)
    if resources is None:
        raise RuntimeError(f"cuobjdump reports no resources: {usage}")
    return Compiled(ptx, resources.group(0), int(resources.group(1)))


def _amd(assembly: str) -> Compiled:
    found = re.findall(r"\.([sv]gpr_spill_count|[av]gpr_count):\s+(\d+)", assembly)
    spilled = sum(4 * int(count) for name, count in found if "spill" in name)
    return Compiled(assembly, ", ".join(f"{name} {count}" for name, count in found), spilled)
