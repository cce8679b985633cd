"""
Good or bad? A sequential test of one failure rate between two stated ones.

After x failures in n turns the evidence that it is bad is (q/p₀)ˣ·((1 − q)/(1 − p₀))ⁿ⁻ˣ, where p₀ is the rate of a
good build and q ≥ p₀ the rate that a bad one is likely to have; *bad* is said at 1/alpha. If each turn fails with a
chance of at most p₀ whatever went before, this is a supermartingale, so that it ever reaches 1/alpha with a chance of
at most alpha (Ville 1939), whatever q is. Likewise *good*, with the rate p₁ of a bad build and what a good one is
likely to have, at 1/beta. Where q is p₁, and the other p₀, both are one likelihood ratio, and this is Wald's test
(Ann. Math. Stat. 16 (1945) 117) with bounds a little further out. For rates in between nothing is promised, and it
takes longest.
"""

import math
from typing import Literal, NamedTuple

Said = Literal["good", "bad"]


class RateTest(NamedTuple):
    """
    The test: rates 0 < `good` < `bad` < 1, and the chances `alpha` to call a good one bad, `beta` a bad one good.

    `likely_good` ≤ `good` and `likely_bad` ≥ `bad` decide how soon it speaks and not how often it errs; default: the
    rates themselves.
    """

    good: float
    bad: float
    alpha: float
    beta: float
    likely_good: float | None = None
    likely_bad: float | None = None

    def log_ratio(self, failures: int, turns: int) -> float:
        """Return the greater evidence as a logarithm: above 0 it speaks for bad, below 0 for good."""
        bad, good = (_evidence(*self._of(which), failures, turns) for which in ("bad", "good"))
        return bad if bad >= good else -good

    def said(self, failures: int, turns: int) -> Said | None:
        """Return what is decided after so many turns; None: go on."""
        if _evidence(*self._of("bad"), failures, turns) >= -math.log(self.alpha):
            return "bad"
        return "good" if _evidence(*self._of("good"), failures, turns) >= -math.log(self.beta) else None

    def turns_expected(self, which: Said) -> float:
        """Return about how many turns a build of exactly the likely rate takes (Wald's first approximation)."""
        likely, rate = self._of(which)
        goal = -math.log(self.alpha if which == "bad" else self.beta)
        return goal / _evidence(likely, rate, likely, 1)

    def _of(self, which: str) -> tuple[float, float]:
        """Return the rate such a build is likely to have, and the rate it is told from."""
        if which == "bad":
            return self.likely_bad or self.bad, self.good
        return self.likely_good or self.good, self.bad


def _evidence(likely: float, rate: float, failures: float, turns: float) -> float:
    """Return the logarithm of the likelihood at the likely rate over that at `rate`."""
    return failures * math.log(likely / rate) + (turns - failures) * (math.log1p(-likely) - math.log1p(-rate))
