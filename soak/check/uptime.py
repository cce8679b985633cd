"""How long an engine had been up when a turn was sent, and what exposure says anything about uptime."""

from bisect import bisect_right
from collections.abc import Sequence

from soak.check.turns import TurnFact

MIN_SLOPE_S = 1800.0
"""
Exposure below which nothing is said per hour. The first minutes of a server are warm-up (caches fill, prompts are still
shallow, a queue builds up), and a slope told per hour from less than half of one is that warm-up times two and more.
"""


def uptimes_s(turns: Sequence[TurnFact], engine_starts_at: Sequence[float]) -> list[float]:
    """Return each turn's seconds since the engine's start, or since the arm's first turn where that is unknown."""
    first = min((turn.started_at for turn in turns), default=0.0)
    births = [first, *(at for at in engine_starts_at if at > first)]
    if any(at <= first for at in engine_starts_at):
        births[0] = max(at for at in engine_starts_at if at <= first)
    return [turn.started_at - births[bisect_right(births, turn.started_at) - 1] for turn in turns]
