"""What the engine did for each finished turn: its own word where it told it with the answer, else its counters'."""

import math
from collections.abc import Mapping, Sequence

from soak.check.attribution import SHARED, Share, Span, attribute
from soak.check.turns import TurnFact
from soak.facts import EngineSample, EngineTurn, Manifest


def span_of(turn: TurnFact) -> Span | None:
    """Return a finished turn's time in flight; None where it was not measured."""
    if not turn.finished or turn.turn_s is None:
        return None
    return Span(
        begin=turn.started_at,
        end=turn.started_at + max(turn.turn_s, 0.0),
        requests=max(turn.attempts, 1),
        answered=turn.answered,
    )


def spans_elsewhere(
    arm: str,
    manifest: Manifest,
    turns: Mapping[str, Sequence[TurnFact]],
    broken_off: Mapping[str, Sequence[Span]],
) -> list[Span]:
    """Return what else of ours was in flight on the arm's server: its broken starts, and arms with the same target."""
    targets = {card.name: card.build.target for card in manifest.arms}
    same = [name for name, target in targets.items() if target == targets.get(arm) and name != arm]
    others = [span for name in same for turn in turns.get(name, ()) if (span := span_of(turn)) is not None]
    return [*others, *(span for name in (arm, *same) for span in broken_off.get(name, ()))]


def engine_turns(
    turns: Sequence[TurnFact], samples: Sequence[EngineSample], elsewhere: Sequence[Span] = ()
) -> list[EngineTurn]:
    """
    Return what the engine did for each finished turn of one arm, in the order of `turns`; findings are still to come.

    `elsewhere`: whatever else of ours was in flight on the same server: turns of other arms, and starts that came to
    no end.
    """
    finished = [turn for turn in turns if turn.finished]
    placed = [(turn, span) for turn in finished if (span := span_of(turn)) is not None]
    shares = attribute(samples, [*(span for _, span in placed), *elsewhere])
    share_of = {turn.key: share for (turn, _), share in zip(placed, shares, strict=False)}
    return [_engine_turn(turn, share_of.get(turn.key)) for turn in finished]


def _engine_turn(turn: TurnFact, share: Share | None) -> EngineTurn:
    known = share if share is not None and share.attributed is not None else _NOTHING
    amounts = [None if math.isnan(amount) else amount for amount in known.amounts]
    drafts, tokens, accepted, queries, hits = amounts[: len(SHARED)] or (None,) * len(SHARED)
    positions = tuple(amount for amount in amounts[len(SHARED) :] if amount is not None) or None
    told = turn.drafted
    return EngineTurn(
        key=turn.key,
        attributed=known.attributed,
        others=known.others,
        told=told is not None,
        drafts=told.drafts if told else drafts,
        draft_tokens=told.draft_tokens if told else tokens,
        accepted_tokens=told.accepted_tokens if told else accepted,
        accepted_per_position=told.per_position if told else positions,
        prompt=turn.prompt,
        cached=turn.cached,
        prefix_queries=queries,
        prefix_hits=hits,
        preemptions=_counted(known, known.preemptions),
        corrupted=_counted(known, known.corrupted),
        restarts=known.restarts,
    )


_NOTHING = Share(Span(begin=0.0, end=0.0))


def _counted(share: Share, times: float) -> float | None:
    return None if share is _NOTHING or math.isnan(times) else times
