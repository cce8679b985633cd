"""Where the time went: turn time of paired turns, its ratio, and which class explains the change."""

from collections import defaultdict
from collections.abc import Sequence

from soak.check.pairing import Pair, Pairing
from soak.check.turns import SEVERITY
from soak.facts import TurnClass, WallClock
from soak.stats import RatioEstimate, total_ratio


def wall_clock(pairing: Pairing) -> WallClock:
    """
    Return summed turn time over the pairs of which both times are known; None throughout if there is no such pair.

    It is turn time, not the run's duration: with several turns in flight a loop less saves its seconds only if others
    waited for it.
    """
    timed = [(pair, first, second) for pair in pairing.pairs if (times := _times(pair)) for first, second in [times]]
    explained: dict[str, float] = defaultdict(float)
    for pair, first, second in timed:
        explained[worse_class(pair)] += second - first
    whole = _ratio(timed)
    ok = _ratio([entry for entry in timed if worse_class(entry[0]) == "ok"])
    return WallClock(
        baseline_s=sum(first for _, first, _ in timed) if timed else None,
        candidate_s=sum(second for _, _, second in timed) if timed else None,
        ratio=whole.ratio if whole else None,
        ci95=_limits(whole),
        explained_by=dict(explained),
        censored_pairs=sum(pair.baseline.censored or pair.candidate.censored for pair, _, _ in timed),
        ratio_ok=ok.ratio if ok else None,
        ratio_ok_ci95=_limits(ok),
    )


def worse_class(pair: Pair) -> TurnClass:
    """Return the worse class of a pair's two turns."""
    classes = (pair.baseline.class_ or "ok", pair.candidate.class_ or "ok")
    return min(classes, key=SEVERITY.index)


def _times(pair: Pair) -> tuple[float, float] | None:
    if pair.baseline.turn_s is None or pair.candidate.turn_s is None:
        return None
    return pair.baseline.turn_s, pair.candidate.turn_s


def _ratio(timed: Sequence[tuple[Pair, float, float]]) -> RatioEstimate | None:
    """Return the ratio of the totals with episodes as clusters."""
    totals: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for pair, first, second in timed:
        totals[pair.baseline.key.episode][0] += first
        totals[pair.baseline.key.episode][1] += second
    return total_ratio([pair[0] for pair in totals.values()], [pair[1] for pair in totals.values()])


def _limits(estimate: RatioEstimate | None) -> tuple[float, float] | None:
    if estimate is None or estimate.interval is None:
        return None
    return estimate.interval.low, estimate.interval.high
