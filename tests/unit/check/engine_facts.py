"""Turns and readings of an engine, made from what a test cares about."""

from collections.abc import Iterable
from typing import Any

from soak.check import TurnFact
from soak.facts import Drafted, EngineSample, TurnKey

DEPTH = 2


def turn(number: int, begin: float, end: float, *, prompt: int = 500, class_: str = "ok", **fields: Any) -> TurnFact:
    """A finished turn in flight from `begin` to `end`; four turns to a conversation, unless `episode` says another."""
    episode = fields.pop("episode", f"e{number // 4}")
    return TurnFact(
        key=TurnKey(episode=episode, turn=number % 4, pass_=number // 400, arm="a"),
        outcome="finished",
        class_=class_,  # type: ignore[arg-type]
        started_at=begin,
        turn_s=end - begin,
        prompt=prompt,
        answered=True,
        attempts=1,
        **fields,
    )


def told(drafts: int, *positions: int) -> Drafted:
    """What an engine tells with an answer: drafts of `DEPTH` tokens, accepted so often at each position."""
    return Drafted(
        drafts=drafts, draft_tokens=DEPTH * drafts, accepted_tokens=sum(positions), per_position=tuple(positions)
    )


def readings(moments: Iterable[tuple[float, int, tuple[int, int]]], **fields: Any) -> list[EngineSample]:
    """Readings of (time, drafts so far, accepted tokens so far by position)."""
    return [
        EngineSample(
            arm="a",
            at=at,
            asked_at=at,
            drafts=drafts,
            draft_tokens=DEPTH * drafts,
            accepted_tokens=sum(accepted),
            accepted_per_position=accepted,
            prefix_queries=0.0,
            prefix_hits=0.0,
            preemptions=0.0,
            process_start_at=-10.0,
            **fields,
        )
        for at, drafts, accepted in moments
    ]
