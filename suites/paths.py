"""How the GEMMs of each format run: on the device at hand, and on every target that is known."""

from __future__ import annotations

import torch
from tabulate import tabulate

from kernels.dispatch import Path, epilogue_path, quantise_path, supported
from kernels.targets import INSTRUCTIONS, target_of

EMULATED_TARGETS = ("sm_90",)


def paths_by_format(here: str) -> list[tuple[str, Path, list[str]]]:
    """(format, path, targets that take it), by format; ``here`` is the target at hand."""
    taken: dict[tuple[str, Path], list[str]] = {}
    for target in dict.fromkeys((here, *EMULATED_TARGETS, *INSTRUCTIONS)):
        for entry in supported(target):
            taken.setdefault(entry, []).append(target)
    return sorted(((*entry, targets) for entry, targets in taken.items()), key=lambda row: row[0])


def path_table() -> str:
    """The table that ``bench.py --list devices`` prints."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    here = target_of(device)
    lines = [
        (name, ", ".join(targets).replace(here, f"{here} (here)", 1), path.name, path.reason)
        for name, path, targets in paths_by_format(here)
    ]
    quantiser, epilogue = quantise_path(here), epilogue_path(device.type, torch.bfloat16)
    return (
        f"{tabulate(lines, ('format', 'targets', 'GEMM', 'reason'))}\n\n"
        f"operands are quantised here by {quantiser.name}: {quantiser.reason}\n"
        f"BF16 products take in tensor scales by {epilogue.name}: {epilogue.reason}"
    )
