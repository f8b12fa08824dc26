"""Confidence intervals of a mean over few seeds: Student's t, two-sided, 95 %.

    mean +- t(0.975, n - 1) * s / sqrt(n)

Seeds are paired wherever two runs are compared: the samples are differences, seed by seed.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

# Quantile 0.975 of Student's t by degrees of freedom from 1; beyond the table the normal's is used.
T_975 = (
    12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.306, 2.2622, 2.2281,
    2.201, 2.1788, 2.1604, 2.1448, 2.1314, 2.1199, 2.1098, 2.1009, 2.093, 2.086,
    2.0796, 2.0739, 2.0687, 2.0639, 2.0595, 2.0555, 2.0518, 2.0484, 2.0452, 2.0423,
)  # fmt: skip
NORMAL_975 = 1.96


@dataclass(frozen=True)
class Interval:
    """A mean and the half width of its interval: infinite for one sample, which tells no noise."""

    mean: float
    half_width: float

    @property
    def low(self) -> float:
        """Lower end."""
        return self.mean - self.half_width

    @property
    def high(self) -> float:
        """Upper end."""
        return self.mean + self.half_width

    @property
    def excludes_zero(self) -> bool:
        """Whether the sign of the mean is resolved."""
        return abs(self.mean) > self.half_width


def interval_of_mean(samples: Sequence[float]) -> Interval:
    """The 95 % interval of the mean of at least one sample."""
    mean = statistics.fmean(samples)
    freedom = len(samples) - 1
    if freedom == 0:
        return Interval(mean, math.inf)
    quantile = T_975[freedom - 1] if freedom <= len(T_975) else NORMAL_975
    return Interval(mean, quantile * statistics.stdev(samples) / math.sqrt(len(samples)))
