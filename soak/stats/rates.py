"""Rates of rare events and intervals for them: one arm, two arms, unpaired and paired."""

import math
from collections.abc import Callable
from typing import NamedTuple

from scipy import special, stats


class Interval(NamedTuple):
    """Lower and upper limit; `high` may be infinite for a ratio whose baseline count is 0."""

    low: float
    high: float

    def excludes(self, value: float) -> bool:
        """Whether `value` lies outside."""
        return value < self.low or value > self.high

    def within(self, margin: float) -> bool:
        """Whether all of it lies strictly between −margin and margin."""
        return -margin < self.low and self.high < margin


class PairedCounts(NamedTuple):
    """Pairs of turns by which arm had the event: both, only the baseline, only the candidate, neither."""

    both: int
    baseline_only: int
    candidate_only: int
    neither: int

    @property
    def pairs(self) -> int:
        """All pairs."""
        return sum(self)


def z_of(confidence: float) -> float:
    """Return the normal quantile of a two-sided interval (1.96 at 95 %)."""
    return float(special.ndtri((1 + confidence) / 2))


def wilson(events: int, turns: int, confidence: float = 0.95) -> Interval | None:
    """
    Return the score interval of a rate, None for no turns.

    Source: Wilson, JASA 22 (1927) 209; Newcombe, Stat. Med. 17 (1998) 857, method 3.
    """
    if turns <= 0:
        return None
    z2 = z_of(confidence) ** 2
    rate = events / turns
    centre = (rate + z2 / (2 * turns)) / (1 + z2 / turns)
    half = math.sqrt(z2 * (rate * (1 - rate) + z2 / (4 * turns)) / turns) / (1 + z2 / turns)
    low = 0.0 if events == 0 else max(0.0, centre - half)
    high = 1.0 if events == turns else min(1.0, centre + half)
    return Interval(low, high)


def clopper_pearson(events: int, turns: int, confidence: float = 0.95) -> Interval | None:
    """
    Return the exact two-sided interval of a rate (coverage never below `confidence`), None for no turns.

    Source: Clopper & Pearson, Biometrika 26 (1934) 404, as quantiles of beta distributions.
    """
    if turns <= 0:
        return None
    tail = (1 - confidence) / 2
    low = 0.0 if events == 0 else float(special.betaincinv(events, turns - events + 1, tail))
    high = 1.0 if events == turns else float(special.betaincinv(events + 1, turns - events, 1 - tail))
    return Interval(low, high)


def upper_bound(events: int, turns: int, confidence: float = 0.95) -> float | None:
    """
    Return the exact one-sided upper bound of a rate, None for no turns.

    With 0 events this is 1 − (1 − confidence)^(1/turns), about 3/turns: 0 of 299 is below 1 % with 95 %.
    Source: Clopper & Pearson (1934), one-sided.
    """
    if turns <= 0:
        return None
    if events >= turns:
        return 1.0
    return float(special.betaincinv(events + 1, turns - events, confidence))


def newcombe_unpaired(
    baseline: tuple[int, int], candidate: tuple[int, int], confidence: float = 0.95
) -> Interval | None:
    """
    Return the interval of the difference of two independent rates, each given as (events, turns).

    Source: Newcombe, Stat. Med. 17 (1998) 873, method 10 (Wilson limits, squared and added).
    None if an arm has no turns.
    """
    first, second = wilson(*baseline, confidence), wilson(*candidate, confidence)
    if first is None or second is None:
        return None
    return _square_and_add(baseline[0] / baseline[1], first, candidate[0] / candidate[1], second, phi=0.0)


def newcombe_paired(counts: PairedCounts, confidence: float = 0.95) -> Interval | None:
    """
    Return the interval of the difference of two rates over the same turns, None for no pairs.

    Source: Newcombe, Stat. Med. 17 (1998) 2635, method 10 (Wilson limits, correlation with continuity correction).
    """
    pairs = counts.pairs
    events_baseline = counts.both + counts.baseline_only
    events_candidate = counts.both + counts.candidate_only
    first, second = wilson(events_baseline, pairs, confidence), wilson(events_candidate, pairs, confidence)
    if first is None or second is None:
        return None
    return _square_and_add(events_baseline / pairs, first, events_candidate / pairs, second, phi=_phi(counts))


def _phi(counts: PairedCounts) -> float:
    """Return the correlation of the two arms' events, moved towards 0 by the continuity correction of method 10."""
    a, b, c, d = counts
    product = (a + b) * (c + d) * (a + c) * (b + d)
    if product == 0:
        return 0.0
    cross = a * d - b * c
    corrected = max(cross - counts.pairs / 2, 0.0) if cross > 0 else cross
    return float(corrected / math.sqrt(product))


