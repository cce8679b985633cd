"""The noise floor: by how much two runs of one build differ."""

import math

from soak.check.pairing import Pairing
from soak.facts import ClassComparison, NoiseFloor, WallClock
from soak.stats import quantile


def noise_floor(pairing: Pairing, failures: ClassComparison, clock: WallClock) -> NoiseFloor | None:
    """Return what an A/A comparison shows; `failures` is the comparison of any failure. None without pairs."""
    if not pairing.pairs:
        return None
    flips = sum(pair.baseline.class_ != pair.candidate.class_ for pair in pairing.pairs)
    times = [(pair.baseline.turn_s or 0.0, pair.candidate.turn_s or 0.0) for pair in pairing.pairs]
    factors = [abs(math.log(second / first)) for first, second in times if first > 0 and second > 0]
    middle, far = quantile(factors, 0.5), quantile(factors, 0.95)
    return NoiseFloor(
        class_flips=flips,
        class_flip_rate=flips / len(pairing.pairs),
        rate_half_width=_half(failures.ci95),
        turn_time_factor_p50=None if middle is None else math.exp(middle),
        turn_time_factor_p95=None if far is None else math.exp(far),
        total_time_half_width=_half(clock.ci95),
    )


def _half(limits: tuple[float, float] | None) -> float | None:
    return None if limits is None else (limits[1] - limits[0]) / 2
