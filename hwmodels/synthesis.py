"""Synthesis: from RTL to library cells with Yosys, by one pinned script.

The script is part of every result (its hash is recorded): a different ABC script alone moves areas
by a quarter, so numbers from different scripts are not comparable. ABC optimises area here; there
is no clock target. Yosys comes as the Python wheel ``pyosys`` (extra ``synth``) and runs in a
process of its own, as its errors end the process.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import json
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Protocol

from hwmodels.circuit import Port
from hwmodels.liberty import Library
from hwmodels.netlist import Netlist

SCRIPT = (
    "read_verilog -sv {rtl}",
    "synth -flatten -noabc -top unit",
    "abc -liberty {liberty}",
    "opt_clean",
    "write_json {netlist}",
)
SCRIPT_HASH = hashlib.sha256("\n".join(SCRIPT).encode()).hexdigest()
TIMEOUT_SECONDS = 300
DRIVER = """
import sys
from pyosys import libyosys
design = libyosys.Design()
for command in sys.argv[1:]:
    libyosys.run_pass(command, design)
"""


class Unit(Protocol):
    """A combinational circuit that can be synthesised and checked."""

    @property
    def name(self) -> str:
        """Which unit it is."""
        ...

    @property
    def inputs(self) -> tuple[Port, ...]:
        """Input ports."""
        ...

    @property
    def verilog(self) -> str:
        """A module named ``unit``."""
        ...


def is_available() -> bool:
    """Whether the synthesis tool is installed."""
    return importlib.util.find_spec("pyosys") is not None


@cache
def tool_version() -> str:
    """Name and version of the synthesis tool.

    Raises:
        ValueError: it is not installed.
    """
    if not is_available():
        raise ValueError(
            "circuit synthesis needs Yosys, which is not installed: pip install 'gridbench[synth]' "
            "(or pip install pyosys)"
        )
    return f"pyosys {importlib.metadata.version('pyosys')}"


def synthesise(unit: Unit, library: Library) -> Netlist:
    """Map a unit to a library.

    Raises:
        ValueError: the tool is missing, or fails (its last words are in the message).
    """
    tool_version()
    with tempfile.TemporaryDirectory() as folder:
        places = {
            "rtl": Path(folder, "unit.sv"),
            "netlist": Path(folder, "netlist.json"),
            "liberty": library.path.resolve(),
        }
        places["rtl"].write_text(unit.verilog)
        commands = [command.format(**places) for command in SCRIPT]
        done = subprocess.run(
            [sys.executable, "-c", DRIVER, *commands],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
        )
        if done.returncode != 0 or not places["netlist"].exists():
            words = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
            raise ValueError(f"synthesis of {unit.name} failed: {''.join(words)}")
        document = json.loads(places["netlist"].read_text())
    return Netlist.from_json(document, library)
