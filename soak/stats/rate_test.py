"""
Good or bad? A sequential test of one failure rate between two stated ones.

After x failures in n turns the likelihood ratio is (p₁/p₀)ˣ·((1 − p₁)/(1 − p₀))ⁿ⁻ˣ, p₀ the rate of a good build and p₁
that of a bad one. *Bad* is said at 1/alpha, *good* at beta (Wald, Ann. Math. Stat. 16 (1945) 117; his bounds are a
little nearer, these hold for any way of stopping). If each turn fails with a chance of at most p₀ whatever went before,
the ratio is a supermartingale, so that it ever reaches 1/alpha with a chance of at most alpha (Ville 1939); if with at
least p₁, so is its inverse, and beta bounds the other mistake. In between nothing is promised, and it takes longest.
"""

import math
from typing import Literal, NamedTuple

from scipy import special

Said = Literal["good", "bad"]


class RateTest(NamedTuple):
    """The test: rates 0 < `good` < `bad` < 1, and the chances `alpha` to call a good one bad, `beta` a bad one good."""

    good: float
    bad: float
    alpha: float
    beta: float

    def log_ratio(self, failures: int, turns: int) -> float:
        """Return the natural logarithm of the likelihood ratio, bad to good."""
        return failures * self._failure + (turns - failures) * self._success

    def said(self, failures: int, turns: int) -> Said | None:
        """Return what is decided after so many turns; None: go on."""
        ratio = self.log_ratio(failures, turns)
        if ratio >= -math.log(self.alpha):
            return "bad"
        return "good" if ratio <= math.log(self.beta) else None

    def turns_expected(self, which: Said) -> float:
        """Return about how many turns a build of exactly that rate takes (Wald's first approximation)."""
        rate, goal = (self.bad, -math.log(self.alpha)) if which == "bad" else (self.good, math.log(self.beta))
        return goal / (rate * self._failure + (1 - rate) * self._success)

    @property
    def _failure(self) -> float:
        return math.log(self.bad / self.good)

    @property
    def _success(self) -> float:
        return float(special.log1p(-self.bad) - special.log1p(-self.good))
