"""Intervals whose unit is the cluster (all turns of one episode), not the turn."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import special

from soak.stats.rates import Interval


class ClusterCounts(NamedTuple):
    """Paired turns of one cluster and the events of both arms among them."""

    turns: int
    baseline: int
    candidate: int


def cluster_difference(clusters: Sequence[ClusterCounts], confidence: float = 0.95) -> Interval | None:
    """
    Return the interval of candidate rate − baseline rate with clusters as the unit; None below two clusters.

    Linearised (Taylor) variance of a ratio estimate with the factor G/(G−1), t distribution with G−1 degrees of freedom
    (Cochran, Sampling Techniques, 1977, ch. 6 and 9A; equals the GEE independence sandwich).
    """
    turns, baseline, candidate = _columns(clusters)
    total = turns.sum()
    if len(clusters) < 2 or total == 0:
        return None
    change = candidate - baseline
    difference = float(change.sum() / total)
    half = _half_width((change - difference * turns) / total, confidence)
    return Interval(max(-1.0, difference - half), min(1.0, difference + half))


def cluster_ratio(clusters: Sequence[ClusterCounts], confidence: float = 0.95) -> Interval | None:
    """
    Return the interval of candidate rate / baseline rate with clusters as the unit.

    On the log scale, u_c = (y_c − p·n_c)/(N·p) of the candidate less that of the baseline, variance G/(G−1) Σ u_c²,
    t(G−1): the linearised log ratio (equals a GEE with independence working correlation). None below two clusters or
    where an arm has no event.
    """
    turns, baseline, candidate = _columns(clusters)
    total, events_b, events_c = turns.sum(), baseline.sum(), candidate.sum()
    if len(clusters) < 2 or events_b == 0 or events_c == 0:
        return None
    influence = (candidate / events_c) - (baseline / events_b)  # the terms in n_c cancel: both arms ran the same turns
    centre = math.log(events_c / events_b)
    half = _half_width(influence, confidence)
    return Interval(math.exp(centre - half), math.exp(centre + half)) if total else None


def _columns(clusters: Sequence[ClusterCounts]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    table = np.asarray(clusters, dtype=float).reshape(-1, 3)
    return table[:, 0], table[:, 1], table[:, 2]


def _half_width(influence: np.ndarray, confidence: float) -> float:
    """Return t(G−1) times the standard error that follows from each cluster's influence."""
    count = len(influence)
    error = math.sqrt(count / (count - 1) * float((influence**2).sum()))
    return float(special.stdtrit(count - 1, (1 + confidence) / 2)) * error


def envelope(first: Interval | None, second: Interval | None) -> Interval | None:
    """Return the smallest interval holding both (it covers as often as either), or the one that is not None."""
    if first is None or second is None:
        return first or second
    return Interval(min(first.low, second.low), max(first.high, second.high))
