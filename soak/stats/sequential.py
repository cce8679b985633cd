"""
Evidence one may look at after every conversation, and stop on, without breaking the error rate.

The unit is the conversation (an episode in one pass). D is the candidate's events − the baseline's in it. If the arms
are alike, swapping them inside a conversation changes nothing, so D is symmetric given the past and each factor
exp(λD)/cosh(λD) has mean 1, whatever happens inside the conversation. Their product over conversations is a test
martingale; averaged over six bets λ and both directions it is the *e-value*. By Ville's inequality it ever reaches
1/alpha with a chance of at most alpha. (de la Peña, Ann. Probab. 27 (1999) 537; Ville 1939.)
"""

import math
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import numpy as np
from scipy import special

from soak.stats.rates import Interval

_BETS = np.array([0.05, 0.1, 0.2, 0.4, 0.8, 1.6])
_LOG_SHARE = math.log(2 * len(_BETS))
_MIXTURE = 5.0  # events² at which the normal mixture is tightest: what a decision on rare events takes
_FACTOR_MAX = 1e6


class EvidenceMeter:
    """The e-value so far: `add` each conversation's difference as it ends. Constant memory."""

    def __init__(self) -> None:
        self._logs = np.zeros((2, len(_BETS)))  # first row: the candidate has more events; second: fewer
        self._up = self._down = self._squares = 0.0

    def add(self, difference: int) -> None:
        """Take one conversation: the candidate's events − the baseline's."""
        self.add_many(difference, 1)

    def add_many(self, difference: int, times: float) -> None:
        """Take so many conversations that differ alike; a fraction of one for planning."""
        self._logs += times * _log_factors(np.array([difference]))[:, :, 0]
        self._up += times * max(difference, 0)
        self._down += times * max(-difference, 0)
        self._squares += times * difference * difference

    @property
    def log_e(self) -> float:
        """Natural logarithm of the e-value."""
        return _mixed(self._logs)

    @property
    def direction(self) -> Literal[1, -1, 0]:
        """1 if the evidence is for the candidate having more events, −1 for fewer, 0 for neither."""
        up, down = (float(value) for value in np.logaddexp.reduce(self._logs, axis=1))
        return 0 if up == down else (1 if up > down else -1)

    def factor_needed(self, bar: float, least: float = 1.0) -> float | None:
        """
        Return how many times the conversations so far it takes to reach `bar` if all goes on as it did.

        At least `least`; None where it is never reached (the arms are alike so far), or only beyond a million times.
        """
        goal = math.log(bar)
        if _mixed(least * self._logs) >= goal:
            return least
        if _mixed(_FACTOR_MAX * self._logs) < goal:
            return None
        low, high = least, _FACTOR_MAX
        for _ in range(80):
            middle = math.sqrt(low * high)
            low, high = (low, middle) if _mixed(middle * self._logs) >= goal else (middle, high)
        return high

    def reachable(self, bar: float, factor: float, confidence: float) -> bool:
        """
        Return whether `bar` can be reached with `factor` times the conversations so far, looked at kindly.

        Kindly: from here on events come as often in the better direction, and as rarely in the other, as is compatible
        with what was seen (one-sided Poisson bounds at `confidence`), in portions as large as they came so far.
        """
        more = max(factor - 1.0, 0.0)
        goal = math.log(bar)
        return any(_mixed(self._logs + more * self._kindest(sign, confidence)) >= goal for sign in (1, -1))

    def _kindest(self, sign: int, confidence: float) -> np.ndarray:
        """Return the growth of all logs per repetition of what was seen, under the kindest rates towards `sign`."""
        size = self._squares / (self._up + self._down) if self._squares else 1.0
        towards, against = (self._up, self._down) if sign > 0 else (self._down, self._up)
        most = float(special.gammaincinv(towards / size + 1, confidence))
        least = float(special.gammaincinv(against / size, 1 - confidence)) if against else 0.0
        towards_it, away = _log_factors(np.array([sign * size, -sign * size])).transpose(2, 0, 1)
        return np.asarray(most * towards_it + least * away)


def log_evidence(differences: Sequence[int]) -> list[float]:
    """Return the natural logarithm of the e-value after each conversation; `differences` in the order they ended."""
    if not len(differences):
        return []
    sums = np.cumsum(_log_factors(np.asarray(differences, dtype=float)), axis=2)
    return [float(value) for value in np.logaddexp.reduce(sums, axis=(0, 1)) - _LOG_SHARE]


