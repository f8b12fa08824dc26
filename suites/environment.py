"""What a run ran on: captured once per run, so that a number can be traced and two runs compared.

Nothing here identifies a person or a machine beyond its parts: no host name, no user, no serial
number.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from suites.experiment import ROOT, Device, code_version

PACKAGES = ("torch", "triton", "numpy", "tokenizers", "pydantic", "plotly", "nvidia-ml-py")
VARIABLE_PREFIXES = (
    "CUDA_", "GRIDBENCH_", "HIP_", "KMP_", "MKL_", "NCCL_", "NVIDIA_TF32", "OMP_", "PYTORCH_",
    "TORCH", "TRITON_", "WORLD_SIZE",
)  # fmt: skip


def choose_device(wanted: str) -> tuple[Device, str]:
    """The device to run on, "cpu" or "cuda", and why.

    Raises:
        ValueError: a CUDA (or ROCm) device was asked for and there is none.
    """
    if wanted == "cpu":
        return "cpu", "asked for by --device cpu"
    import torch

    if torch.cuda.is_available():
        reason = "asked for by --device cuda" if wanted == "cuda" else "a GPU was found"
        return "cuda", f"{reason}: {torch.cuda.get_device_name()}"
    if wanted == "cuda":
        raise ValueError(f"--device cuda: torch {torch.__version__} finds no GPU; use --device cpu")
    return "cpu", f"torch {torch.__version__} finds no GPU"


def hardware_name(device: str) -> str:
    """The model of the processor that `device` means; part of every cell's key."""
    if device == "cuda":
        import torch

        return torch.cuda.get_device_name()
    return _cpu_name()


def capture_environment(device: str) -> dict[str, Any]:
    """Everything a reader needs to run the same again, as plain JSON."""
    return {
        "command": [Path(sys.argv[0]).name, *sys.argv[1:]],
        "captured": datetime.now(UTC).isoformat(timespec="seconds"),
        "device": device,
        "hardware": hardware_name(device),
        "code_version": code_version(),
        "git": _git_state(),
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.release()} {platform.machine()}",
        "packages": {name: _version(name) for name in PACKAGES},
        "cpu": {"name": _cpu_name(), "usable_cores": len(os.sched_getaffinity(0))},
        "gpus": _gpus() if device == "cuda" else [],
        "variables": {
            name: value
            for name, value in sorted(os.environ.items())
            if name.startswith(VARIABLE_PREFIXES)
        },
    }


def _cpu_name() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text(encoding="utf-8").splitlines() if cpuinfo.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _git_state() -> dict[str, Any] | None:
    """Commit and whether tracked files differ from it; None outside a git checkout."""
    try:
        commit = _git("rev-parse", "HEAD")
        return {"commit": commit, "dirty": bool(_git("status", "--porcelain", "-uno"))}
    except (OSError, subprocess.CalledProcessError):
        return None


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(ROOT), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def _gpus() -> list[dict[str, Any]]:
    import torch

    properties = [torch.cuda.get_device_properties(i) for i in range(torch.cuda.device_count())]
    return [
        {
            "name": gpu.name,
            "capability": f"{gpu.major}.{gpu.minor}",
            "memory_gib": round(gpu.total_memory / 2**30, 1),
            "processors": gpu.multi_processor_count,
        }
        for gpu in properties
    ]
