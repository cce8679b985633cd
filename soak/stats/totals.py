"""The ratio of two totals (wall clock) over paired clusters."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from soak.stats.clusters import cluster_sums, half_width
from soak.stats.rates import Interval


class RatioEstimate(NamedTuple):
    """candidate total / baseline total; `interval` is None below two clusters."""

    ratio: float
    interval: Interval | None
    clusters: int


def totals_by_cluster(values: Sequence[float], clusters: Sequence[int]) -> list[float]:
    """Return the total of `values` in each cluster that occurs, in the order of the clusters' numbers."""
    return [float(total) for total in cluster_sums(np.asarray(values, dtype=float), clusters)]


def total_ratio(
    baseline: Sequence[float], candidate: Sequence[float], confidence: float = 0.95
) -> RatioEstimate | None:
    """
    Return the ratio of the totals; element c of each sequence is one cluster's total. None if a total is not above 0.

    The interval is the linearised log ratio: u_c = t_c/T of the candidate less that of the baseline, standard error
    sqrt(G/(G−1) Σ u_c²), t with Satterthwaite's degrees of freedom (`half_width`). Chosen over a percentile bootstrap
    of the clusters because of its coverage with few of them (README.md).
    Raises `ValueError` if the sequences differ in length.
    """
    if len(baseline) != len(candidate):
        raise ValueError("paired clusters need equally many totals in both arms")
    first, second = np.asarray(baseline, dtype=float), np.asarray(candidate, dtype=float)
    total1, total2 = float(first.sum()), float(second.sum())
    if total1 <= 0 or total2 <= 0:
        return None
    ratio, count = total2 / total1, len(first)
    if count < 2:
        return RatioEstimate(ratio, None, count)
    influence = second / total2 - first / total1
    half = half_width(influence, confidence)
    interval = Interval(ratio * math.exp(-min(half, 700.0)), ratio * math.exp(min(half, 700.0)))
    return RatioEstimate(ratio, interval, count)
