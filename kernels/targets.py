"""The supported matrix: which target multiplies which operands in its matrix unit, as data.

A target is one exact compute capability ("sm_100", "gfx950") or "cpu". Nothing is inferred from a
family: sm_121 is not sm_120. Each entry is compiled ahead of time by a test, which looks for the
instruction in the assembly.
"""

from __future__ import annotations

import torch

CPU = "cpu"
# The operands of an instruction: element type, scale format, elements per scale.
Operands = tuple[str, str, int]
NVFP4: Operands = ("e2m1", "e4m3", 16)
MXFP4: Operands = ("e2m1", "e8m0", 32)
MXFP8: Operands = ("e4m3", "e8m0", 32)
TCGEN05 = {
    NVFP4: "tcgen05.mma kind::mxf4nvf4",
    MXFP4: "tcgen05.mma kind::mxf4",
    MXFP8: "tcgen05.mma kind::mxf8f6f4",
}
MMA_SYNC = {
    NVFP4: "mma.sync kind::mxf4nvf4.block_scale",
    MXFP4: "mma.sync kind::mxf4nvf4.block_scale",
    MXFP8: "mma.sync kind::mxf8f6f4.block_scale",
}
MFMA = {
    MXFP4: "v_mfma_scale_f32_32x32x64_f8f6f4",
    MXFP8: "v_mfma_scale_f32_32x32x64_f8f6f4",
}
INSTRUCTIONS: dict[str, dict[Operands, str]] = {
    "sm_100": TCGEN05,
    "sm_103": TCGEN05,
    "sm_120": MMA_SYNC,
    "gfx950": MFMA,
}
# Older Triton releases abort on E4M3 scales where the hardware has no instruction for them.
DECOMPOSES_E4M3_SCALES_FROM = (3, 8)


def target_of(device: torch.device) -> str:
    """The exact target of a device: "sm_90", "gfx950" or "cpu"."""
    if device.type != "cuda":
        return CPU
    if torch.version.hip is not None:
        return str(torch.cuda.get_device_properties(device).gcnArchName).partition(":")[0]
    major, minor = torch.cuda.get_device_capability(device)
    return f"sm_{major}{minor}"
