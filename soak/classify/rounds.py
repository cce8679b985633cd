"""
Loops across turns: the same call with the same result again and again, while each turn alone is in order.

A round is one turn's answer with what came back for it. Its steps are its calls, each with its result, or, if it made
no call, its text. Two steps are the same if tool, arguments and result are (times, dates and addresses in a result
aside); nearly the same if the results are and the arguments are at least 0.9 alike (`likeness.py`). A loop is a
stretch of steps that repeats with one period:

    equal steps          four copies of one step, three of a period of 2 to 12 steps
    nearly equal steps   two copies more
    with other steps in between (each seen less than three times, at most a fifth of the stretch)
                         two copies more
    answers without call three copies from 40 characters on, else five

and it must span three turns. What is new breaks it: tests run again after an edit come with another result or after
other work, a file read page by page has other arguments. False alarms: README.md beside this file.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Literal, NamedTuple

from soak.classify.likeness import call_text, likeness
from soak.classify.textcalls import calls_in_text
from soak.facts import ConversationLoop, Message, ToolCall, clean, text_of

NEARLY = 0.9
PERIOD_MAX = 12
_STEPS_MAX = 4_096
_CALLS_MAX = 256
_COMPARED_MAX = 32
_LOOPS_MAX = 8
_EXCERPT_CHARS = 200
_RESULT_CHARS = 200_000
_SHORT_CHARS = 40
_SPANNED_TURNS = 3
_LEAST_COPIES = 3
_ODD_SHARE = 0.2
_VOLATILE = re.compile(
    r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?)?|\b\d{1,2}:\d\d(?::\d\d(?:\.\d+)?)?\b|0x[0-9a-fA-F]{4,}"
    r"|\b\d+(?:\.\d+)? ?(?:ms|us|s|sec|secs|seconds)\b"
)

Kind = Literal["same_calls", "near_calls", "same_answer"]


class Round(NamedTuple):
    """One turn of a conversation: its index, its calls with their results (one each, in order), and its text."""

    turn: int
    calls: tuple[ToolCall, ...]
    results: tuple[str, ...]
    said: str


class _Step(NamedTuple):
    """`same` and `near` number equal and nearly equal steps; so many copies of it alone as `need` says are a loop."""

    turn: int
    same: int
    near: int
    need: int
    unit: str
    called: bool


class _Stretch(NamedTuple):
    first: int
    last: int
    period: int
    copies: float


class RoundWatch:
    """Takes the rounds of one conversation as they come; what it says depends on the rounds alone."""

    def __init__(self) -> None:
        self._steps: list[_Step] = []
        self._same: dict[tuple[str, str, str], int] = {}
        self._near: list[tuple[str, str, str, int]] = []
        self._near_of: dict[int, int] = {}

    def add(self, round_: Round) -> None:
        """Take the next round; of its calls the first 256."""
        if not round_.calls:
            self._put(round_.turn, "", " ".join(round_.said.split()), "")
        for call, result in islice(zip(round_.calls, round_.results, strict=True), _CALLS_MAX):
            self._put(round_.turn, call.name, call_text(call), _fingerprint(result))
        del self._steps[:-_STEPS_MAX]

    def loops(self) -> tuple[ConversationLoop, ...]:
        """Return the loops among all rounds so far, first one first, at most eight."""
        steps = self._steps
        found: list[tuple[_Stretch, bool]] = []
        for near, more in ((False, 0), (True, 2)):
            ids = [step.near if near else step.same for step in steps]
            whole = list(range(len(ids)))
            frequent = _frequent(ids)
            for kept, extra in ((whole, more), (frequent, more + 2)):
                for stretch in _stretches(ids, steps, kept, extra):
                    if not any(stretch.first <= other.last and other.first <= stretch.last for other, _ in found):
                        found.append((stretch, near))
        found.sort(key=lambda item: item[0].first)
        return tuple(self._told(stretch, near=near) for stretch, near in found[:_LOOPS_MAX])

    def _put(self, turn: int, name: str, text: str, result: str) -> None:
        key = (name, hashlib.sha256(clean(text).encode()).hexdigest(), result)
        same = self._same.setdefault(key, len(self._same))
        near = self._near_of.get(same)
        if near is None:
            near = self._near_of[same] = self._nearest(name, text, result, same)
        short = not name and len(text) < _SHORT_CHARS
        self._steps.append(
            _Step(
                turn=turn,
                same=same,
                near=near,
                need=4 if name else 5 if short else 3,
                unit=(f"{name}({text})" if name else text)[:_EXCERPT_CHARS],
                called=bool(name),
            )
        )

    def _nearest(self, name: str, text: str, result: str, number: int) -> int:
        """Return the number of the first of the latest steps that this one is nearly equal to, else its own."""
        near = number
        for other_name, other_text, other_result, other in reversed(self._near[-_COMPARED_MAX:] if name else []):
            if (name, result) == (other_name, other_result) and likeness(text, other_text, at_least=NEARLY):
                near = other
                break
        if name:
            self._near.append((name, text, result, near))
            del self._near[:-_COMPARED_MAX]
        return near

    def _told(self, stretch: _Stretch, *, near: bool) -> ConversationLoop:
        first, last = self._steps[stretch.first], self._steps[stretch.last]
        period = self._steps[stretch.first : stretch.first + stretch.period]
        kind: Kind = (
            "same_answer" if not any(step.called for step in period) else "near_calls" if near else "same_calls"
        )
        unit = " ; ".join(step.unit for step in period)[:_EXCERPT_CHARS]
        to_end = stretch.last == len(self._steps) - 1
        return ConversationLoop(
            kind=kind,
            onset_turn=first.turn,
            last_turn=last.turn,
            period=stretch.period,
            copies=round(stretch.copies, 2),
            to_end=to_end,
            unit=unit,
            text=_sentence(kind, stretch, first.turn, last.turn, to_end=to_end),
        )


def rounds_of(messages: Sequence[Message], *, text_mode: bool = False, first: int = 0) -> list[Round]:
    """
    Return the rounds in a conversation's messages: each assistant message, with the results up to the next one.

    The first is turn `first`. `text_mode`: calls stand in the text.
    """
    rounds: list[Round] = []
    for at, message in enumerate(messages):
        if message.role == "assistant":
            said = text_of(message.content)
            calls = message.tool_calls or (calls_in_text(said) if text_mode else ())
            rounds.append(Round(first + len(rounds), calls, _results(calls, messages, at + 1), said))
    return rounds


def cross_turn_loops(rounds: Iterable[Round]) -> tuple[ConversationLoop, ...]:
    """Return the loops in a whole conversation: what `RoundWatch` says at its end."""
    watch = RoundWatch()
    for round_ in rounds:
        watch.add(round_)
    return watch.loops()


def _results(calls: Sequence[ToolCall], messages: Sequence[Message], at: int) -> tuple[str, ...]:
    """Return each call's result: that with its id, else the one in its place, else nothing."""
    told: list[Message] = []
    while at < len(messages) and messages[at].role != "assistant":
        if messages[at].role == "tool":
            told.append(messages[at])
        at += 1
    named = {message.tool_call_id: text_of(message.content) for message in told}
    ordered = [text_of(message.content) for message in told]
    return tuple(named.get(call.id, ordered[place] if place < len(ordered) else "") for place, call in enumerate(calls))


