"""
What an engine did over a span: differences of its counters, aware of restarts.

Counters only grow while a process lives and begin at 0 in the next one. A changed process start, or any counter that
falls, is a restart: what was counted up to the last reading before it is kept, and the new process counts from 0.
What the old process did between its last reading and its end is not known and not guessed.
"""

from collections.abc import Iterable, Mapping

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
)
_Counter = tuple[str, str | int | None]


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
    success: dict[str, float] | None = None
    restarts: int = 0
    samples: int = 0


def deltas(samples: Iterable[EngineSample]) -> EngineDelta:
    """Return the movement of every counter over `samples`: readings of one arm in the order they were taken."""
    meter = _Meter()
    for sample in samples:
        meter.read(sample)
    return meter.delta()


class _Meter:
    """Adds up the pieces, reading by reading."""

    def __init__(self) -> None:
        self._samples = 0
        self._restarts = 0
        self._process_start_at: float | None = None
        self._families: set[str] = set()  # read in this process already: a member that is new in them began at 0
        self._last: dict[_Counter, float] = {}
        self._moved: dict[_Counter, float] = {}

    def read(self, sample: EngineSample) -> None:
        now = _counters(sample)
        if self._restarted(sample, now):
            self._restarts += 1
            self._last = {}
        born_now = self._restarts > 0
        for counter, value in now.items():
            known = self._last.get(counter)
            if known is None and (born_now or counter[0] in self._families):
                known = 0.0
            if known is not None:
                self._moved[counter] = self._moved.get(counter, 0.0) + value - known
            self._last[counter] = value
        self._families |= {family for family, member in now if member is not None}
        self._process_start_at = sample.process_start_at or self._process_start_at
        self._samples += 1

    def _restarted(self, sample: EngineSample, now: Mapping[_Counter, float]) -> bool:
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


def _counters(sample: EngineSample) -> dict[_Counter, float]:
    """All counters the sample holds, those of a family (success, positions) one by one."""
    found: dict[_Counter, float] = {}
    for name in _PLAIN:
        value = getattr(sample, name)
        if value is not None:
            found[(name, None)] = value
    for position, value in enumerate(sample.accepted_per_position or ()):
        found[("position", position)] = value
    for reason, value in (sample.success or {}).items():
        found[("success", reason)] = value
    return found
