"""Intervals whose unit is the cluster (all turns of one episode), not the turn; how much clustering costs."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import special

from soak.stats.rates import Interval

_EVENTS_TO_TELL = 4


class ClusterCounts(NamedTuple):
    """Paired turns of one cluster and the events of both arms among them."""

    turns: int
    baseline: int
    candidate: int


class Estimate(NamedTuple):
    """A number and its interval (None below two clusters)."""

    value: float
    interval: Interval | None


def cluster_difference(
    clusters: Sequence[ClusterCounts], confidence: float = 0.95, freedom: float | None = None
) -> Interval | None:
    """
    Return the interval of candidate rate − baseline rate with clusters as the unit; None below two clusters.

    Linearised (Taylor) variance of a ratio estimate with the factor G/(G−1) (Cochran, Sampling Techniques, 1977, ch. 6
    and 9A; equals the GEE independence sandwich), t distribution; `freedom` as in `half_width`.
    """
    turns, baseline, candidate = _columns(clusters)
    total = turns.sum()
    if len(clusters) < 2 or total == 0:
        return None
    change = candidate - baseline
    difference = float(change.sum() / total)
    half = half_width((change - difference * turns) / total, confidence, freedom)
    return Interval(max(-1.0, difference - half), min(1.0, difference + half))


def cluster_difference_unpaired(
    baseline: Sequence[tuple[int, int]], candidate: Sequence[tuple[int, int]], confidence: float = 0.95
) -> Interval | None:
    """
    Return the interval of candidate rate − baseline rate, each cluster given as (events, turns); None below two each.

    The two arms' linearised influences side by side, t as in `half_width`.
    """
    if min(len(baseline), len(candidate)) < 2:
        return None
    rates, influences = [], []
    for clusters in (baseline, candidate):
        table = np.asarray(clusters, dtype=float)
        events, turns = table[:, 0], table[:, 1]
        rate = float(events.sum() / turns.sum())
        rates.append(rate)
        influences.append((events - rate * turns) / turns.sum())
    half = half_width(np.concatenate(influences), confidence)
    difference = rates[1] - rates[0]
    return Interval(max(-1.0, difference - half), min(1.0, difference + half))


def cluster_ratio(
    clusters: Sequence[ClusterCounts], confidence: float = 0.95, freedom: float | None = None
) -> Interval | None:
    """
    Return the interval of candidate rate / baseline rate with clusters as the unit.

    On the log scale, u_c = (y_c − p·n_c)/(N·p) of the candidate less that of the baseline, variance G/(G−1) Σ u_c²:
    the linearised log ratio (equals a GEE with independence working correlation); `freedom` as in `half_width`. None
    below two clusters or where an arm has no event.
    """
    turns, baseline, candidate = _columns(clusters)
    total, events_b, events_c = turns.sum(), baseline.sum(), candidate.sum()
    if len(clusters) < 2 or events_b == 0 or events_c == 0:
        return None
    influence = (candidate / events_c) - (baseline / events_b)  # the terms in n_c cancel: both arms ran the same turns
    centre = math.log(events_c / events_b)
    half = min(half_width(influence, confidence, freedom), 700.0)
    return Interval(math.exp(centre - half), math.exp(centre + half)) if total else None


def cluster_mean(values: Sequence[float], clusters: Sequence[int], confidence: float = 0.95) -> Estimate | None:
    """
    Return the mean of `values` with an interval whose unit is the cluster; None for no values.

    Linearised variance with G/(G−1) and t, as in `cluster_difference`. Element i belongs to `clusters[i]`.
    """
    x = np.asarray(values, dtype=float)
    if not len(x):
        return None
    mean = float(x.mean())
    sums = cluster_sums(x - mean, clusters)
    if len(sums) < 2:
        return Estimate(mean, None)
    half = half_width(sums / len(x), confidence)
    return Estimate(mean, Interval(mean - half, mean + half))


def cluster_sums(values: np.ndarray, clusters: Sequence[int] | np.ndarray) -> np.ndarray:
    """Return the sum of `values` in each cluster that occurs."""
    _, numbers = np.unique(np.asarray(clusters), return_inverse=True)
    return np.bincount(numbers, values)


def design_effect(clusters: Sequence[ClusterCounts], discordant: int) -> float | None:
    """
    Return how many times the variance of the paired difference is what independent pairs would give.

    Linearised cluster variance over the variance of McNemar's difference with this many discordant pairs (b + c −
    (b − c)²/N, both in units of 1/N²); Kish, Survey Sampling (1965), 5.4 has the idea. None below two clusters or four
    discordant pairs: too little to tell.
    """
    if len(clusters) < 2 or discordant < _EVENTS_TO_TELL:
        return None
    turns, baseline, candidate = _columns(clusters)
    total, change = float(turns.sum()), candidate - baseline
    difference = float(change.sum()) / total
    robust = len(clusters) / (len(clusters) - 1) * float(((change - difference * turns) ** 2).sum())
    independent = discordant - difference * difference * total
    return robust / independent if independent > 0 else None


def intra_cluster_correlation(sizes: Sequence[int], sums: Sequence[float], squares: Sequence[float]) -> float | None:
    """
    Return the correlation of two turns of one cluster, from each cluster's turns, sum and sum of squares of a value.

    The analysis-of-variance estimator for unequal clusters (Donner, Int. Stat. Rev. 54 (1986) 67), cut to −1 … 1; the
    value is 0 or 1 for a failure, −1, 0 or 1 for a paired difference. None below two clusters or without variation.
    """
    n, total, square = (np.asarray(column, dtype=float) for column in (sizes, sums, squares))
    turns, count = float(n.sum()), len(n)
    if count < 2 or turns <= count:
        return None
    grand = float(total.sum()) / turns
    means = total / n
    between = float((n * (means - grand) ** 2).sum()) / (count - 1)
    within = float((square - n * means**2).sum()) / (turns - count)
    typical = (turns - float((n**2).sum()) / turns) / (count - 1)
    whole = between + (typical - 1) * within
    return min(max((between - within) / whole, -1.0), 1.0) if whole > 0 else None


def _columns(clusters: Sequence[ClusterCounts]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    table = np.asarray(clusters, dtype=float).reshape(-1, 3)
    return table[:, 0], table[:, 1], table[:, 2]


def half_width(influence: np.ndarray, confidence: float, freedom: float | None = None) -> float:
    """
    Return t times the standard error that follows from each cluster's influence.

    Without `freedom`, degrees of freedom are (Σu²)²/Σu⁴, at most G−1 (Satterthwaite's, for a variance that is a sum of
    squares of unlike size). Rare failures come from few of many clusters, and a variance known from five of them is
    not known from 400: with G−1 the interval of an effect covered 0.83 to 0.92 in simulations where this covers more
    than 0.93.
    """
    count = len(influence)
    squares = influence**2
    total = float(squares.sum())
    if total <= 0:
        return 0.0
    if freedom is None:
        freedom = min(count - 1.0, max(total * total / float((squares**2).sum()), 1.0))
    return float(special.stdtrit(freedom, (1 + confidence) / 2)) * math.sqrt(count / (count - 1) * total)


def envelope(first: Interval | None, second: Interval | None) -> Interval | None:
    """Return the smallest interval holding both (it covers as often as either), or the one that is not None."""
    if first is None or second is None:
        return first or second
    return Interval(min(first.low, second.low), max(first.high, second.high))