def _fingerprint(result: str) -> str:
    masked = _VOLATILE.sub("#", result[:_RESULT_CHARS])
    return hashlib.sha256(f"{len(result) > _RESULT_CHARS}\n{clean(masked)}".encode()).hexdigest()


def _frequent(ids: Sequence[int]) -> list[int]:
    """Return the places of the steps that came three times or more."""
    counts = Counter(ids)
    return [place for place, number in enumerate(ids) if counts[number] >= 3]


def _stretches(ids: Sequence[int], steps: Sequence[_Step], kept: Sequence[int], extra: int) -> list[_Stretch]:
    """Return the stretches of the kept steps that repeat; of two that overlap, the one with the shorter period."""
    found: list[_Stretch] = []
    for period in range(1, PERIOD_MAX + 1):
        begin = 0
        for at in range(period, len(kept) + 1):
            if at < len(kept) and ids[kept[at]] == ids[kept[at - period]]:
                continue
            if at - begin >= _LEAST_COPIES * period:
                stretch = _Stretch(kept[begin], kept[at - 1], period, (at - begin) / period)
                if _is_loop(stretch, steps, at - begin, extra) and not any(
                    stretch.first <= other.last and other.first <= stretch.last for other in found
                ):
                    found.append(stretch)
            begin = at - period + 1
    return found


def _is_loop(stretch: _Stretch, steps: Sequence[_Step], count: int, extra: int) -> bool:
    span = stretch.last - stretch.first + 1
    need = steps[stretch.first].need if stretch.period == 1 else _LEAST_COPIES
    turns = {steps[at].turn for at in range(stretch.first, stretch.last + 1)}
    return stretch.copies >= need + extra and len(turns) >= _SPANNED_TURNS and span - count <= _ODD_SHARE * span


def _sentence(kind: Kind, stretch: _Stretch, first: int, last: int, *, to_end: bool) -> str:
    what = {
        "same_calls": "the same call with the same result",
        "near_calls": "nearly the same call with the same result",
        "same_answer": "the same answer",
    }[kind]
    if stretch.period > 1:
        what = what.replace("the same", f"the same {stretch.period}", 1).replace("call with", "calls with")
        what = what.replace("answer", "answers").replace("result", "results")
    end = "to the end of the conversation" if to_end else "and then other work"
    return f"{what} {stretch.copies:.4g} times over turns {first} to {last}, {end}"
