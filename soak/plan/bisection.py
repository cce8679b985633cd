"""
Which build to test next: halve between the last good and the first bad one, and go round those that told nothing.

Builds are numbered from the good end (0) to the bad end. A fault appears at one of them and stays; decisions are taken
as they are, for each has its stated error rate.
"""

import math
from collections.abc import Mapping
from typing import Literal, NamedTuple

Told = Literal["good", "bad", "nothing"]


class Search(NamedTuple):
    """`good` is the last build known to be good, `bad` the first known to be bad; `next` is tested next, if any."""

    good: int
    bad: int
    next: int | None

    @property
    def suspects(self) -> range:
        """The builds of which one is the first bad one; `bad` alone if it is found."""
        return range(self.good + 1, self.bad + 1)

    @property
    def steps_left(self) -> int:
        """Steps left at most if none tells nothing: log2 of the suspects, rounded up."""
        return math.ceil(math.log2(self.bad - self.good))


def search(count: int, told: Mapping[int, Told]) -> Search:
    """
    Return how far the search has come among `count` builds, the ends taken as good and bad.

    `told`: what came out of those tested. Next is the one nearest to the middle that was not tested yet; where all in
    between told nothing there is none.
    """
    if count < 2:
        raise ValueError("there are at least two builds: a good and a bad one")
    bad = min((index for index, what in told.items() if what == "bad"), default=count - 1)
    good = max((index for index, what in told.items() if what == "good" and index < bad), default=0)
    middle = (good + bad) / 2
    left = [index for index in range(good + 1, bad) if index not in told]
    return Search(good, bad, min(left, key=lambda index: abs(index - middle), default=None))
