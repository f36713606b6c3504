"""Ratios with an interval, from pairs of neighbouring runs."""

import math
import statistics
from typing import NamedTuple


class Ratio(NamedTuple):
    """A geometric mean and its 95 % interval."""

    mean: float
    low: float
    high: float

    @property
    def measurable(self):
        return not self.low <= 1 <= self.high

    def __str__(self):
        text = f"{self.mean:.3f} [{self.low:.3f} … {self.high:.3f}]"
        return text if self.measurable else text + " n.m."


def ratio(log_ratios):
    """Student's t over the logarithms: a ratio and its inverse are equally far."""
    n = len(log_ratios)
    mean = statistics.fmean(log_ratios)
    half = t_quantile(n - 1) * statistics.stdev(log_ratios) / math.sqrt(n) if n > 1 else math.inf
    return Ratio(*(math.exp(x) for x in (mean, mean - half, mean + half)))


def t_quantile(df, p=0.975):
    """Quantile of Student's t: a table where the series is poor, which is within 0.2 %."""
    if df < 5:
        return {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776}[df]
    z = statistics.NormalDist().inv_cdf(p)
    return (
        z
        + (z**3 + z) / (4 * df)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * df**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * df**3)
    )
