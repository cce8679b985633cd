"""
How long an arm's turns take from first to last when several conversations run at once, and what loops cost of that.

List scheduling: as many conversations in flight as were observed, the next one begins when one ends, turns of one
conversation follow one another. Durations are the recorded ones: a server that is less loaded would be faster, which is
not modelled, so what garbage turns cost on the critical path is rather over- than understated.
"""

import heapq
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from soak.check.cards import same_run
from soak.check.pairing import ArmHistory, Pairing, conversation_of
from soak.check.summary import scenario_of
from soak.check.turns import TurnFact
from soak.facts import Makespan
from soak.stats import quantile

_Conversation = tuple[str, int]
_Conversations = dict[_Conversation, list[TurnFact]]


class _Schedule(NamedTuple):
    """One arm's makespan with its turns as they were, and with garbage turns as long as an ok turn."""

    whole_s: float
    without_garbage_s: float


def makespan_of(baseline: ArmHistory, candidate: ArmHistory, pairing: Pairing) -> Makespan | None:
    """Return both arms' makespans over the paired turns; None where no pair has both times."""
    timed = [pair for pair in pairing.pairs if pair.baseline.turn_s is not None and pair.candidate.turn_s is not None]
    if not timed:
        return None
    arms = [_conversations([pair.baseline for pair in timed]), _conversations([pair.candidate for pair in timed])]
    in_flight = _in_flight(baseline, arms)
    pauses = not same_run(baseline, candidate)
    first, second = (_schedule(conversations, in_flight, pauses=pauses) for conversations in arms)
    if not (first.without_garbage_s and second.without_garbage_s and first.whole_s):
        return None
    change, without = second.whole_s - first.whole_s, second.without_garbage_s - first.without_garbage_s
    return Makespan(
        in_flight=in_flight,
        conversations=len(arms[0]),
        baseline_s=first.whole_s,
        candidate_s=second.whole_s,
        ratio=second.whole_s / first.whole_s,
        baseline_without_garbage_s=first.without_garbage_s,
        candidate_without_garbage_s=second.without_garbage_s,
        ratio_without_garbage=second.without_garbage_s / first.without_garbage_s,
        critical_change_s=change - without,
        baseline_observed_s=_observed_s(arms[0]) if pauses else None,
        candidate_observed_s=_observed_s(arms[1]) if pauses else None,
    )


def _in_flight(baseline: ArmHistory, arms: Iterable[_Conversations]) -> int:
    """Return how many conversations were open at once at most, not above what the scenario allows."""
    return min(
        max(_open_at_once(conversations) for conversations in arms), scenario_of(baseline.manifest).load.in_flight
    )


def _open_at_once(conversations: _Conversations) -> int:
    """Return the largest number of conversations between their first start and last end at the same time."""
    steps: list[tuple[float, int]] = []
    for own in conversations.values():
        steps += [(own[0].started_at, 1), (own[-1].started_at + _seconds(own[-1]), -1)]
    highest = at_once = 0
    for _, step in sorted(steps):
        at_once += step
        highest = max(highest, at_once)
    return max(highest, 1)


def _schedule(conversations: _Conversations, in_flight: int, *, pauses: bool) -> _Schedule:
    usual_s = quantile([_seconds(turn) for own in conversations.values() for turn in own if turn.class_ == "ok"], 0.5)
    whole = {name: sum(map(_seconds, own)) for name, own in conversations.items()}
    mended = {name: sum(_mended(turn, usual_s) for turn in own) for name, own in conversations.items()}
    if pauses:  # in a run of two arms the gaps between one arm's turns hold the other's
        for name, own in conversations.items():
            whole[name] += _pauses_s(own)
            mended[name] += _pauses_s(own)
    return _Schedule(list_makespan(whole, in_flight), list_makespan(mended, in_flight))


def list_makespan(lengths: Mapping[_Conversation, float], in_flight: int) -> float:
    """Return when the last of these conversations ends if each begins as soon as one of `in_flight` places is free."""
    places = [0.0] * in_flight
    for seconds in lengths.values():
        heapq.heapreplace(places, places[0] + seconds)
    return max(places)


def _conversations(turns: Iterable[TurnFact]) -> _Conversations:
    """Return each conversation's turns in the order of their starts, conversations in the order they began."""
    found: dict[_Conversation, list[TurnFact]] = defaultdict(list)
    for turn in turns:
        found[conversation_of(turn)].append(turn)
    for own in found.values():
        own.sort(key=lambda turn: (turn.started_at, turn.key.turn))
    return dict(sorted(found.items(), key=lambda item: item[1][0].started_at))


def _pauses_s(own: Sequence[TurnFact]) -> float:
    """Return the seconds between a conversation's turns: think time, and the engine's absences."""
    ends = [turn.started_at + _seconds(turn) for turn in own[:-1]]
    return sum(max(0.0, after.started_at - end) for end, after in zip(ends, own[1:], strict=True))


def _mended(turn: TurnFact, usual_s: float | None) -> float:
    return usual_s if turn.class_ == "garbage_loop" and usual_s is not None else _seconds(turn)


def _seconds(turn: TurnFact) -> float:
    return turn.turn_s or 0.0


def _observed_s(conversations: _Conversations) -> float:
    """Return the seconds from the first start to the last end."""
    turns = [turn for own in conversations.values() for turn in own]
    return max(turn.started_at + _seconds(turn) for turn in turns) - min(turn.started_at for turn in turns)
