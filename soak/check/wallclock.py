"""Where the time went: turn time of paired turns, its ratio, and which class, tokens or speed explain the change."""

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from soak.check.makespan import makespan_of
from soak.check.pairing import ArmHistory, Pair, Pairing
from soak.check.stated import Terms
from soak.check.turns import SEVERITY, TurnFact
from soak.facts import TurnClass, WallClock
from soak.facts.comparison import Bound, Result
from soak.stats import Estimate, Interval, RatioEstimate, cluster_mean, sign_flip_sums, total_ratio, totals_by_cluster

_PARTS = ("tokens", "speed", "first_token", "retries")


class _Timed(NamedTuple):
    """A pair of which both times are known, in seconds, with the worse class of the two and its episode's number."""

    pair: Pair
    first: float
    second: float
    class_: TurnClass
    episode: int


def wall_clock(baseline: ArmHistory, candidate: ArmHistory, pairing: Pairing, terms: Terms) -> WallClock:
    """
    Return summed turn time over the pairs of which both times are known; None throughout if there is no such pair.

    Turn time is not the run's duration: with several turns in flight a loop less saves its seconds only if others
    waited for it. `makespan` says what it comes to.
    """
    timed = [
        _Timed(pair, *times, worse_class(pair), episode)
        for pair, episode in zip(pairing.pairs, pairing.episodes, strict=True)
        if (times := _times(pair))
    ]
    whole, ok = _ratio(timed), _ratio([entry for entry in timed if entry.class_ == "ok"])
    by_turn = _turn_ratio(timed)
    episodes = _episode_changes(timed)
    bound = _bound(timed)
    return WallClock(
        baseline_s=sum(entry.first for entry in timed) if timed else None,
        candidate_s=sum(entry.second for entry in timed) if timed else None,
        ratio=whole.ratio if whole else None,
        ci95=_limits(whole.interval if whole else None),
        explained_by=_by_class(timed),
        censored_pairs=sum(entry.pair.baseline.censored or entry.pair.candidate.censored for entry in timed),
        ratio_ok=ok.ratio if ok else None,
        ratio_ok_ci95=_limits(ok.interval if ok else None),
        bound=bound,
        explained_by_part=_by_part(timed),
        turn_ratio=math.exp(by_turn.value) if by_turn else None,
        turn_ratio_ci95=_exponential(by_turn),
        slower_episodes=sum(change > 0 for change in episodes),
        faster_episodes=sum(change < 0 for change in episodes),
        p_value=sign_flip_sums(episodes) if episodes else None,
        result=_result(whole, bound, terms.time_margin),
        makespan=makespan_of(baseline, candidate, pairing),
    )


def worse_class(pair: Pair) -> TurnClass:
    """Return the worse class of a pair's two turns."""
    classes = (pair.baseline.class_ or "ok", pair.candidate.class_ or "ok")
    return min(classes, key=SEVERITY.index)


def _times(pair: Pair) -> tuple[float, float] | None:
    if pair.baseline.turn_s is None or pair.candidate.turn_s is None:
        return None
    return pair.baseline.turn_s, pair.candidate.turn_s


def _ratio(timed: Sequence[_Timed]) -> RatioEstimate | None:
    """Return the ratio of the totals with episodes as clusters."""
    return total_ratio(*_episode_totals(timed))


def _episode_totals(timed: Sequence[_Timed]) -> tuple[list[float], list[float]]:
    """Return each episode's total time in both arms."""
    episodes = [entry.episode for entry in timed]
    return (
        totals_by_cluster([entry.first for entry in timed], episodes),
        totals_by_cluster([entry.second for entry in timed], episodes),
    )


def _turn_ratio(timed: Sequence[_Timed]) -> Estimate | None:
    """Return the mean log ratio of the pairs with episodes as clusters; pairs without a duration are passed over."""
    positive = [entry for entry in timed if entry.first > 0 and entry.second > 0]
    return cluster_mean(
        [math.log(entry.second / entry.first) for entry in positive], [entry.episode for entry in positive]
    )


