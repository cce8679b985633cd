"""Latency of both arms in quantiles with intervals, cut answers counted as what they are, and goodput."""

import math
from collections.abc import Callable, Iterable, Sequence

from soak.check.pairing import ArmHistory, Pairing
from soak.check.stated import Stated
from soak.check.turns import TurnFact
from soak.facts import Goodput, LatencyComparison, QuantileEstimate
from soak.stats import cluster_mean, quantile_limits

_FRACTIONS = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


_Value = tuple[float, bool]
"""One turn's latency in milliseconds, and whether it is only known to be more than this."""

_Reader = Callable[[TurnFact], _Value | None]


def compare_latency(pairing: Pairing) -> dict[str, LatencyComparison]:
    """Return TTFT, TPOT and E2E of the finished turns of both arms, and their change over the pairs."""
    return {name: _compare(reader, pairing) for name, reader in _READERS.items()}


def _compare(reader: _Reader, pairing: Pairing) -> LatencyComparison:
    read = [[reader(turn) for turn in turns] for turns in pairing.finished()]  # the pairs' turns come first, in order
    ratio = _ratio(pairing, *read)
    first, second = ([value for value in values if value is not None] for values in read)
    return LatencyComparison(
        baseline=_quantiles(first),
        candidate=_quantiles(second),
        baseline_turns=len(first),
        candidate_turns=len(second),
        baseline_censored=sum(above for _, above in first),
        candidate_censored=sum(above for _, above in second),
        ratio=ratio[0] if ratio else None,
        ratio_ci95=ratio[1] if ratio else None,
    )


def _quantiles(values: Sequence[_Value]) -> dict[str, QuantileEstimate]:
    known = [ms for ms, above in values if not above]
    cut = [ms for ms, above in values if above]
    found = {name: quantile_limits(known, cut, fraction) for name, fraction in _FRACTIONS.items()}
    return {
        name: QuantileEstimate(value=limits.value, low95=limits.low, high95=limits.high)
        for name, limits in found.items()
    }


def _ratio(
    pairing: Pairing, baseline: Sequence[_Value | None], candidate: Sequence[_Value | None]
) -> tuple[float, tuple[float, float] | None] | None:
    """Return the geometric mean of candidate/baseline over pairs with both values, and its interval by episode."""
    logs, episodes = [], []
    numbers: dict[str, int] = {}
    for pair, first, second in zip(pairing.pairs, baseline, candidate, strict=False):
        if first and second and not (first[1] or second[1]) and first[0] > 0 and second[0] > 0:
            logs.append(math.log(second[0] / first[0]))
            episodes.append(numbers.setdefault(pair.baseline.key.episode, len(numbers)))
    mean = cluster_mean(logs, episodes)
    if mean is None:
        return None
    limits = mean.interval
    return math.exp(mean.value), None if limits is None else (math.exp(limits.low), math.exp(limits.high))


def _ttft(turn: TurnFact) -> _Value | None:
    """A turn that was given up before its first token waited at least that long."""
    if turn.ttft_ms is not None:
        return turn.ttft_ms, False
    return (turn.e2e_ms, True) if turn.censored and turn.e2e_ms is not None else None


def _tpot(turn: TurnFact) -> _Value | None:
    return None if turn.tpot_ms is None else (turn.tpot_ms, False)


def _e2e(turn: TurnFact) -> _Value | None:
    if turn.e2e_ms is None or not (turn.answered or turn.censored):
        return None
    return turn.e2e_ms, turn.censored


_READERS: dict[str, _Reader] = {"ttft_ms": _ttft, "tpot_ms": _tpot, "e2e_ms": _e2e}


def compare_goodput(
    baseline: ArmHistory, candidate: ArmHistory, pairing: Pairing, stated: Stated
) -> dict[str, Goodput]:
    """Return the usable tokens of both arms per second, and the share of turns that were ok and fast enough."""
    first, second = pairing.finished()
    return {"baseline": _goodput(baseline, first, stated), "candidate": _goodput(candidate, second, stated)}


def _goodput(side: ArmHistory, turns: Sequence[TurnFact], stated: Stated) -> Goodput:
    tokens = side.summary.tokens
    busy_s = sum(side.summary.busy_s.values())
    wasted = None if tokens.completion is None or tokens.usable is None else tokens.completion - tokens.usable
    limited = stated.ttft_limit_ms is not None or stated.tpot_limit_ms is not None
    return Goodput(
        usable_tokens_per_s=side.summary.usable_tokens_per_s,
        usable_tokens_per_busy_s=tokens.usable / busy_s if tokens.usable is not None and busy_s > 0 else None,
        wasted_tokens=wasted,
        within_limits=_share(_within(turn, stated) for turn in turns) if limited else None,
        ttft_limit_ms=stated.ttft_limit_ms,
        tpot_limit_ms=stated.tpot_limit_ms,
    )


def _within(turn: TurnFact, stated: Stated) -> bool:
    """Return whether the turn is ok and meets the stated limits; an answer of one token has no TPOT to miss."""
    in_time = stated.ttft_limit_ms is None or (turn.ttft_ms is not None and turn.ttft_ms <= stated.ttft_limit_ms)
    in_pace = stated.tpot_limit_ms is None or turn.tpot_ms is None or turn.tpot_ms <= stated.tpot_limit_ms
    return turn.class_ == "ok" and in_time and in_pace


def _share(held: Iterable[bool]) -> float | None:
    flags = list(held)
    return sum(flags) / len(flags) if flags else None
