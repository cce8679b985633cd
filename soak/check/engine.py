"""
What an engine did over a span: differences of its counters, aware of restarts.

Counters only grow while a process lives and begin at 0 in the next one. A changed process start, or any counter that
falls, is a restart: what was counted up to the last reading before it is kept, and the new process counts from 0.
What the old process did between its last reading and its end is not known and not guessed.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from soak.facts import EngineSample

_PLAIN = (
    "drafts",
    "draft_tokens",
    "accepted_tokens",
    "prefix_queries",
    "prefix_hits",
    "prompt_tokens",
    "generation_tokens",
    "preemptions",
    "corrupted",
)
_FIELDS = (*_PLAIN, "accepted_per_position", "success")
Counter = tuple[str, str | int | None]
"""One counter: its field of `EngineSample`, and the member of it (a finish reason, a position) where it is a family."""


class EngineDelta(msgspec.Struct, frozen=True, kw_only=True):
    """
    How far each counter moved over the `samples` readings of one arm, `restarts` of the engine between them included.

    A field is None where no movement could be measured: the engine does not export it, or it was read less than
    twice in the life of a process. Tokens are tokens, `success` maps finish reason to requests, and
    `accepted_per_position[i]` counts accepted draft tokens at position i.
    """

    drafts: float | None = None
    draft_tokens: float | None = None
    accepted_tokens: float | None = None
    accepted_per_position: tuple[float, ...] | None = None
    prefix_queries: float | None = None
    prefix_hits: float | None = None
    prompt_tokens: float | None = None
    generation_tokens: float | None = None
    preemptions: float | None = None
    corrupted: float | None = None
    success: dict[str, float] | None = None
    restarts: int = 0
    samples: int = 0


def deltas(samples: Iterable[EngineSample]) -> EngineDelta:
    """Return the movement of every counter over `samples`: readings of one arm in the order they were taken."""
    meter = _Meter()
    for sample in samples:
        meter.read(sample)
    return meter.delta()


class Movement(NamedTuple):
    """What happened from one reading to the next: how far each counter moved, and whether the engine was restarted."""

    before: EngineSample
    after: EngineSample
    moved: dict[Counter, float]
    restarted: bool


def movements(samples: Iterable[EngineSample]) -> Iterator[Movement]:
    """
    Yield what happened from each reading to the next, as `deltas` counts it: over all of them it adds up to that.

    A reading that lacks a counter which the one before it had in the same process is passed over: what moved would be
    told by a later one, too late.
    """
    meter, before = _Meter(), None
    for sample in samples:
        if before is not None and _lacks(sample, before):
            continue
        moved, restarted = meter.read(sample)
        if before is not None:
            yield Movement(before, sample, moved, restarted)
        before = sample


def _lacks(sample: EngineSample, before: EngineSample) -> bool:
    same = sample.process_start_at in (None, before.process_start_at)
    return same and any(getattr(sample, name) is None and getattr(before, name) is not None for name in _FIELDS)


class _Meter:
    """Adds up the pieces, reading by reading."""

    def __init__(self) -> None:
        self._samples = 0
        self._restarts = 0
        self._process_start_at: float | None = None
        self._families: set[str] = set()  # read in this process already: a member that is new in them began at 0
        self._last: dict[Counter, float] = {}
        self._moved: dict[Counter, float] = {}

    def read(self, sample: EngineSample) -> tuple[dict[Counter, float], bool]:
        """Take one reading; return how far each counter moved with it, and whether the engine was restarted before."""
        now, moved = _counters(sample), {}
        restarted = self._restarted(sample, now)
        if restarted:
            self._restarts += 1
            self._last = {}
        born_now = self._restarts > 0
        for counter, value in now.items():
            known = self._last.get(counter)
            if known is None and (born_now or counter[0] in self._families):
                known = 0.0
            if known is not None:
                moved[counter] = value - known
                self._moved[counter] = self._moved.get(counter, 0.0) + value - known
            self._last[counter] = value
        self._families |= {family for family, member in now if member is not None}
        self._process_start_at = sample.process_start_at or self._process_start_at
        self._samples += 1
        return moved, restarted

    def _restarted(self, sample: EngineSample, now: Mapping[Counter, float]) -> bool:
        if self._samples == 0:
            return False
        start_at = sample.process_start_at
        if start_at is not None and self._process_start_at is not None and start_at != self._process_start_at:
            return True
        return any(value < self._last.get(counter, 0.0) for counter, value in now.items())

    def delta(self) -> EngineDelta:
        success = {str(reason): moved for (family, reason), moved in self._moved.items() if family == "success"}
        positions = {position: moved for (family, position), moved in self._moved.items() if family == "position"}
        return EngineDelta(
            **{name: self._moved.get((name, None)) for name in _PLAIN},
            success=success or None,
            accepted_per_position=tuple(positions.get(i, 0.0) for i in range(len(positions))) or None,
            restarts=self._restarts,
            samples=self._samples,
        )


def _counters(sample: EngineSample) -> dict[Counter, float]:
    """All counters the sample holds, those of a family (success, positions) one by one."""
    found: dict[Counter, float] = {}
    for name in _PLAIN:
        value = getattr(sample, name)
        if value is not None:
            found[(name, None)] = value
    for position, value in enumerate(sample.accepted_per_position or ()):
        found[("position", position)] = value
    for reason, value in (sample.success or {}).items():
        found[("success", reason)] = value
    return found
