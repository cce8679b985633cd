"""
Whose the movement of an engine's counters is.

Readings of a metrics page cut the time into windows. What moved in a window belongs to the turns that were in flight in
it, and is shared out by the seconds that each of them was: all of it to a turn that was alone. A turn that was alone in
every window it touches, with a reading before and one after it, thus gets exactly what moved between these two; more
readings in between change nothing. The shares of a window never add up to more than what moved in it, and what moved
while nothing of ours was in flight is nobody's.

A page tells of a moment between the asking and the answer. A window therefore reaches from the asking of its first
reading to the answer of its last, and a turn that ended while a page was on its way touches the windows on both sides.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from soak.check.engine import Counter, Movement, movements
from soak.facts import Attributed, EngineSample

_LEAST_OVERLAP_S = 1e-9  # of a turn that took no time at all, and still was there


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """
    A turn's time in flight, UTC epoch seconds; `requests` are those it sent.

    `answered`: it came to its end by itself (so a restart that came after its end was no matter to it).
    """

    begin: float
    end: float
    requests: int = 1
    answered: bool = True


@dataclass(slots=True)
class Share:
    """
    What fell to one turn. `moved` is shared out; `seen` is not: all that moved in the windows the turn touches, of
    corrupted requests only where it ended, for they are counted as they end.

    `windows` that it touches; `others` is the greatest number of other turns in one of them; `restarts` of the engine
    while it was in flight.
    """

    span: Span
    windows: int = 0
    others: int = 0
    restarts: int = 0
    broken: bool = False
    moved: dict[Counter, float] = field(default_factory=lambda: defaultdict(float))
    seen: dict[Counter, float] = field(default_factory=lambda: defaultdict(float))
    _since: float = float("inf")
    _until: float = float("-inf")

    @property
    def attributed(self) -> Attributed | None:
        """
        Whether the amounts are the turn's own; None if no two readings have it between them.

        More requests ended than it had sent: somebody else was there. A restart: the last moments of the process that
        went away were never read.
        """
        if not self.windows or self._since > self.span.begin or self._until < self.span.end:
            return None
        ended = [moved for (family, _), moved in self.moved.items() if family == "success"]
        own = not self.others and not self.broken and sum(ended) <= self.span.requests
        return "alone" if own else "overlap"

    def take(self, window: Movement, part: float, others: int) -> None:
        """Take `part` of what moved in a window that was shared with `others`."""
        self.windows += 1
        self.others = max(self.others, others)
        self.broken = self.broken or window.restarted
        self.restarts += window.restarted and _hit(self.span, window)
        self._since = min(self._since, window.before.at)
        self._until = max(self._until, _asked(window.after))
        ended_here = self.span.end > _asked(window.before) and self.span.end <= window.after.at
        for counter, moved in window.moved.items():
            self.moved[counter] += part * moved
            if counter[0] == "preemptions" or (counter[0] == "corrupted" and ended_here):
                self.seen[counter] += moved


def attribute(samples: Iterable[EngineSample], spans: Sequence[Span]) -> list[Share]:
    """
    Return what fell to each of `spans`: the turns in flight on one server, whose page was read as `samples` (in order).

    Spans without a window keep an empty share. All turns that were sent to the server belong into `spans`, also those
    that came to nothing: their time makes others less than alone.
    """
    shares = [Share(span) for span in spans]
    waiting = sorted(shares, key=lambda share: share.span.begin, reverse=True)
    active: list[Share] = []
    for window in movements(samples):
        begin, end = _asked(window.before), window.after.at
        while waiting and waiting[-1].span.begin < end:
            active.append(waiting.pop())
        active = [share for share in active if share.span.end > begin]
        _share_out(window, active, begin, end)
    return shares


def _share_out(window: Movement, active: Sequence[Share], begin: float, end: float) -> None:
    times = [max(min(share.span.end, end) - max(share.span.begin, begin), _LEAST_OVERLAP_S) for share in active]
    total = sum(times)
    for share, time in zip(active, times, strict=True):
        share.take(window, time / total, len(active) - 1)


def _asked(sample: EngineSample) -> float:
    """Return when the page was asked for; histories of earlier versions do not say, and pages come at once."""
    return sample.at if sample.asked_at is None else sample.asked_at


def _hit(span: Span, window: Movement) -> bool:
    """Return whether a restart in the window befell the turn: it began before, and ended after or was broken off."""
    started_at = window.after.process_start_at
    if started_at is None:
        return True
    return span.begin < started_at and (span.end > started_at or not span.answered)
