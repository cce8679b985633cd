"""Each planned turn's end, reduced to the few numbers checkers need, so that long texts need not stay in memory."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from soak.facts import Drafted, Judgement, Observation, ObservationOutline, Record, RecordOutline, TurnClass, TurnKey
from soak.facts.history import Outcome

SEVERITY: tuple[TurnClass, ...] = ("garbage_loop", "error", "early_stop", "max_tokens", "ok")
"""Classes from the worst to the best: a stop in mid-work is worse than sane text that met the cap."""

_REASON_MAX = 160
_HOLE = "\0"  # where a number stood
_NUMBER = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?")
UNJUDGED = "the history holds no judgement for it"
"""The reason of a turn that ran to its end and was never judged: nothing vouches for it."""


class TurnFact(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """
    One planned turn's end. Fields are None where not measured, and for turns that did not finish.

    `turn_s`: seconds from the first attempt to the end, pauses between attempts included; a lower bound if `censored`.
    Not tracked by the garbage collector, which would look through a hundred thousand of them again and again.
    `answered`: the answer came to its end (so its times describe the server and not a limit or a fault).
    """

    key: TurnKey
    outcome: Outcome
    reason: str = ""
    class_: TurnClass | None = None
    kinds: tuple[str, ...] = ()
    started_at: float = 0.0
    turn_s: float | None = None
    ttft_ms: float | None = None
    tpot_ms: float | None = None
    e2e_ms: float | None = None
    prompt: int | None = None
    cached: int | None = None
    completion: int | None = None
    answered: bool = False
    censored: bool = False
    clamped: bool = False
    attempts: int = 0
    loop_lag_ms: float = 0.0
    drafted: Drafted | None = None

    @property
    def finished(self) -> bool:
        """Whether the turn ran and was judged."""
        return self.class_ is not None


def final_turns(
    records: Iterable[Record | RecordOutline], judgements: Mapping[TurnKey, Judgement] | None = None
) -> list[TurnFact]:
    """
    Return each turn's last word among all ends of a history, in the order of writing.

    Finished or skipped if it came to that, else its last indeterminate; `judgements` as in `turn_facts`.
    """
    final: dict[TurnKey, TurnFact] = {}
    for turn in turn_facts(records, judgements):
        known = final.get(turn.key)
        if known is None or known.outcome == "indeterminate":
            final[turn.key] = turn
    return list(final.values())


def turn_facts(
    records: Iterable[Record | RecordOutline], judgements: Mapping[TurnKey, Judgement] | None = None
) -> Iterator[TurnFact]:
    """Yield the fact of each final record; `judgements` replaces the stored ones where it has the key."""
    for record in records:
        judgement = (judgements or {}).get(record.key, record.judgement)
        if record.outcome != "finished":
            yield TurnFact(key=record.key, outcome=record.outcome, reason=record.reason or "no reason recorded")
        elif record.observation is None or judgement is None:
            yield TurnFact(key=record.key, outcome="indeterminate", reason=UNJUDGED)
        else:
            yield _finished(record.key, record.observation, judgement)


def _finished(key: TurnKey, seen: Observation | ObservationOutline, judgement: Judgement) -> TurnFact:
    return TurnFact(
        key=key,
        outcome="finished",
        reason=judgement.reason,
        class_=judgement.class_,
        kinds=tuple(finding.kind for finding in judgement.findings),
        started_at=seen.started_at,
        turn_s=_turn_s(seen),
        ttft_ms=seen.ttft_ms,
        tpot_ms=seen.tpot_ms,
        e2e_ms=seen.e2e_ms,
        prompt=seen.usage.prompt if seen.usage else None,
        cached=seen.usage.cached if seen.usage else None,
        completion=seen.output_tokens,
        answered=seen.ending in ("complete", "no_end_marker") and not seen.censored,
        censored=seen.censored,
        clamped=seen.clamped,
        attempts=len(seen.attempts),
        loop_lag_ms=seen.loop_lag_ms,
        drafted=seen.drafted,
    )


def _turn_s(seen: Observation | ObservationOutline) -> float | None:
    """Return the seconds of all attempts and the pauses between them; None where no time was taken."""
    earlier = seen.attempts[:-1]
    if not earlier and seen.e2e_ms is not None:
        return seen.e2e_ms / 1000
    last_ms = seen.e2e_ms if seen.e2e_ms is not None else (seen.attempts[-1].took_ms if seen.attempts else None)
    if last_ms is None:
        return None
    return (sum(attempt.took_ms for attempt in earlier) + last_ms) / 1000 + sum(attempt.wait_s for attempt in earlier)


def episode_numbers(episodes: Iterable[str]) -> list[int]:
    """Return a number for each of these episodes, equal for equal ones, counted from 0 in the order they come."""
    numbers: dict[str, int] = {}
    return [numbers.setdefault(episode, len(numbers)) for episode in episodes]


def reason_kinds(reasons: Iterable[str]) -> Counter[str]:
    """
    Count reasons that differ in their numbers only as one kind.

    A kind is told with the least and the greatest of each number: "its prompt has 8,201 to 60,113 tokens".
    """
    numbers: dict[str, list[list[float]]] = defaultdict(list)
    for reason in reasons:
        text = reason[:_REASON_MAX].replace(_HOLE, "")
        found = [float(number.replace(",", "")) for number in _NUMBER.findall(text)]
        numbers[_NUMBER.sub(_HOLE, text)].append(found)
    return Counter({_with_ranges(kind, found): len(found) for kind, found in numbers.items()})


def _with_ranges(kind: str, numbers: list[list[float]]) -> str:
    head, *rest = kind.split(_HOLE)
    ranges = [(min(column), max(column)) for column in zip(*numbers, strict=True)]
    told = (f"{low:,.10g}" if low == high else f"{low:,.10g} to {high:,.10g}" for low, high in ranges)
    return head + "".join(text + after for text, after in zip(told, rest, strict=True))
