"""How faithful a quantised tensor is: gain, error, SQNR, bucket utilisation.

gain         <x, q> / <x, x>                 1 minus the shrinkage bias (arXiv:2606.20381 section 3)
relative L2  |q - x| / |x|
SQNR         -10 log10(|q - x|^2 / |x|^2)    dB
utilisation  exp(entropy of the magnitude buckets) / number of buckets, zero's bucket included
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from formats import Grid


@dataclass(frozen=True)
class Fidelity:
    """Figures of one tensor against its reference; NaN where the reference is all zero."""

    gain: float
    relative_l2: float
    sqnr_db: float


def fidelity(reference: Tensor, approximation: Tensor) -> Fidelity:
    """Compare a tensor with its high-precision reference of the same shape, in float64."""
    x, q = reference.double().flatten(), approximation.double().flatten()
    energy = float(x @ x)
    if energy == 0.0:
        return Fidelity(math.nan, math.nan, math.nan)
    error = float((q - x).square().sum()) / energy
    sqnr = math.inf if error == 0.0 else -10.0 * math.log10(error)
    return Fidelity(float(x @ q) / energy, math.sqrt(error), sqnr)


def bucket_utilisation(codes: Tensor, grid: Grid) -> float:
    """Effective share of the grid's magnitudes in use: B_eff of arXiv:2606.20381.

    Args:
        codes: unpacked uint8 codes of any shape.
        grid: the element grid that the codes belong to.
    """
    magnitude_of = {magnitude: index for index, magnitude in enumerate(grid.magnitudes)}
    table = [magnitude_of.get(abs(value), 0) for value in grid.decode_table]
    buckets = torch.tensor(table, device=codes.device)[codes.long()]
    share = torch.bincount(buckets.flatten(), minlength=len(magnitude_of)).double()
    share = share[share > 0] / share.sum()
    entropy = -float((share * share.log()).sum())
    return math.exp(entropy) / len(magnitude_of)
