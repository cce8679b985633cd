"""How many turns would settle it, and what a number of turns could show."""

import math
from typing import NamedTuple

import numpy as np
from scipy import special

from soak.stats.sequential import EvidenceMeter

_TAIL = 1e-10  # counts less likely than this are left out when outcomes are enumerated
_TURNS_MAX = 1 << 34
_EVENTS_MANY = 400


class PairRates(NamedTuple):
    """The fractions of pairs in which only the baseline, and only the candidate, has the event."""

    baseline_only: float
    candidate_only: float


def turns_needed_unpaired(
    rate_baseline: float, rate_candidate: float, *, alpha: float = 0.05, power: float = 0.8
) -> int | None:
    """
    Return the turns per arm with which two rates that differ like this are told apart; None if they are equal.

    Two-sided normal approximation with the pooled variance under "no difference" (Fleiss, Statistical Methods for Rates
    and Proportions, 1981, eq. 3.14, without continuity correction): 2.2 % against 1.4 % needs 4,335.
    """
    if rate_baseline == rate_candidate:
        return None
    z_alpha, z_power = _z(alpha, power)
    pooled = (rate_baseline + rate_candidate) / 2
    spread = rate_baseline * (1 - rate_baseline) + rate_candidate * (1 - rate_candidate)
    root = z_alpha * math.sqrt(2 * pooled * (1 - pooled)) + z_power * math.sqrt(spread)
    return math.ceil((root / (rate_baseline - rate_candidate)) ** 2)


def turns_needed_paired(
    baseline_only: float, candidate_only: float, *, alpha: float = 0.05, power: float = 0.8
) -> int | None:
    """
    Return the pairs needed when these fractions of pairs have the event in one arm only; None if they are equal.

    Source: Connor, Biometrics 43 (1987) 207 (McNemar's test, two-sided).
    """
    difference = abs(baseline_only - candidate_only)
    if difference == 0:
        return None
    z_alpha, z_power = _z(alpha, power)
    discordant = baseline_only + candidate_only
    root = z_alpha * math.sqrt(discordant) + z_power * math.sqrt(max(0.0, discordant - difference**2))
    return math.ceil((root / difference) ** 2)


def pair_rates(rate_baseline: float, rate_candidate: float, correlation: float = 0.0) -> PairRates:
    """
    Return how often pairs disagree at these rates if a turn's outcomes in the two arms correlate like this.

    correlation 0: failures fall on the same turn by chance alone; it is cut to what the two rates allow.
    """
    spread = math.sqrt(rate_baseline * (1 - rate_baseline) * rate_candidate * (1 - rate_candidate))
    both = rate_baseline * rate_candidate + correlation * spread
    both = min(max(both, rate_baseline + rate_candidate - 1, 0.0), rate_baseline, rate_candidate)
    return PairRates(rate_baseline - both, rate_candidate - both)


def clustering_factor(cluster_size: float, correlation: float) -> float:
    """Return 1 + (m − 1)·ICC, at least 1: how many more turns clusters of this size take (Kish 1965)."""
    return max(1.0, 1 + (cluster_size - 1) * correlation)


def power_paired(turns: float, rates: PairRates, *, alpha: float = 0.05) -> float:
    """
    Return the chance that McNemar's exact test of so many independent pairs is below `alpha`, two-sided.

    Exact: all outcomes (b, c) weighed as Poisson counts, which rare events are to within their square. With clusters,
    give turns / `clustering_factor`.
    """
    b, weight_b = _poisson(turns * rates.baseline_only)
    c, weight_c = _poisson(turns * rates.candidate_only)
    smaller = np.minimum(b[:, None], c[None, :])
    p_values = np.minimum(1.0, 2 * special.bdtr(smaller, b[:, None] + c[None, :], 0.5))
    return float(weight_b @ (p_values < alpha) @ weight_c)


def turns_for_power(rates: PairRates, *, alpha: float = 0.05, power: float = 0.8) -> int | None:
    """
    Return the independent pairs with which McNemar's exact test has this power; None if the rates are equal.

    Above `turns_needed_paired` by what the exact test costs with few events; equal to it above 400 of them. Power is a
    saw-tooth in the turns, so a few turns fewer may do as well.
    """
    if rates.baseline_only == rates.candidate_only:
        return None
    low = turns_needed_paired(*rates, alpha=alpha, power=power) or 1
    if low * sum(rates) > _EVENTS_MANY:
        return low
    high = max(2 * low, 8)
    while power_paired(high, rates, alpha=alpha) < power and high < _TURNS_MAX:
        high *= 2
    low //= 2
    while high - low > max(1, high // 500):
        middle = (low + high) // 2
        low, high = (low, middle) if power_paired(middle, rates, alpha=alpha) >= power else (middle, high)
    return high


def turns_to_decision(rates: PairRates, *, bar: float, cluster_size: float = 1.0, factor: float = 1.0) -> int | None:
    """
    Return about how many pairs the anytime evidence takes to reach `bar`; None if the rates are equal.

    As many as make the evidence of exactly these rates reach it, with events in portions of `factor` (the clustering
    factor): the median of simulated runs lies near it. At least one cluster.
    """
    if rates.baseline_only == rates.candidate_only:
        return None
    turns, portion = 1e6, max(1, round(factor))
    meter = EvidenceMeter()
    meter.add_many(-portion, turns * rates.baseline_only / portion)
    meter.add_many(portion, turns * rates.candidate_only / portion)
    times = meter.factor_needed(bar, least=1e-6)
    return None if times is None else max(math.ceil(times * turns), math.ceil(cluster_size))


def detectable_rate(rate: float, turns: int, *, alpha: float = 0.05, power: float = 0.8) -> float | None:
    """
    Return the largest lower rate that `turns` per arm tell apart from `rate`; None if even 0 would not be.

    The inverse of `turns_needed_unpaired` in its second rate, by bisection.
    """

    def told_apart(lower: float) -> bool:
        needed = turns_needed_unpaired(rate, lower, alpha=alpha, power=power)
        return needed is not None and needed <= turns

    if not told_apart(0.0):
        return None
    low, high = 0.0, rate
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if told_apart(middle) else (low, middle)
    return low


def _poisson(mean: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the counts that a Poisson variable of this mean takes but for a sliver, and their probabilities."""
    if mean <= 0:
        return np.zeros(1, dtype=np.int64), np.ones(1)
    reach = 6 * math.sqrt(mean) + 12
    counts = np.arange(max(0, math.floor(mean - reach)), math.ceil(mean + reach) + 1)
    weights = np.exp(special.xlogy(counts, mean) - mean - special.gammaln(counts + 1))
    likely = weights > _TAIL
    return counts[likely], weights[likely]


def _z(alpha: float, power: float) -> tuple[float, float]:
    return float(special.ndtri(1 - alpha / 2)), float(special.ndtri(power))
