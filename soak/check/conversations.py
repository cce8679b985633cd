"""
Whole conversations, where the model's own answers carried them on (live replay): how they ended, how many turns they
took, and what looped across their turns. Turns of such conversations are never paired: after the first one the two arms
were not asked the same, so the unit of every comparison is the episode.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from soak.check.turns import TurnFact
from soak.check.wording import plural
from soak.facts import (
    ConversationEnd,
    ConversationKey,
    ConversationLoop,
    Conversations,
    ConversationsCompared,
    LoopSeen,
    Spread,
    Tasks,
)
from soak.stats import Interval, quantile, sign_flip, sign_flip_sums, total_ratio

_LOOPS_SHOWN = 20
_CALL_WORDS = {
    "exact": "as recorded",
    "near": "nearly as recorded",
    "repeated": "once more as recorded",
    "unmatched_recorded": "unmatched and given a recorded failure",
    "unmatched_neutral": "unmatched and given a plain failure",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationFact:
    """One conversation that came to its end, with the loops across its turns (judged by this soak's classifiers)."""

    end: ConversationEnd
    loops: tuple[ConversationLoop, ...] = ()


def measure_conversations(facts: Sequence[ConversationFact], turns: Iterable[TurnFact]) -> Conversations:
    """Return what one arm's conversations came to; `turns` are all its turns."""
    begun = {_conversation(turn) for turn in turns}
    looped = [fact for fact in facts if fact.loops]
    counts: Counter[str] = Counter()
    for fact in facts:
        counts.update({name: count for name, count in fact.end.counts.items() if name != "recorded_turns"})
    return Conversations(
        begun=len(begun),
        ended=len(facts),
        reasons=dict(sorted(Counter(fact.end.reason for fact in facts).items())),
        loops=len(looped),
        loop_rate=len(looped) / len(facts) if facts else None,
        turns=spread([fact.end.turns for fact in facts]),
        counts=dict(sorted(counts.items())),
        looped=[LoopSeen(conversation=_name(fact), loop=fact.loops[0]) for fact in looped[:_LOOPS_SHOWN]],
    )


def conversation_sentences(found: Conversations) -> tuple[str, ...]:
    """Return what a person must know of an arm's conversations."""
    ways = ", ".join(f"{count} {reason}" for reason, count in found.reasons.items())
    open_ = f", {found.begun - found.ended} still open" if found.begun > found.ended else ""
    said = [
        f"conversation loops: {found.loops} of {plural(found.ended, 'task')} (counted apart from the classes of turns)",
        f"{plural(found.ended, 'conversation')} ended ({ways or 'none'}){open_}",
    ]
    if found.turns is not None:
        low, high = found.turns.p25, found.turns.p75
        text = f"turns per task: median {found.turns.p50:g}, quartiles {low:g} to {high:g}, most {found.turns.max:g}"
        said.append(text)
    calls = ", ".join(
        f"{count} {_CALL_WORDS.get(name, name.replace('_', ' '))}" for name, count in found.counts.items()
    )
    return (*said, f"calls: {calls}") if calls else tuple(said)


def compare_conversations(
    baseline: tuple[Sequence[ConversationFact], Sequence[TurnFact]],
    candidate: tuple[Sequence[ConversationFact], Sequence[TurnFact]],
) -> ConversationsCompared | None:
    """Return two arms' conversations side by side, each arm as (conversations, turns); None where there are none."""
    first, second = _by_pair(baseline[0]), _by_pair(candidate[0])
    if not first and not second:
        return None
    both = sorted(first.keys() & second.keys())
    seconds = [_seconds(turns) for _, turns in (baseline, candidate)]
    loops = _episode_sums(both, [{k: float(bool(fact.loops)) for k, fact in side.items()} for side in (first, second)])
    turns = _episode_sums(both, [{k: float(fact.end.turns) for k, fact in side.items()} for side in (first, second)])
    times = _episode_sums(both, seconds)
    turn_ratio, time_ratio = total_ratio(*turns), total_ratio(*times)
    return ConversationsCompared(
        pairs=len(both),
        baseline=_tasks(first.values(), seconds[0]),
        candidate=_tasks(second.values(), seconds[1]),
        p_loops=sign_flip([int(b - a) for a, b in zip(*loops, strict=True)]) if both else None,
        turns_ratio=turn_ratio.ratio if turn_ratio else None,
        turns_ratio_ci95=_limits(turn_ratio.interval if turn_ratio else None),
        p_turns=sign_flip_sums([b - a for a, b in zip(*turns, strict=True)]) if both else None,
        time_ratio=time_ratio.ratio if time_ratio else None,
        time_ratio_ci95=_limits(time_ratio.interval if time_ratio else None),
    )


def spread(values: Sequence[float]) -> Spread | None:
    """Return quantiles (linear interpolation) and the greatest of `values`; None for none."""
    p25, p50, p75, p90 = (quantile(values, fraction) for fraction in (0.25, 0.5, 0.75, 0.9))
    if p25 is None or p50 is None or p75 is None or p90 is None:
        return None
    return Spread(p25=p25, p50=p50, p75=p75, p90=p90, max=float(max(values)))


def _conversation(turn: TurnFact) -> ConversationKey:
    return ConversationKey(turn.key.episode, turn.key.pass_, turn.key.arm)


def _name(fact: ConversationFact) -> str:
    return f"{fact.end.episode}:{fact.end.pass_}:{fact.end.arm}"


def _by_pair(facts: Sequence[ConversationFact]) -> dict[tuple[str, int], ConversationFact]:
    return {(fact.end.episode, fact.end.pass_): fact for fact in facts}


def _seconds(turns: Iterable[TurnFact]) -> dict[tuple[str, int], float]:
    """Return the turn time of each conversation in seconds."""
    sums: dict[tuple[str, int], float] = defaultdict(float)
    for turn in turns:
        sums[turn.key.episode, turn.key.pass_] += turn.turn_s or 0.0
    return sums


def _episode_sums(
    keys: Sequence[tuple[str, int]], sides: Sequence[Mapping[tuple[str, int], float]]
) -> tuple[list[float], list[float]]:
    """Return each arm's sum per episode over the conversations that both arms ended."""
    sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for key in keys:
        for arm, side in enumerate(sides):
            sums[key[0]][arm] += side.get(key, 0.0)
    return [pair[0] for pair in sums.values()], [pair[1] for pair in sums.values()]


def _tasks(facts: Iterable[ConversationFact], seconds: Mapping[tuple[str, int], float]) -> Tasks:
    known = list(facts)
    return Tasks(
        ended=len(known),
        loops=sum(bool(fact.loops) for fact in known),
        turns=spread([fact.end.turns for fact in known]),
        seconds=spread([seconds.get((fact.end.episode, fact.end.pass_), 0.0) for fact in known]),
    )


def _limits(interval: Interval | None) -> tuple[float, float] | None:
    return None if interval is None else (interval.low, interval.high)
