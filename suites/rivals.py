"""Who else quantises to 4 bits: rivals of our kernels, and what they offer that ours offer too.

None is a dependency. A rival is found where Python finds it, or in a folder that the settings name.
How it is called is in ``rival_adapters``; this module imports neither torch nor any rival, so that
settings are checked at once.

    torchao        https://github.com/pytorch/ao
    microxcaling   https://github.com/microsoft/microxcaling (its package is called mx)
    fouroversix    https://github.com/mit-han-lab/fouroversix
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal

from formats.yamlfile import did_you_mean

NEAREST_ROWS = "quantise row nearest"
RANDOM_ROWS = "quantise row rht+stochastic"
LAYER = "linear forward+backward"


@dataclass(frozen=True)
class Offer:
    """An operation that a rival has too.

    Attributes:
        operation, by, name: those of our own cell: its operation, and its format or recipe.
        modes: the ways in which the rival can run it.
        remark: what the rival computes, where that is not what ours computes.
    """

    operation: str
    by: Literal["format", "recipe"]
    name: str
    modes: tuple[str, ...]
    remark: str


@dataclass(frozen=True)
class Rival:
    """A project to be timed beside ours.

    Attributes:
        package: what is imported.
        install: where to get it.
        offers: what it is timed at.
    """

    package: str
    install: str
    offers: tuple[Offer, ...]


TORCHAO_MODES = ("eager", "compiled")
# "cuda" is an extension that the package compiles when it is first used.
MICROXCALING_MODES = ("eager", "cuda")
# It chooses among its own kernels.
FOUROVERSIX_MODES = ("auto",)

# torchao 0.18 has an NVFP4 layer too, but no emulation of it: it runs on Blackwell only.
RIVALS = {
    "torchao": Rival(
        "torchao",
        "pip install torchao",
        (
            Offer(NEAREST_ROWS, "format", "nvfp4", TORCHAO_MODES, "block scales of at least 2^-6"),
            Offer(NEAREST_ROWS, "format", "mxfp4-rceil", TORCHAO_MODES, "the same numbers"),
            Offer(LAYER, "recipe", "mxfp4", TORCHAO_MODES, "neither RHT nor SR, which ours does"),
        ),
    ),
    "microxcaling": Rival(
        "mx",
        "clone github.com/microsoft/microxcaling and set rival_paths.microxcaling to the folder",
        (
            Offer(NEAREST_ROWS, "format", "mxfp4-floor", MICROXCALING_MODES, "ties go up"),
            Offer(LAYER, "recipe", "mxfp4", MICROXCALING_MODES, "neither RHT nor SR; floor rule"),
        ),
    ),
    "fouroversix": Rival(
        "fouroversix",
        "clone github.com/mit-han-lab/fouroversix and set rival_paths.fouroversix to its src",
        (
            Offer(NEAREST_ROWS, "format", "nvfp4", FOUROVERSIX_MODES, "the same format"),
            Offer(NEAREST_ROWS, "format", "nvint4", FOUROVERSIX_MODES, "the same format"),
            Offer(RANDOM_ROWS, "format", "nvfp4", FOUROVERSIX_MODES, "signs of its own"),
            Offer(LAYER, "recipe", "nvfp4", FOUROVERSIX_MODES, "the same recipe; GEMMs in BF16"),
            Offer(
                LAYER,
                "recipe",
                "nvint4-ufp4",
                FOUROVERSIX_MODES,
                "2-D weights, RHT on wgrad; GEMMs in BF16",
            ),
        ),
    ),
}


def check_rivals(names: Iterable[str]) -> None:
    """Raise ValueError for a name that is not of a rival."""
    for name in names:
        if name not in RIVALS:
            hint = did_you_mean(name, RIVALS) or f"; known: {', '.join(RIVALS)}"
            raise ValueError(f"unknown rival '{name}'{hint}")


def find_version(name: str, folder: str | None) -> str | None:
    """The version of a rival, or that it states none; None when it is not installed.

    Args:
        folder: that holds its package, or None to look where Python looks.

    Raises:
        ValueError: the folder does not hold it.
    """
    package = RIVALS[name].package
    if folder is not None and not Path(folder, package).is_dir():
        raise ValueError(f"rival_paths.{name}: {folder} does not hold the package '{package}'")
    if folder is None and importlib.util.find_spec(package) is None:
        return None
    places = sys.path if folder is None else [folder]
    found = metadata.distributions(name=name, path=places)
    return next((distribution.version for distribution in found), "of unknown version")
