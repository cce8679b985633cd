"""
Which recorded result a live call gets.

A recorded call fits if it is of the same tool and its arguments are at least `live.match` alike (`classify.likeness`;
the default 0.9 is measured in ops/decisions/0011). Of those that fit:

1. each recorded call is used once; one that was used fits again only for the identical call;
2. the most alike wins, where one before the position reached counts 0.05 less: the record goes on from there;
3. of equals the nearest to the position wins, of used ones the last used: its result is the latest state told.

A call that fits none gets a recorded result of a call of that tool that failed (from any episode of the corpus), else a
neutral sentence; always the same for the same call, so that a model that insists is seen to loop.
"""

import hashlib
from collections import Counter
from collections.abc import Sequence
from typing import Literal, NamedTuple

from soak.classify import call_text, likeness
from soak.facts import ToolCall, clean
from soak.replay.script import Failures, RecordedCall, Script

BEHIND = 0.05
"""What a recorded call before the position reached has to be more alike than one after it."""

How = Literal["exact", "near", "repeated", "unmatched_recorded", "unmatched_neutral"]


class Matched(NamedTuple):
    """What a live call gets, how that was found, and the recorded call it is from (None for an unmatched call)."""

    result: str
    how: How
    recorded: RecordedCall | None = None


class Matcher:
    """
    Matches the calls of one live conversation, in order.

    `position` is the place of the first recorded call after the furthest one matched; it never goes back. `counts`:
    how often each kind of match occurred.
    """

    def __init__(self, script: Script, failures: Failures, threshold: float) -> None:
        self._script = script
        self._failures = failures
        self._threshold = threshold
        self._used: dict[int, int] = {}
        self._given: dict[tuple[str, str], RecordedCall] = {}
        self._uses = 0
        self._likeness: dict[tuple[str, str], float] = {}
        self.position = 0
        self.counts: Counter[How] = Counter()

    def answer(self, calls: Sequence[ToolCall]) -> list[Matched]:
        """Return what the calls of one turn get, in their order."""
        found = [self._match(call) for call in calls]
        for matched in found:
            self.counts[matched.how] += 1
            if matched.recorded is not None:
                self.position = max(self.position, matched.recorded.place + 1)
        return found

    def go_on_after(self, turn: int) -> None:
        """Move the position behind a recorded turn, unless it is there already."""
        behind = sum(recorded.turn <= turn for recorded in self._script.calls)
        self.position = max(self.position, behind)

    def _match(self, call: ToolCall) -> Matched:
        text = call_text(call)
        same_tool = [recorded for recorded in self._script.calls if recorded.name == call.name]
        fresh = [recorded for recorded in same_tool if recorded.place not in self._used]
        ahead = [recorded for recorded in fresh if recorded.text == text and recorded.place >= self.position]
        fitting = [(self._alike(text, recorded.text), recorded) for recorded in ahead or fresh]  # no other would win
        fitting = [(alike, recorded) for alike, recorded in fitting if alike >= self._threshold]
        if fitting:
            alike, best = max(fitting, key=self._preference)
            return self._use(best, text, "exact" if alike == 1.0 else "near")
        used = [self._given[call.name, text]] if (call.name, text) in self._given else []
        used += [recorded for recorded in same_tool if recorded.text == text]
        if used:
            return self._use(max(used, key=lambda recorded: self._used[recorded.place]), text, "repeated")
        number = int.from_bytes(hashlib.sha256(clean(f"{call.name}\n{text}").encode()).digest()[:8], "big")
        result, recorded_failure = self._failures.result_for(call.name, number)
        return Matched(result, "unmatched_recorded" if recorded_failure else "unmatched_neutral")

    def _use(self, recorded: RecordedCall, text: str, how: How) -> Matched:
        self._uses += 1
        self._used[recorded.place] = self._uses
        self._given[recorded.name, text] = recorded
        return Matched(recorded.result, how, recorded)

    def _preference(self, candidate: tuple[float, RecordedCall]) -> tuple[float, int]:
        alike, recorded = candidate
        ahead = recorded.place - self.position
        return (alike if ahead >= 0 else alike - BEHIND, -abs(ahead))

    def _alike(self, text: str, recorded: str) -> float:
        known = self._likeness.get((text, recorded))
        if known is None:
            known = self._likeness[text, recorded] = likeness(text, recorded, at_least=self._threshold)
        return known
