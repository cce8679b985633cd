"""What the engine did for each finished turn: its own word where it told it with the answer, else its counters'."""

from collections.abc import Mapping, Sequence

from soak.check.attribution import Share, Span, attribute
from soak.check.engine import Counter
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
    known = share if share is not None and share.attributed is not None else None
    told = turn.drafted
    moved = {} if known is None else known.moved
    seen = {} if known is None else known.seen
    return EngineTurn(
        key=turn.key,
        attributed=None if known is None else known.attributed,
        others=0 if known is None else known.others,
        told=told is not None,
        drafts=told.drafts if told else moved.get(("drafts", None)),
        draft_tokens=told.draft_tokens if told else moved.get(("draft_tokens", None)),
        accepted_tokens=told.accepted_tokens if told else moved.get(("accepted_tokens", None)),
        accepted_per_position=told.per_position if told else _positions(moved),
        prompt=turn.prompt,
        cached=turn.cached,
        prefix_queries=moved.get(("prefix_queries", None)),
        prefix_hits=moved.get(("prefix_hits", None)),
        preemptions=_seen(known, seen, "preemptions"),
        corrupted=_seen(known, seen, "corrupted"),
        restarts=0 if known is None else known.restarts,
    )


def _positions(moved: dict[Counter, float]) -> tuple[float, ...] | None:
    counts = {position: value for (family, position), value in moved.items() if family == "position"}
    return tuple(counts.get(place, 0.0) for place in range(len(counts))) or None


def _seen(share: Share | None, seen: dict[Counter, float], name: str) -> float | None:
    """Return how often a rare event came up around the turn; None where the engine does not count it."""
    counted = share is not None and (name, None) in share.moved
    return seen.get((name, None), 0.0) if counted else None
