"""Does something rise or fall along an axis (depth, uptime), when turns of one cluster belong together?"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import special

from soak.stats.clusters import cluster_sums, half_width
from soak.stats.randomised import sign_flip_sums
from soak.stats.rates import Interval

_CLUSTERS_TO_TELL = 5


class TrendEstimate(NamedTuple):
    """
    Change of the rate per unit of the axis, its 95 % interval by clusters, and two p-values.

    `p_value` flips the signs of clusters' scores (None where fewer than five clusters have an event); `p_independent`
    is that of Cochran and Armitage.
    """

    slope: float
    interval: Interval | None
    p_value: float | None
    p_independent: float


def event_trend(
    axis: Sequence[float], events: Sequence[bool], clusters: Sequence[int], *, seed: int = 0
) -> TrendEstimate | None:
    """
    Return the linear trend of a rate along `axis`; None without events, without turns free of them, or at one place.

    Score test of logistic regression: U = Σ (x − x̄) y, against its variance for independent turns, ȳ(1 − ȳ) Σ (x − x̄)²
    (Cochran 1954, Armitage 1955), and against flipped signs of each cluster's share of U (the wild bootstrap of scores,
    Kline & Santos, J. Econom. Methods 1 (2012) 23), which holds however turns of a cluster hang together.
    """
    x, y = np.asarray(axis, dtype=float), np.asarray(events, dtype=float)
    rate = float(y.mean()) if len(y) else 0.0
    centred = x - x.mean() if len(x) else x
    spread = float((centred**2).sum())
    if spread <= 0 or not 0 < rate < 1:
        return None
    score = float((centred * y).sum())
    z = score / math.sqrt(rate * (1 - rate) * spread)
    sums = cluster_sums(centred * (y - rate), clusters)
    failing = len(np.unique(np.asarray(clusters)[y > 0]))
    return TrendEstimate(
        slope=score / spread,
        interval=_slope_interval(score / spread, centred, y - rate, clusters),
        p_value=sign_flip_sums(sums.tolist(), seed=seed) if failing >= _CLUSTERS_TO_TELL else None,
        p_independent=float(2 * special.ndtr(-abs(z))),
    )


def band_counts(axis: Sequence[float], events: Sequence[bool], edges: Sequence[float]) -> list[tuple[int, int]]:
    """
    Return (events, turns) in each band; band i begins at `edges[i]` (rising), the last has no end.

    Places below the first edge count into the first band.
    """
    bands = np.maximum(np.searchsorted(np.asarray(edges), np.asarray(axis, dtype=float), side="right") - 1, 0)
    turns = np.bincount(bands, minlength=len(edges))
    hit = np.bincount(bands[np.asarray(events, dtype=bool)], minlength=len(edges))
    return list(zip(hit.tolist(), turns.tolist(), strict=True))


def value_trend(
    axis: Sequence[float], values: Sequence[float], clusters: Sequence[int]
) -> tuple[float, Interval] | None:
    """
    Return the least-squares slope of `values` along `axis` and its 95 % interval by clusters; None below three of them.

    Sandwich variance with G/(G−1) and t(G−1) (Liang & Zeger, Biometrika 73 (1986) 13).
    """
    x, y = np.asarray(axis, dtype=float), np.asarray(values, dtype=float)
    if len(x) < 3 or float(np.ptp(x)) <= 0:
        return None
    centred = x - x.mean()
    slope = float((centred * y).sum() / (centred**2).sum())
    interval = _slope_interval(slope, centred, y - y.mean(), clusters)
    return (slope, interval) if interval is not None else None


def _slope_interval(
    slope: float, centred: np.ndarray, deviations: np.ndarray, clusters: Sequence[int]
) -> Interval | None:
    spread = float((centred**2).sum())
    influence = cluster_sums(centred * (deviations - slope * centred) / spread, clusters)
    if len(influence) < 3:
        return None
    half = half_width(influence, 0.95)
    return Interval(slope - half, slope + half)
