"""Whether failures become more frequent with depth, in the course of a conversation or with uptime; and drift."""

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from soak.check.pairing import ArmHistory, Pairing
from soak.check.turns import TurnFact
from soak.facts import Band, Drift, Events, Trend, TrendTest
from soak.stats import event_trend, value_trend

_UPTIME_BANDS = 6
_DEPTHS = (0, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072, 262144)
_TURNS = (0, 5, 10, 20, 40, 80, 160, 320)


@dataclass(frozen=True, kw_only=True)
class _Axis:
    """What a turn is placed by: the unit slopes are told in, and where bands begin."""

    name: Literal["depth_tokens", "turn", "uptime_s"]
    per: float
    edges: Sequence[float]
    places: Sequence[Callable[[TurnFact], float | None]]


def compare_trends(baseline: ArmHistory, candidate: ArmHistory, pairing: Pairing) -> list[Trend]:
    """Return the failure rate (any class but ok) of all finished turns by depth, turn and uptime, per arm."""
    arms = pairing.finished()
    uptimes = [_uptime(side, turns) for side, turns in zip((baseline, candidate), arms, strict=True)]
    longest = max((uptime(turn) for uptime, turns in zip(uptimes, arms, strict=True) for turn in turns), default=0.0)
    edges = [longest * i / _UPTIME_BANDS for i in range(_UPTIME_BANDS)]
    axes = (
        _Axis(name="depth_tokens", per=1000.0, edges=_DEPTHS, places=[lambda turn: turn.prompt] * 2),
        _Axis(name="turn", per=1.0, edges=_TURNS, places=[lambda turn: turn.key.turn] * 2),
        _Axis(name="uptime_s", per=3600.0, edges=edges, places=uptimes),
    )
    return [_trend(axis, arms) for axis in axes]


def _uptime(side: ArmHistory, turns: Sequence[TurnFact]) -> Callable[[TurnFact], float]:
    """Return what tells a turn's seconds since the engine's start, or since the arm's first turn where unknown."""
    first = min((turn.started_at for turn in turns), default=0.0)

    def uptime(turn: TurnFact) -> float:
        born = first
        for at in side.engine_starts_at:
            if at <= turn.started_at:
                born = at
        return turn.started_at - born

    return uptime


def _trend(axis: _Axis, arms: Sequence[Sequence[TurnFact]]) -> Trend:
    placed = [
        [(at, turn) for turn in turns if (at := place(turn)) is not None]
        for place, turns in zip(axis.places, arms, strict=True)
    ]
    first, second = placed
    return Trend(
        axis=axis.name,
        per=axis.per,
        bands=_bands(axis.edges, first, second),
        baseline=_test(first, axis.per),
        candidate=_test(second, axis.per),
    )


_Placed = list[tuple[float, TurnFact]]


def _bands(edges: Sequence[float], first: _Placed, second: _Placed) -> list[Band]:
    """Return the bands between the first and the last that hold a turn."""
    limits = list(zip(edges, [*edges[1:], None], strict=True))
    counted = [_counted(placed, edges) for placed in (first, second)]
    bands = [
        Band(low=low, high=high, baseline=counted[0][i], candidate=counted[1][i])
        for i, (low, high) in enumerate(limits)
    ]
    filled = [i for i, band in enumerate(bands) if band.baseline.turns or band.candidate.turns]
    return bands[filled[0] : filled[-1] + 1] if filled else []


def _counted(placed: _Placed, edges: Sequence[float]) -> list[Events]:
    """Return turns and failures of each band."""
    turns, failures = [0] * len(edges), [0] * len(edges)
    for at, turn in placed:
        band = bisect_right(edges, at) - 1
        turns[band] += 1
        failures[band] += turn.class_ != "ok"
    return [Events(events=failed, turns=count) for failed, count in zip(failures, turns, strict=True)]


def _test(placed: _Placed, per: float) -> TrendTest:
    found = event_trend([at / per for at, _ in placed], [turn.class_ != "ok" for _, turn in placed], _episodes(placed))
    if found is None:
        return TrendTest(slope=None, slope_ci95=None, p_value=None, p_independent=None)
    return TrendTest(
        slope=found.slope,
        slope_ci95=None if found.interval is None else (found.interval.low, found.interval.high),
        p_value=found.p_value,
        p_independent=found.p_independent,
    )


def compare_drift(baseline: ArmHistory, candidate: ArmHistory, pairing: Pairing) -> dict[str, Drift]:
    """Return how time per token of ok turns changed over the run, per arm."""
    first, second = pairing.finished()
    return {"baseline": _drift(baseline, first), "candidate": _drift(candidate, second)}


def _drift(side: ArmHistory, turns: Sequence[TurnFact]) -> Drift:
    """Regress log TPOT on hours, so that a slope is a relative change; short answers are as noisy as they are short."""
    uptime = _uptime(side, turns)
    placed = [(uptime(turn) / 3600, turn) for turn in turns if turn.class_ == "ok" and turn.tpot_ms]
    found = value_trend(
        [at for at, _ in placed], [math.log(turn.tpot_ms or 1.0) for _, turn in placed], _episodes(placed)
    )
    if found is None:
        return Drift(tpot_percent_per_hour=None, ci95=None)
    slope, interval = found
    return Drift(tpot_percent_per_hour=_percent(slope), ci95=(_percent(interval.low), _percent(interval.high)))


def _percent(log_change: float) -> float:
    return 100 * math.expm1(min(log_change, 50.0))


def _episodes(placed: _Placed) -> list[int]:
    numbers: dict[str, int] = {}
    return [numbers.setdefault(turn.key.episode, len(numbers)) for _, turn in placed]