def _episode_changes(timed: Sequence[_Timed]) -> list[float]:
    """Return the log ratio of each episode's total time."""
    totals = zip(*_episode_totals(timed), strict=True)
    return [math.log(second / first) for first, second in totals if first > 0 and second > 0]


def _by_class(timed: Sequence[_Timed]) -> dict[str, float]:
    explained: dict[str, float] = defaultdict(float)
    for entry in timed:
        explained[entry.class_] += entry.second - entry.first
    return dict(explained)


def _by_part(timed: Sequence[_Timed]) -> dict[str, float]:
    """Return the change split into tokens, speed, first token, retries, and what cannot be split."""
    split = [(_parts(entry), entry) for entry in timed]
    known = [parts for parts, _ in split if parts is not None]
    other = [entry.second - entry.first for parts, entry in split if parts is None]
    sums = dict(zip(_PARTS, map(math.fsum, zip(*known, strict=True)), strict=True)) if known else {}
    return {**sums, "other": math.fsum(other)} if other else sums


def _parts(entry: _Timed) -> tuple[float, float, float, float] | None:
    """
    Split one pair's change into `_PARTS`, which sum to it exactly; None where a turn did not tell its parts.

    A turn takes retries + first token + tokens · seconds per token. The change of the product is shared evenly between
    its factors (Δt·mean(s) and Δs·mean(t), the Shapley split of two).
    """
    first, second = _anatomy(entry.pair.baseline, entry.first), _anatomy(entry.pair.candidate, entry.second)
    if first is None or second is None:
        return None
    return (
        (second.tokens - first.tokens) * (second.s_per_token + first.s_per_token) / 2,
        (second.s_per_token - first.s_per_token) * (second.tokens + first.tokens) / 2,
        second.first_token_s - first.first_token_s,
        second.retries_s - first.retries_s,
    )


class _Anatomy(NamedTuple):
    """One turn's time: retries_s + first_token_s + tokens · s_per_token."""

    retries_s: float
    first_token_s: float
    tokens: int
    s_per_token: float


def _anatomy(turn: TurnFact, turn_s: float) -> _Anatomy | None:
    if turn.ttft_ms is None or turn.e2e_ms is None or not turn.completion:
        return None
    stream_s = (turn.e2e_ms - turn.ttft_ms) / 1000
    return _Anatomy(turn_s - turn.e2e_ms / 1000, turn.ttft_ms / 1000, turn.completion, stream_s / turn.completion)


def _bound(timed: Sequence[_Timed]) -> Bound:
    """Return what censored times, which are lower bounds, make of the ratio."""
    first = any(entry.pair.baseline.censored for entry in timed)
    second = any(entry.pair.candidate.censored for entry in timed)
    if first and second:
        return "unknown"
    return "at_most" if first else ("at_least" if second else "exact")


def _result(whole: RatioEstimate | None, bound: Bound, margin: float | None) -> Result:
    """Return what may be said of the time; a bound counts only on the side to which it can still move."""
    if whole is None or whole.interval is None or bound == "unknown":
        return "inconclusive"
    low, high = whole.interval
    if margin is not None and bound == "exact" and 1 / (1 + margin) < low and high < 1 + margin:
        return "equivalent"
    if high < 1 and bound in ("exact", "at_most"):
        return "improvement"
    return "regression" if low > 1 and bound in ("exact", "at_least") else "inconclusive"


def _exponential(estimate: Estimate | None) -> tuple[float, float] | None:
    if estimate is None or estimate.interval is None:
        return None
    return math.exp(estimate.interval.low), math.exp(estimate.interval.high)


def _limits(interval: Interval | None) -> tuple[float, float] | None:
    return None if interval is None else (interval.low, interval.high)
