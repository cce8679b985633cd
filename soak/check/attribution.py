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

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from soak.check.engine import Movement, movements
from soak.facts import Attributed, EngineSample

SHARED = ("drafts", "draft_tokens", "accepted_tokens", "prefix_queries", "prefix_hits")
"""The counters that are shared out, by their place among a share's amounts; accepted tokens by position come behind."""

_LEAST_OVERLAP_S = 1e-9  # of a turn that took no time at all, and still was there


class Span(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """
    A turn's time in flight, UTC epoch seconds; `requests` are those it sent.

    `answered`: it came to its end by itself (so a restart that came after its end was no matter to it).
    """

    begin: float
    end: float
    requests: int = 1
    answered: bool = True


class _Window(NamedTuple):
    """From one reading to the next: what moved in it (NaN: not measured) and who could have been there."""

    begin: float
    end: float
    since: float
    until: float
    amounts: tuple[float, ...]
    preemptions: float
    corrupted: float
    ended: float
    restarted: bool
    process_start_at: float | None


class Share(msgspec.Struct, gc=False):
    """
    What fell to one turn; NaN where the engine does not count it.

    `amounts` are shared out, in the order of `SHARED`, then accepted tokens by position. `preemptions` and `corrupted`
    are not: they are all that came up in the windows the turn touches, of corrupted requests only where it ended, for
    they are counted as they end. `windows` that it touches, from reading `since` to reading `until`; `others` is the
    greatest number of other turns in one of them; `ended` requests of whomever, `broken` where a restart lies among
    them; `restarts` of the engine while the turn was in flight.
    """

    span: Span
    windows: int = 0
    others: int = 0
    restarts: int = 0
    amounts: list[float] = []
    preemptions: float = 0.0
    corrupted: float = 0.0
    ended: float = 0.0
    broken: bool = False
    since: float = math.inf
    until: float = -math.inf

    @property
    def attributed(self) -> Attributed | None:
        """
        Whether the amounts are the turn's own; None if no two readings have it between them.

        More requests ended than it had sent: somebody else was there. A restart: the last moments of the process that
        went away were never read.
        """
        if not self.windows or self.since > self.span.begin or self.until < self.span.end:
            return None
        own = not self.others and not self.broken and self.ended <= self.span.requests
        return "alone" if own else "overlap"

    def take(self, window: _Window, part: float, others: int) -> None:
        """Take `part` of what moved in a window that was shared with `others`."""
        if not self.windows:
            self.amounts = [part * moved for moved in window.amounts]
        else:
            self.amounts = [had + part * moved for had, moved in zip(self.amounts, window.amounts, strict=True)]
        self.windows += 1
        self.preemptions += window.preemptions
        if window.begin < self.span.end <= window.end:
            self.corrupted += window.corrupted
        self.ended += window.ended
        if others > self.others:
            self.others = others
        if window.restarted:
            self.broken = True
            self.restarts += _hit(self.span, window)
        self.since = min(self.since, window.since)
        self.until = max(self.until, window.until)


def attribute(samples: Sequence[EngineSample], spans: Sequence[Span]) -> list[Share]:
    """
    Return what fell to each of `spans`: the turns in flight on one server, whose page was read as `samples` (in order).

    Spans without a window keep an empty share. All turns that were sent to the server belong into `spans`, also those
    that came to nothing: their time makes others less than alone.
    """
    shares = [Share(span) for span in spans]
    waiting = sorted(shares, key=lambda share: share.span.begin, reverse=True)
    active: list[Share] = []
    for window in _windows(samples):
        while waiting and waiting[-1].span.begin < window.end:
            active.append(waiting.pop())
        active = [share for share in active if share.span.end > window.begin]
        _share_out(window, active)
    return shares


def _share_out(window: _Window, active: Sequence[Share]) -> None:
    begin, end = window.begin, window.end
    times = [max(min(share.span.end, end) - max(share.span.begin, begin), _LEAST_OVERLAP_S) for share in active]
    total = sum(times)
    for share, time in zip(active, times, strict=True):
        share.take(window, time / total, len(active) - 1)


def _windows(samples: Sequence[EngineSample]) -> Iterator[_Window]:
    depth = max((len(sample.accepted_per_position or ()) for sample in samples), default=0)
    wanted = (*((name, None) for name in SHARED), *(("position", place) for place in range(depth)))
    for movement in movements(samples):
        before, after, moved = movement.before, movement.after, movement.moved
        yield _Window(
            begin=_asked(before),
            end=after.at,
            since=before.at,
            until=_asked(after),
            amounts=tuple(moved.get(counter, math.nan) for counter in wanted),
            preemptions=moved.get(("preemptions", None), math.nan),
            corrupted=moved.get(("corrupted", None), math.nan),
            ended=_requests_ended(movement),
            restarted=movement.restarted,
            process_start_at=after.process_start_at,
        )


def _requests_ended(movement: Movement) -> float:
    return sum(moved for (family, _), moved in movement.moved.items() if family == "success")


def _asked(sample: EngineSample) -> float:
    """Return when the page was asked for; histories of earlier versions do not say, and pages come at once."""
    return sample.at if sample.asked_at is None else sample.asked_at


def _hit(span: Span, window: _Window) -> bool:
    """Return whether a restart in the window befell the turn: it began before, and ended after or was broken off."""
    started_at = window.process_start_at
    if started_at is None:
        return True
    return span.begin < started_at and (span.end > started_at or not span.answered)
