"""Fidelity and loss: do single GEMMs, seen in one step, order recipes as whole trainings do?

For each recipe and GEMM, over its layers:

    gain    mean of <y, y_q> / <y, y>                      1 without bias
    SQNR    -10 log10 of the mean squared relative L2      infinite without error

Orders are compared by Spearman's rank correlation, ties having the mean of their ranks: -1 where a
higher SQNR is a lower loss throughout.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from formats import GEMM_OPERANDS
from suites.claims import METRIC
from suites.degradation import SeedRows, compare_pair, is_single_output
from suites.rows import Row, known_values

GEMMS = tuple(GEMM_OPERANDS)
MEAN_SQNR, BIAS = "SQNR, mean of the three", "bias: distance of the gain from one"


@dataclass(frozen=True)
class Quality:
    """Of a recipe: percent of loss above the baseline's, and gain and SQNR (dB) by GEMM."""

    recipe: str
    loss: float
    gain: Mapping[str, float]
    sqnr: Mapping[str, float]

    @property
    def bias(self) -> float:
        """Distance of the gain from one, mean over GEMMs."""
        return fmean(abs(1 - gain) for gain in self.gain.values())

    @property
    def mean_sqnr(self) -> float:
        """Mean over GEMMs, dB."""
        return fmean(self.sqnr.values())


def qualities(rows: Iterable[Row], runs: Mapping[str, SeedRows], baseline: str) -> list[Quality]:
    """Recipes whose GEMMs were observed and whose loss is known, the lowest loss first."""
    observed: dict[str, dict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if is_single_output(row):
            observed[str(row.config["recipe"])][str(row.config["gemm"])].append(row)
    found = []
    for recipe, by_gemm in observed.items():
        if recipe not in runs or set(by_gemm) != set(GEMMS):
            continue
        degradation = compare_pair(runs[recipe], runs[baseline], METRIC)
        loss = degradation.quantity("degradation_percent").value
        if loss is not None:
            gain = {gemm: fmean(known_values(by_gemm[gemm], "gain")) for gemm in GEMMS}
            sqnr = {gemm: _sqnr(known_values(by_gemm[gemm], "relative_l2")) for gemm in GEMMS}
            found.append(Quality(recipe, loss, gain, sqnr))
    return sorted(found, key=lambda quality: quality.loss)


def orders(found: Sequence[Quality]) -> dict[str, float]:
    """Rank correlation with the loss, of each measure of fidelity by name."""
    losses = [quality.loss for quality in found]
    measures = {f"SQNR of {gemm}": [q.sqnr[gemm] for q in found] for gemm in GEMMS}
    measures[MEAN_SQNR] = [quality.mean_sqnr for quality in found]
    measures[BIAS] = [quality.bias for quality in found]
    return {name: spearman(values, losses) for name, values in measures.items()}


def spearman(a: Sequence[float], b: Sequence[float]) -> float:
    """Rank correlation of two sequences of equal length; NaN if one of them is constant."""
    left, right = _ranks(a), _ranks(b)
    if left.std() == 0 or right.std() == 0:
        return math.nan
    return float(np.corrcoef(left, right)[0, 1])


def _ranks(values: Sequence[float]) -> NDArray[np.float64]:
    column = np.asarray(values)[:, None]
    below, equal = (column > column.T).sum(axis=1), (column == column.T).sum(axis=1)
    return below + (equal - 1) / 2


def _sqnr(errors: Sequence[float]) -> float:
    return -10 * math.log10(fmean(error * error for error in errors))
