"""What a transcript tells a live conversation: how it opens, what was called and answered when, what its user said."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

from soak.classify import call_text
from soak.facts import Episode, Message, Node, ToolCall, Turn, text_of

NEUTRAL_FAILURE = "Error: the command failed."
"""What an unmatched call gets where no failed call of its tool is recorded."""

_FAILURE = re.compile(
    r"\A\s*(?:error|fatal|traceback|usage:|invalid|unknown)|\[exit code: [1-9]|<returncode>[1-9]|exit code [1-9]"
    r"|no such file or directory|command not found|permission denied",
    re.IGNORECASE,
)
_FAILURE_MAX_CHARS = 600


class RecordedCall(NamedTuple):
    """A call of the transcript: its place among all calls, its turn, what is compared of it, and its result."""

    place: int
    turn: int
    name: str
    text: str
    result: str


class Remark(NamedTuple):
    """What was said besides results between turn `turn` and the next: a user's messages, mostly."""

    turn: int
    messages: tuple[Message, ...]


@dataclass(frozen=True)
class Script:
    """One transcript, read as a script. Everything is in the order of the record."""

    episode: Episode

    @cached_property
    def opening(self) -> tuple[Node, ...]:
        """What the model sees first: the prefix of the first turn."""
        return self.episode.chain(self.episode.turns[0])

    @cached_property
    def calls(self) -> tuple[RecordedCall, ...]:
        """All recorded calls that have a result, or that end the record."""
        results = _results(self.episode)
        last = len(self.episode.turns) - 1
        found: list[RecordedCall] = []
        for turn in self.episode.turns:
            for call in _calls_of(self.episode, turn):
                result = results.get((turn.answer or 0, call.id))
                if result is not None or turn.index == last:
                    text = result if result is not None else ""
                    found.append(RecordedCall(len(found), turn.index, call.name, call_text(call), text))
        return tuple(found)

    @cached_property
    def remarks(self) -> tuple[Remark, ...]:
        """What the user said after each turn, turns without a word left out."""
        turns = self.episode.turns
        pairs = ((turn, _between(self.episode, turn, after)) for turn, after in pairwise(turns))
        return tuple(Remark(turn.index, said) for turn, said in pairs if said)

    @property
    def last_turn(self) -> int:
        """The index of the last recorded turn."""
        return len(self.episode.turns) - 1

    def ends_with(self, call: RecordedCall) -> bool:
        """Whether the record is over once this call is made: it belongs to the last recorded turn."""
        return call.turn == self.last_turn


class Failures:
    """The recorded results of calls that failed, by tool: what a call that matches nothing may plausibly get."""

    def __init__(self, scripts: Iterable[Script]) -> None:
        found: dict[str, dict[str, None]] = {}
        for script in scripts:
            for call in script.calls:
                if len(call.result) <= _FAILURE_MAX_CHARS and _FAILURE.search(call.result):
                    found.setdefault(call.name, {})[call.result] = None
        self._by_tool: Mapping[str, tuple[str, ...]] = {name: tuple(results) for name, results in found.items()}

    def result_for(self, name: str, number: int) -> tuple[str, bool]:
        """
        Return the result of a call of the tool `name` that failed, and whether it is a recorded one.

        `number` chooses among several: the same number, the same result.
        """
        recorded = self._by_tool.get(name, ())
        return (recorded[number % len(recorded)], True) if recorded else (NEUTRAL_FAILURE, False)


def _calls_of(episode: Episode, turn: Turn) -> tuple[ToolCall, ...]:
    answer = episode.answer(turn)
    return () if answer is None else answer.tool_calls


def _results(episode: Episode) -> dict[tuple[int, str], str]:
    """Return each result by the node of the answer that called for it and the call's id."""
    results: dict[tuple[int, str], str] = {}
    for node in episode.nodes:
        if node.message.role == "tool" and node.message.tool_call_id is not None:
            at = node.parent
            while at is not None and episode.nodes[at].message.role != "assistant":
                at = episode.nodes[at].parent
            if at is not None:
                results.setdefault((at, node.message.tool_call_id), text_of(node.message.content))
    return results


def _between(episode: Episode, turn: Turn, after: Turn) -> tuple[Message, ...]:
    """Return what a person or the harness said between two turns; nothing if the second does not follow the first."""
    ends = {turn.prefix, turn.answer}
    said: list[Message] = []
    at: int | None = after.prefix
    while at is not None and at not in ends:
        if episode.nodes[at].message.role not in ("assistant", "tool"):
            said.append(episode.nodes[at].message)
        at = episode.nodes[at].parent
    return tuple(reversed(said)) if at is not None else ()
