"""Latency of both arms in quantiles with intervals, cut answers counted as what they are, and goodput."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from soak.check.pairing import ArmHistory, Pairing
from soak.check.stated import Stated
from soak.check.turns import TurnFact
from soak.facts import Goodput, LatencyComparison, QuantileEstimate
from soak.stats import cluster_mean, quantiles_limits

_FRACTIONS = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


class _Read(NamedTuple):
    """One latency of an arm's turns in milliseconds (None: not measured); `cut`: only known to be more than this."""

    ms: list[float | None]
    cut: list[bool]


_Reader = Callable[[Sequence[TurnFact]], _Read]


def compare_latency(pairing: Pairing) -> dict[str, LatencyComparison]:
    """Return TTFT, TPOT and E2E of the finished turns of both arms, and their change over the pairs."""
    arms = pairing.finished()  # the pairs' turns come first, in order
    return {name: _compare(reader(arms[0]), reader(arms[1]), pairing) for name, reader in _READERS.items()}


def _compare(first: _Read, second: _Read, pairing: Pairing) -> LatencyComparison:
    ratio = _ratio(first, second, pairing)
    (baseline, below), (candidate, above) = _split(first), _split(second)
    return LatencyComparison(
        baseline=_quantiles(baseline, below),
        candidate=_quantiles(candidate, above),
        baseline_turns=len(baseline) + len(below),
        candidate_turns=len(candidate) + len(above),
        baseline_censored=len(below),
        candidate_censored=len(above),
        ratio=ratio[0] if ratio else None,
        ratio_ci95=ratio[1] if ratio else None,
    )


def _split(read: _Read) -> tuple[list[float], list[float]]:
    """Return the values that were measured, and those that were cut."""
    measured = [ms for ms, cut in zip(*read, strict=True) if ms is not None and not cut]
    return measured, [ms for ms, cut in zip(*read, strict=True) if cut and ms is not None]


def _quantiles(known: Sequence[float], cut: Sequence[float]) -> dict[str, QuantileEstimate]:
    found = quantiles_limits(known, cut, list(_FRACTIONS.values()))
    return {
        name: QuantileEstimate(value=limits.value, low95=limits.low, high95=limits.high)
        for name, limits in zip(_FRACTIONS, found, strict=True)
    }


def _ratio(baseline: _Read, candidate: _Read, pairing: Pairing) -> tuple[float, tuple[float, float] | None] | None:
    """Return the geometric mean of candidate/baseline over pairs with both values, and its interval by episode."""
    both = [
        (math.log(second / first), episode)
        for first, second, cut, other, episode in zip(
            baseline.ms, candidate.ms, baseline.cut, candidate.cut, pairing.episodes, strict=False
        )
        if first and second and min(first, second) > 0 and not cut and not other
    ]
    mean = cluster_mean([log for log, _ in both], [episode for _, episode in both])
    if mean is None:
        return None
    limits = mean.interval
    return math.exp(mean.value), None if limits is None else (math.exp(limits.low), math.exp(limits.high))


def _ttft(turns: Sequence[TurnFact]) -> _Read:
    """A turn that was given up before its first token waited at least that long."""
    cut = [turn.ttft_ms is None and turn.censored for turn in turns]
    return _Read([turn.e2e_ms if unseen else turn.ttft_ms for turn, unseen in zip(turns, cut, strict=True)], cut)


def _tpot(turns: Sequence[TurnFact]) -> _Read:
    return _Read([turn.tpot_ms for turn in turns], [False] * len(turns))


def _e2e(turns: Sequence[TurnFact]) -> _Read:
    ms = [turn.e2e_ms if turn.answered or turn.censored else None for turn in turns]
    return _Read(ms, [turn.censored for turn in turns])


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