def _square_and_add(rate1: float, limits1: Interval, rate2: float, limits2: Interval, *, phi: float) -> Interval:
    down1, up1 = rate1 - limits1.low, limits1.high - rate1
    down2, up2 = rate2 - limits2.low, limits2.high - rate2
    lower = math.sqrt(max(0.0, down2**2 - 2 * phi * down2 * up1 + up1**2))
    upper = math.sqrt(max(0.0, up2**2 - 2 * phi * up2 * down1 + down1**2))
    difference = rate2 - rate1
    return Interval(max(-1.0, difference - lower), min(1.0, difference + upper))


def ratio_score(baseline: tuple[int, int], candidate: tuple[int, int], confidence: float = 0.95) -> Interval | None:
    """
    Return the score interval of candidate rate / baseline rate, each given as (events, turns).

    `high` is infinite without baseline events; None if an arm has no turns.
    Source: Koopman, Biometrics 40 (1984) 513 (two independent binomials; limits found by bisection on log ratio).
    """
    (x1, n1), (x2, n2) = baseline, candidate
    if n1 <= 0 or n2 <= 0:
        return None
    if x1 == 0 and x2 == 0:
        return Interval(0.0, math.inf)
    limit = z_of(confidence) ** 2
    estimate = math.log((x2 / n2) / (x1 / n1)) if x1 and x2 else (_LOG_LIMIT if x2 else -_LOG_LIMIT)

    def inside(log_ratio: float) -> bool:
        return _score_of(x1, n1, x2, n2, math.exp(log_ratio)) <= limit

    low = math.exp(_edge(inside, estimate, -_LOG_LIMIT)) if x2 else 0.0
    high = math.exp(_edge(inside, estimate, _LOG_LIMIT)) if x1 else math.inf
    return Interval(low, high)


_LOG_LIMIT = 25.0  # ratios are looked for between e^-25 and e^25


def _score_of(x1: int, n1: int, x2: int, n2: int, ratio: float) -> float:
    """Return the score statistic of H0: rate2 = ratio · rate1, with rate1 estimated under H0."""
    a = (n1 + n2) * ratio
    b = -(n2 * ratio + x2 + n1 + x1 * ratio)
    c = x1 + x2
    # The smaller root of a·p² + b·p + c, written so that nothing cancels for a tiny ratio.
    rate1 = 2 * c / (-b + math.sqrt(max(b * b - 4 * a * c, 0.0)))
    rate2 = min(ratio * rate1, 1.0)
    variance = rate2 * (1 - rate2) / n2 + ratio * ratio * rate1 * (1 - min(rate1, 1.0)) / n1
    distance = x2 / n2 - ratio * x1 / n1
    if variance <= 0:
        return 0.0 if abs(distance) < 1e-15 else math.inf
    return distance * distance / variance


def _edge(inside: Callable[[float], bool], start: float, outside: float) -> float:
    """Return the place between `start` (inside) and `outside` where `inside` ends; `outside` if it never does."""
    if inside(outside):
        return outside
    near, far = start, outside
    for _ in range(80):
        middle = (near + far) / 2
        near, far = (middle, far) if inside(middle) else (near, middle)
    return near


def ratio_conditional(
    baseline: tuple[int, int], candidate: tuple[int, int], confidence: float = 0.95
) -> Interval | None:
    """
    Return the conditional exact interval of candidate rate / baseline rate, each given as (events, turns).

    Treats the counts as Poisson and the candidate's share of all events as binomial (Clopper & Pearson 1934);
    wider than `ratio_score`. None if an arm has no turns or nobody had an event.
    """
    (x1, n1), (x2, n2) = baseline, candidate
    if n1 <= 0 or n2 <= 0:
        return None
    share = clopper_pearson(x2, x1 + x2, confidence)
    if share is None:
        return None
    low, high = (value / (1 - value) * n1 / n2 if value < 1 else math.inf for value in share)
    return Interval(low, high)


def prediction(events: int, turns: int, further: int, confidence: float = 0.95) -> tuple[int, int]:
    """
    Return between how many and how many of `further` turns will be events, after `events` of `turns` were.

    Beta-binomial with Jeffreys' prior Beta(1/2, 1/2) (Brown, Cai & DasGupta, Stat. Sci. 16 (2001) 101, for the
    interval; its predictive distribution for counts to come).
    """
    law = stats.betabinom(further, events + 0.5, turns - events + 0.5)
    outside = (1 - confidence) / 2
    return int(law.ppf(outside)), int(law.ppf(1 - outside))
