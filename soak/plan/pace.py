"""When: how many conversations at once, when new ones arrive, how long a conversation pauses between turns."""

import itertools
import math
from collections.abc import Iterator

from soak.facts import Load, ThinkTime, Turn
from soak.plan.seeds import chance


def arrivals(load: Load, seed: int) -> Iterator[float]:
    """
    Yield without end the start times of conversations in seconds from the beginning, never falling; the first is 0.

    A Poisson process: gaps are exponential with mean 60 / `rate_per_min` (inverse transform of uniform numbers).
    Raises `ValueError` if the load has no rate.
    """
    if load.rate_per_min is None:
        raise ValueError("this load has no arrival rate")
    mean_s = 60.0 / load.rate_per_min
    at_s = 0.0
    for i in itertools.count():
        yield at_s
        at_s += -math.log1p(-chance("arrival", seed, i)) * mean_s


def in_flight_at(load: Load, elapsed_s: float) -> int:
    """Return how many conversations may be in flight `elapsed_s` seconds after the beginning; at least one."""
    if load.shape != "ramp" or load.from_in_flight is None or load.over_s is None:
        return load.in_flight
    share = min(1.0, max(0.0, elapsed_s / load.over_s))
    return max(1, load.from_in_flight + math.floor((load.in_flight - load.from_in_flight) * share))


def think_time_s(think: ThinkTime, turn: Turn) -> float:
    """Return the pause before `turn` in seconds; none before the first turn of a conversation."""
    if turn.index == 0 or think.mode == "none":
        return 0.0
    if think.mode == "fixed":
        return think.fixed_s or 0.0
    return min(max(0.0, turn.wait_s or 0.0), think.max_s)
