"""
Is one arm good or bad? Fed with each turn as it begins and ends, says so once its failure rate has told.

Turns are counted in the order in which they *began*, each once all before it have ended: a loop takes a hundred times
as long as a good answer, so that counting turns as they end would see the good ones first and call a bad build good.
The stop then depends on the outcomes of turns alone, as the test asks (see `stats.rate_test`).
"""

import math
from typing import Literal

from soak.check.classes import CLASS_SETS
from soak.check.deciding import Decision
from soak.check.wording import percent, two_digits
from soak.facts import Decide, Rates, Record, TurnKey
from soak.stats import Interval, RateTest, anytime_excludes, anytime_rate

SURELY = 2.0
"""A rate is known well enough if its lower bound is at least this part of it; a good end is this much below the bad."""

_LOG_MAX = 600.0  # a ratio beyond e^600 is shown as that

RateOutcome = Literal["good", "bad", "measured"]


class RateDecider:
    """
    Watches a run with one arm. Pure: no clock, no I/O; remembers the turns in flight only.

    `turns` have been counted so far, `failures` of them; after the decision nothing is counted any more.
    """

    def __init__(self, decide: Decide) -> None:
        self._decide = decide
        self._rates = decide.rates or Rates()
        self._failing = frozenset().union(*(CLASS_SETS[name] for name in decide.classes))
        self._waiting: dict[TurnKey, bool | None] = {}
        self.turns = 0
        self.failures = 0
        self.decision: Decision | None = None

    def begun(self, key: TurnKey) -> None:
        """Take note that a turn is about to be sent: it counts before all that begin later."""
        self._waiting.pop(key, None)
        self._waiting[key] = None

    def take(self, record: Record, _used_s: float = 0.0) -> Decision | None:
        """Take the end of a turn that has begun; returns the decision at the record that brings it, and None else."""
        if record.key not in self._waiting:
            return None  # skipped: never sent
        if record.outcome == "finished" and record.judgement is not None:
            self._waiting[record.key] = record.judgement.class_ in self._failing
        else:
            del self._waiting[record.key]  # broken off: it begins once more, or never
        return self._count()

    def closed(self) -> Decision | None:
        """
        Return what can be said where no more turns come: the decision, if there is one.

        An arm told by the bad rate alone is good, too, if it is surely below it, though not surely below its half.
        """
        bad = self._rates.bad
        below = bad is not None and self._test is None and self.interval.high < bad
        if self.decision is None and below and self.turns >= self._rates.min_turns:
            return Decision("good", "+".join(self._decide.classes), self._sentence("good"))
        return self.decision

    @property
    def log_ratio(self) -> float | None:
        """The evidence of the turns counted (`RateTest.log_ratio`); None where a rate is open."""
        return self._test.log_ratio(self.failures, self.turns) if self._test else None

    @property
    def interval(self) -> Interval:
        """The arm's rate, but for alpha, however often one looks."""
        return anytime_rate(self.failures, self.turns, self._decide.alpha)

    @property
    def _test(self) -> RateTest | None:
        rates = self._rates
        if rates.good is None or rates.bad is None:
            return None
        return RateTest(
            rates.good, rates.bad, self._decide.alpha, self._decide.beta, rates.likely_good, rates.likely_bad
        )

    def _count(self) -> Decision | None:
        """Count what has ended up to the first turn still in flight."""
        while self.decision is None and self._waiting:
            key, failed = next(iter(self._waiting.items()))
            if failed is None:
                return None
            del self._waiting[key]
            self.turns += 1
            self.failures += failed
            outcome = self._outcome()
            if outcome is not None:
                self.decision = Decision(outcome, "+".join(self._decide.classes), self._sentence(outcome))
                return self.decision
        return None

    def _outcome(self) -> RateOutcome | None:
        outcome: RateOutcome | None = None
        rate = self.failures / self.turns
        if self._test:
            outcome = self._test.said(self.failures, self.turns)
        elif self._rates.bad is not None:
            outcome = self._against(self._rates.bad, rate)
        elif self.failures and self._surely_not(rate / SURELY):
            outcome = "measured"
        return None if outcome == "good" and self.turns < self._rates.min_turns else outcome

    def _against(self, bad: float, rate: float) -> RateOutcome | None:
        """Return good for an arm surely below half of the bad rate, bad for one surely above it."""
        if rate < bad / SURELY and self._surely_not(bad / SURELY):
            return "good"
        return "bad" if rate > bad and self._surely_not(bad) else None

    def _surely_not(self, rate: float) -> bool:
        return anytime_excludes(rate, self.failures, self.turns, self._decide.alpha)

    def _sentence(self, outcome: RateOutcome) -> str:
        counts = f"{self.failures} of {self.turns:,} turns failed"
        if self.log_ratio is not None:
            return f"decided, {outcome}: {counts}; {odds(self.log_ratio)}"
        limits = self.interval
        return f"decided, {outcome}: {counts}, a rate of {percent(limits.low)} to {percent(limits.high)}"


def odds(log_ratio: float) -> str:
    """Return a likelihood ratio in words: so many times likelier if bad, or if good."""
    factor = math.exp(min(abs(log_ratio), _LOG_MAX))
    shown = f"{factor:,.0f}" if 10 <= factor < 1e6 else two_digits(factor)
    return f"{shown} times likelier if it is {'bad' if log_ratio > 0 else 'good'}"
