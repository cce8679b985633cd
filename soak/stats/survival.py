"""How far something came before its first failure: Kaplan–Meier curves, and whether two of them differ."""

from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np
from scipy import special

from soak.stats.randomised import sign_flip_sums


class Lives(NamedTuple):
    """Element i: how far conversation i came, and whether it ended there by a failure (else it was not seen to)."""

    reached: Sequence[float]
    failed: Sequence[bool]


def kaplan_meier(lives: Lives) -> list[tuple[float, float]]:
    """
    Return (at, share that came beyond it without a failure) after each distinct failure, in order.

    Source: Kaplan & Meier, JASA 53 (1958) 457. What was not seen to fail leaves the risk set after failures at the same
    place.
    """
    at, deaths, at_risk = _risk_table(np.asarray(lives.reached, dtype=float), np.asarray(lives.failed, dtype=bool))
    shares = np.cumprod(1 - deaths / at_risk)
    return [(float(a), float(s)) for a, s in zip(at, shares, strict=True)]


def median_life(curve: Sequence[tuple[float, float]]) -> float | None:
    """Return where the curve first falls to one half or below, None if it does not."""
    return next((at for at, share in curve if share <= 0.5), None)


def log_rank(baseline: Lives, candidate: Lives) -> float | None:
    """
    Return the two-sided p-value of the log-rank test (Mantel 1966); None if nothing failed or nothing can differ.

    Takes every life as independent of every other.
    """
    reached, failed, second = _pooled(baseline, candidate)
    at, deaths, at_risk = _risk_table(reached, failed)
    risk2 = _at_risk(reached[second], at)
    deaths2 = _counts_at(reached[second & failed], at)
    with np.errstate(divide="ignore", invalid="ignore"):
        variance = deaths * (risk2 / at_risk) * (1 - risk2 / at_risk) * (at_risk - deaths) / (at_risk - 1)
    total = float(np.nan_to_num(variance).sum())
    if total <= 0:
        return None
    distance = float((deaths2 - deaths * risk2 / at_risk).sum())
    return float(special.chdtrc(1, distance * distance / total))


def log_rank_paired(baseline: Lives, candidate: Lives, clusters: Sequence[Hashable], *, seed: int = 0) -> float | None:
    """
    Return the p-value of "one arm fails sooner" that swaps arms inside clusters; None if nothing failed.

    Element i of both arms is the same conversation, in cluster `clusters[i]`. Each life's score is failed − the hazard
    it went through (Nelson–Aalen over both arms), which sums to log-rank's numerator; under "the arms could be swapped
    inside each cluster" the sign of a cluster's difference of scores is a coin.
    """
    reached, failed, second = _pooled(baseline, candidate)
    if not failed.any():
        return None
    at, deaths, at_risk = _risk_table(reached, failed)
    hazard = np.concatenate(([0.0], np.cumsum(deaths / at_risk)))
    scores = failed - hazard[np.searchsorted(at, reached, side="right")]
    sums: dict[Hashable, float] = {}
    for cluster, difference in zip(clusters, scores[second] - scores[~second], strict=True):
        sums[cluster] = sums.get(cluster, 0.0) + float(difference)
    return sign_flip_sums(list(sums.values()), seed=seed)


def _pooled(baseline: Lives, candidate: Lives) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    reached = np.concatenate([np.asarray(lives.reached, dtype=float) for lives in (baseline, candidate)])
    failed = np.concatenate([np.asarray(lives.failed, dtype=bool) for lives in (baseline, candidate)])
    return reached, failed, np.arange(len(reached)) >= len(baseline.reached)


def _risk_table(reached: np.ndarray, failed: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return where failures happened, how many at each place, and how many had come that far."""
    at, deaths = np.unique(reached[failed], return_counts=True)
    return at, deaths, _at_risk(reached, at)


def _at_risk(reached: np.ndarray, at: np.ndarray) -> np.ndarray:
    return len(reached) - np.searchsorted(np.sort(reached), at, side="left")


def _counts_at(values: np.ndarray, at: np.ndarray) -> np.ndarray:
    ordered = np.sort(values)
    return np.searchsorted(ordered, at, side="right") - np.searchsorted(ordered, at, side="left")
