"""A change of a rate between two times, held against a change of what the rate is made of."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from soak.stats.clusters import Estimate, cluster_sums, half_width
from soak.stats.rates import Interval


class Stratum(NamedTuple):
    """Like things of one cluster: events and trials (both ≥ 0, events ≤ trials) in the early and in the late time."""

    cluster: int
    early: tuple[float, float]
    late: tuple[float, float]


def standardised_change(strata: Sequence[Stratum], confidence: float = 0.95) -> Estimate | None:
    """
    Return late rate − early rate at a fixed mix, and its interval; None where no stratum has trials at both times.

    The Mantel–Haenszel difference Σ w (p_late − p_early) / Σ w with w = n_early n_late / (n_early + n_late): the same
    weights at both times, so that a stratum which became more frequent changes nothing (Cochran, Biometrics 10 (1954)
    417; Greenland & Robins, Biometrics 41 (1985) 55). Trials of a cluster belong together: the variance is that of a
    ratio of sums over clusters, t as in `clusters.half_width`; without an interval below two clusters.
    """
    both = [stratum for stratum in strata if stratum.early[1] > 0 and stratum.late[1] > 0]
    if not both:
        return None
    table = np.asarray([(*stratum.early, *stratum.late) for stratum in both], dtype=float)
    weights = table[:, 1] * table[:, 3] / (table[:, 1] + table[:, 3])
    changes = table[:, 2] / table[:, 3] - table[:, 0] / table[:, 1]
    total = float(weights.sum())
    change = float((weights * changes).sum() / total)
    influence = cluster_sums(weights * (changes - change) / total, [stratum.cluster for stratum in both])
    if len(influence) < 2:
        return Estimate(change, None)
    half = half_width(influence, confidence)
    return Estimate(change, Interval(max(-1.0, change - half), min(1.0, change + half)))
