"""Ratios with an interval, from pairs of neighbouring runs."""

import itertools
import math
import statistics
from typing import NamedTuple


class Ratio(NamedTuple):
    """A typical ratio and its 95 % interval."""

    middle: float
    low: float
    high: float

    @property
    def measurable(self):
        return not self.low <= 1 <= self.high

    def __str__(self):
        text = f"{self.middle:.3f} [{self.low:.3f} … {self.high:.3f}]"
        return text if self.measurable else text + " n.m."


def ratio(log_ratios):
    """The Hodges-Lehmann estimate, and the interval of Wilcoxon's signed ranks that belongs to it.

    Over logarithms, so that a ratio and its inverse are equally far. It asks for no normal distribution: a neighbour on
    the machine doubles the CPU of a run now and then, and one such run would spoil a mean and its standard deviation.
    """
    pairs = itertools.combinations_with_replacement(log_ratios, 2)
    means = sorted((a + b) / 2 for a, b in pairs)
    skip = signed_rank_bound(len(log_ratios))
    low, high = (means[skip - 1], means[-skip]) if skip else (-math.inf, math.inf)
    return Ratio(*(math.exp(x) for x in (statistics.median(means), low, high)))


def signed_rank_bound(n, tail=0.025):
    """How many sums of ranks lie, together, in a tail of Wilcoxon's distribution: 0 for n under 6."""
    ways = [1]  # ways[s]: subsets of the ranks so far that sum to s
    for rank in range(1, n + 1):
        ways = [
            (ways[s] if s < len(ways) else 0) + (ways[s - rank] if s >= rank else 0) for s in range(len(ways) + rank)
        ]
    return sum(1 for total in itertools.accumulate(ways) if total <= tail * 2**n)