def _log_factors(differences: np.ndarray) -> np.ndarray:
    """Return λD − log cosh λD for both directions, every bet and every difference: shape (2, bets, differences)."""
    x = _BETS[:, None] * differences[None, :]
    log_cosh = np.logaddexp(x, -x) - math.log(2)
    return np.stack((x - log_cosh, -x - log_cosh))


def _mixed(logs: np.ndarray) -> float:
    return float(np.logaddexp.reduce(logs, axis=None)) - _LOG_SHARE


def anytime_rate(events: int, turns: int, alpha: float = 0.05) -> Interval:
    """
    Return the interval of one rate that may be looked at after every turn (turns independent); 0 to 1 for no turns.

    The rates p for which the Beta(1/2, 1/2) mixture against p is below 1/alpha: Robbins' mixture for a Bernoulli rate
    (Ann. Math. Stat. 41 (1970) 1397).
    """
    if turns <= 0:
        return Interval(0.0, 1.0)

    def inside(p: float) -> bool:
        return not anytime_excludes(p, events, turns, alpha)

    rate = events / turns
    return Interval(_edge_of(inside, rate, 0.0), _edge_of(inside, rate, 1.0))


def anytime_excludes(rate: float, events: int, turns: int, alpha: float = 0.05) -> bool:
    """Return whether `rate` lies outside the interval that `anytime_rate` would return, at a fraction of its cost."""
    mixture = float(special.betaln(0.5 + events, 0.5 + turns - events) - special.betaln(0.5, 0.5))
    likelihood = float(special.xlogy(events, rate) + special.xlog1py(turns - events, -rate))
    return likelihood <= mixture - math.log(1 / alpha)


def _edge_of(inside: Callable[[float], bool], start: float, end: float) -> float:
    if inside(end):
        return end
    near, far = start, end
    for _ in range(70):
        middle = (near + far) / 2
        near, far = (middle, far) if inside(middle) else (near, middle)
    return far


class Exposure(NamedTuple):
    """What the anytime interval of a difference needs, summed over conversations ended so far."""

    conversations: int
    turns: int
    baseline: int
    candidate: int
    squares: float
    cross: float
    turns_squared: float


class DifferenceMeter:
    """The anytime interval of candidate rate − baseline rate: `add` each conversation as it ends. Constant memory."""

    def __init__(self) -> None:
        self.seen = Exposure(0, 0, 0, 0, 0.0, 0.0, 0.0)

    def add(self, turns: int, baseline: int, candidate: int) -> None:
        """Take one conversation: its paired turns, and the events of each arm among them."""
        s, change = self.seen, candidate - baseline
        self.seen = Exposure(
            s.conversations + 1,
            s.turns + turns,
            s.baseline + baseline,
            s.candidate + candidate,
            s.squares + change * change,
            s.cross + change * turns,
            s.turns_squared + turns * turns,
        )

    def interval(self, alpha: float = 0.05) -> Interval:
        """
        Return the interval; −1 to 1 before the first conversation.

        The envelope of two: the normal mixture over conversations, |S − δN| ≤ √((V + 5) log((V + 5)/(5 α²))) with
        V = Σ (D − δn)², exact for δ = 0 and asymptotic else (Waudby-Smith et al., Ann. Stat. 52 (2024) 2613); and the
        difference of both arms' `anytime_rate` at alpha/2, which holds where few events were seen.
        """
        s = self.seen
        if not s.turns:
            return Interval(-1.0, 1.0)
        difference = (s.candidate - s.baseline) / s.turns
        variance = max(s.squares - 2 * difference * s.cross + difference**2 * s.turns_squared, 0.0)
        half = mixture_half_width(variance, alpha) / s.turns
        first = anytime_rate(min(s.baseline, s.turns), s.turns, alpha / 2)
        second = anytime_rate(min(s.candidate, s.turns), s.turns, alpha / 2)
        low = min(difference - half, second.low - first.high)
        high = max(difference + half, second.high - first.low)
        return Interval(max(-1.0, low), min(1.0, high))

    def narrowest(self, factor: float, alpha: float = 0.05) -> float:
        """Return half the width the interval would have with `factor` times as much of the same and no difference."""
        s = self.seen
        turns = s.turns * factor
        if not turns:
            return 1.0
        events = (s.baseline + s.candidate) / 2 * factor
        rate = anytime_rate(min(round(events), round(turns)), max(round(turns), 1), alpha / 2)
        return max(mixture_half_width(s.squares * factor, alpha) / turns, rate.high - rate.low)


def mixture_half_width(variance: float, alpha: float) -> float:
    """Return how far a sum of variance `variance` strays at most, at any time, with chance 1 − alpha."""
    whole = variance + _MIXTURE
    return math.sqrt(whole * math.log(whole / (_MIXTURE * alpha * alpha)))
