"""Stretches of time in which a counter of the engine stood still, and what the turns did in them."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from soak.check.turns import TurnFact
from soak.facts import EngineSample


class Stretch(NamedTuple):
    """A time from one reading of a metrics page to a later one, in UTC epoch seconds."""

    begin: float
    end: float

    @property
    def length_s(self) -> float:
        """Return how long it is, in seconds."""
        return self.end - self.begin


def stretches(samples: Iterable[EngineSample], counter: Callable[[EngineSample], float | None]) -> Iterator[Stretch]:
    """
    Yield each stretch, as long as it goes, between whose readings (oldest first) the counter did not move.

    Readings without the counter say nothing and are passed over. A changed process ends a stretch, for what the old
    process did between its last reading and its end is not known.
    """
    begin = end = 0.0
    last: tuple[float, float | None] | None = None
    for sample in samples:
        value = counter(sample)
        if value is None:
            continue
        now = (value, sample.process_start_at)
        if now != last:
            if end > begin:
                yield Stretch(begin, end)
            begin = sample.at
        last, end = now, sample.at
    if end > begin:
        yield Stretch(begin, end)


class Timeline:
    """Turns whose begin and end are known, to be asked for those that lie wholly within a stretch."""

    def __init__(self, turns: Iterable[TurnFact]) -> None:
        placed = [(turn.started_at + turn.turn_s, turn) for turn in turns if turn.turn_s is not None]
        placed.sort(key=lambda item: item[0])
        self._ends = [end for end, _ in placed]
        self._turns = [turn for _, turn in placed]

    def within(self, stretch: Stretch) -> Sequence[TurnFact]:
        """Return the turns that began and ended in the stretch: all that they generated was generated in it."""
        ended = self._turns[bisect_left(self._ends, stretch.begin) : bisect_right(self._ends, stretch.end)]
        return [turn for turn in ended if turn.started_at >= stretch.begin]
