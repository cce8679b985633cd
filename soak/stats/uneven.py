"""
Two arms that went their own ways: each ran every cluster, with turns of its own and not equally many of them.

The unit is the cluster. Under "the arms are alike" what the two made of a cluster could as well be the other way round.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from soak.stats.clusters import half_width
from soak.stats.randomised import sign_flip_sums
from soak.stats.rates import Interval


class ArmsInCluster(NamedTuple):
    """Turns of one cluster and events among them, arm by arm."""

    baseline_turns: int
    baseline_events: int
    candidate_turns: int
    candidate_events: int


def uneven_difference(clusters: Sequence[ArmsInCluster], confidence: float = 0.95) -> Interval | None:
    """
    Return the interval of candidate rate − baseline rate; None below two clusters or where an arm has no turn.

    Linearised: u_c = (y_c − p·n_c)/N of the candidate less that of the baseline, G/(G−1) Σ u_c², t as in `half_width`
    (Cochran, Sampling Techniques, 1977, ch. 6; the arms' covariance within a cluster is kept).
    """
    table = _table(clusters)
    if len(table) < 2 or not table[:, 0].sum() or not table[:, 2].sum():
        return None
    (first, rate1), (second, rate2) = _influence(table[:, 0], table[:, 1]), _influence(table[:, 2], table[:, 3])
    half, difference = half_width(second - first, confidence), rate2 - rate1
    return Interval(max(-1.0, difference - half), min(1.0, difference + half))


def uneven_ratio(clusters: Sequence[ArmsInCluster], confidence: float = 0.95) -> Interval | None:
    """
    Return the interval of candidate rate / baseline rate; None below two clusters or where an arm has no event.

    On the log scale with u_c/p of each arm: the linearised log ratio, equal to a GEE with independence working
    correlation.
    """
    table = _table(clusters)
    if len(table) < 2 or not table[:, 1].sum() or not table[:, 3].sum():
        return None
    (first, rate1), (second, rate2) = _influence(table[:, 0], table[:, 1]), _influence(table[:, 2], table[:, 3])
    half = min(half_width(second / rate2 - first / rate1, confidence), 700.0)
    ratio = rate2 / rate1
    return Interval(ratio * math.exp(-half), ratio * math.exp(half))


def swapped_clusters(clusters: Sequence[ArmsInCluster], *, seed: int = 0) -> float | None:
    """
    Return the two-sided p-value of "the rates are equal" if in each cluster the arms could be swapped.

    None without turns.

    With p the rate of both arms together, which no swap changes, d_c = (y − p·n) of the candidate less that of the
    baseline only changes its sign: the sign-flip test of Σ d_c is valid whatever hangs together within a cluster.
    """
    table = _table(clusters)
    turns = float(table[:, 0].sum() + table[:, 2].sum())
    if not turns:
        return None
    rate = float(table[:, 1].sum() + table[:, 3].sum()) / turns
    differences = (table[:, 3] - rate * table[:, 2]) - (table[:, 1] - rate * table[:, 0])
    return sign_flip_sums(differences.tolist(), seed=seed)


def _table(clusters: Sequence[ArmsInCluster]) -> np.ndarray:
    return np.asarray(clusters, dtype=float).reshape(-1, 4)


def _influence(turns: np.ndarray, events: np.ndarray) -> tuple[np.ndarray, float]:
    """Return each cluster's influence on an arm's rate, and the rate."""
    total = float(turns.sum())
    rate = float(events.sum()) / total
    return (events - rate * turns) / total, rate
