"""Whether failures become more frequent with depth, in the course of a conversation or with uptime; and drift."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from soak.check.engine_limits import DEPTH_EDGES
from soak.check.pairing import ArmHistory, Pairing
from soak.check.turns import TurnFact, episode_numbers
from soak.check.uptime import MIN_SLOPE_S, uptimes_s
from soak.check.wording import duration, plural
from soak.facts import Band, Drift, Events, Trend, TrendTest
from soak.stats import band_counts, event_trend, value_trend

_UPTIME_BANDS = 6
_TURNS = (0, 5, 10, 20, 40, 80, 160, 320)

_Places = Sequence[float | None]
"""Where each turn of an arm stands on an axis; None where that is not known."""


class _Failures(NamedTuple):
    """Of each turn of an arm: whether it failed, and the number of its episode."""

    failed: list[bool]
    episodes: list[int]


@dataclass(frozen=True, kw_only=True)
class _Axis:
    """What a turn is placed by: the unit slopes are told in, where bands begin, and the places of both arms' turns."""

    name: Literal["depth_tokens", "turn", "uptime_s"]
    per: float
    edges: Sequence[float]
    places: Sequence[_Places]


def compare_trends(baseline: ArmHistory, candidate: ArmHistory, pairing: Pairing) -> list[Trend]:
    """Return the failure rate (any class but ok) of all finished turns by depth, turn and uptime, per arm."""
    arms = pairing.finished()
    uptimes = [uptimes_s(turns, side.engine_starts_at) for side, turns in zip((baseline, candidate), arms, strict=True)]
    longest = max((uptime for places in uptimes for uptime in places), default=0.0)
    edges = [longest * i / _UPTIME_BANDS for i in range(_UPTIME_BANDS)]
    axes = (
        _Axis(
            name="depth_tokens", per=1000.0, edges=DEPTH_EDGES, places=[[turn.prompt for turn in arm] for arm in arms]
        ),
        _Axis(name="turn", per=1.0, edges=_TURNS, places=[[turn.key.turn for turn in arm] for arm in arms]),
        _Axis(name="uptime_s", per=3600.0, edges=edges, places=uptimes),
    )
    failures = [
        _Failures([turn.class_ != "ok" for turn in arm], episode_numbers(turn.key.episode for turn in arm))
        for arm in arms
    ]
    return [_trend(axis, failures) for axis in axes]


def _trend(axis: _Axis, failures: Sequence[_Failures]) -> Trend:
    placed = [_known(places, arm) for places, arm in zip(axis.places, failures, strict=True)]
    first, second = (_test(axis, at, arm) for at, arm in placed)
    return Trend(
        axis=axis.name,
        per=axis.per,
        bands=_bands(axis.edges, [band_counts(at, arm.failed, axis.edges) for at, arm in placed]),
        baseline=first,
        candidate=second,
    )


def _known(places: _Places, arm: _Failures) -> tuple[list[float], _Failures]:
    """Return the places that are known, and the failures there."""
    at = [place for place in places if place is not None]
    if len(at) == len(places):
        return at, arm
    kept = [i for i, place in enumerate(places) if place is not None]
    return at, _Failures([arm.failed[i] for i in kept], [arm.episodes[i] for i in kept])


def _span(values: Sequence[float]) -> float:
    return max(values) - min(values) if values else 0.0


def _bands(edges: Sequence[float], counted: Sequence[Sequence[tuple[int, int]]]) -> list[Band]:
    """Return the bands between the first and the last that hold a turn."""
    bands = [
        Band(low=low, high=high, baseline=_events(first), candidate=_events(second))
        for low, high, first, second in zip(edges, [*edges[1:], None], *counted, strict=True)
    ]
    filled = [i for i, band in enumerate(bands) if band.baseline.turns or band.candidate.turns]
    return bands[filled[0] : filled[-1] + 1] if filled else []


def _events(counted: tuple[int, int]) -> Events:
    events, turns = counted
    return Events(events=events, turns=turns)


def _test(axis: _Axis, at: Sequence[float], arm: _Failures) -> TrendTest:
    """Return the trend of an arm; of too short a time only whether there is one, for a test extrapolates nothing."""
    found = event_trend([place / axis.per for place in at], arm.failed, arm.episodes)
    if found is None:
        return TrendTest(slope=None, slope_ci95=None, p_value=None, p_independent=None)
    limits = None if found.interval is None else (found.interval.low, found.interval.high)
    slope = axis.name != "uptime_s" or _span(at) >= MIN_SLOPE_S
    return TrendTest(
        slope=found.slope if slope else None,
        slope_ci95=limits if slope else None,
        p_value=found.p_value,
        p_independent=found.p_independent,
    )


def compare_drift(baseline: ArmHistory, candidate: ArmHistory, pairing: Pairing) -> dict[str, Drift]:
    """Return how time per token of ok turns changed over the run, per arm."""
    first, second = pairing.finished()
    return {"baseline": _drift(baseline, first), "candidate": _drift(candidate, second)}


def _drift(side: ArmHistory, turns: Sequence[TurnFact]) -> Drift:
    """Regress log TPOT on hours, so that a slope is a relative change; short answers are as noisy as they are short."""
    timed = [
        (uptime_s, tpot_ms, turn)
        for uptime_s, turn in zip(uptimes_s(turns, side.engine_starts_at), turns, strict=True)
        if turn.class_ == "ok" and (tpot_ms := turn.tpot_ms) and tpot_ms > 0
    ]
    uptimes = [uptime_s for uptime_s, _, _ in timed]
    exposure_s = _span(uptimes)
    if exposure_s < MIN_SLOPE_S:
        seen = f"{plural(len(timed), 'ok turn')} over {duration(exposure_s)}"
        why = f"too short to say ({seen}; a slope per hour needs {duration(MIN_SLOPE_S)})"
        return Drift(tpot_percent_per_hour=None, ci95=None, exposure_s=exposure_s, unknown_because=why)
    found = value_trend(
        [uptime_s / 3600 for uptime_s in uptimes],
        [math.log(tpot_ms) for _, tpot_ms, _ in timed],
        episode_numbers(turn.key.episode for _, _, turn in timed),
    )
    if found is None:
        why = "too few to say (an interval needs ok turns of three episodes)"
        return Drift(tpot_percent_per_hour=None, ci95=None, exposure_s=exposure_s, unknown_because=why)
    slope, interval = found
    limits = (_percent(interval.low), _percent(interval.high))
    return Drift(tpot_percent_per_hour=_percent(slope), ci95=limits, exposure_s=exposure_s)


def _percent(log_change: float) -> float:
    return 100 * math.expm1(min(log_change, 50.0))
