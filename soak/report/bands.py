"""Rates with intervals, as plots want them: per class, and in bands along depth and time."""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from soak.facts import CLASSES, Comparison, Events, Trend
from soak.report.arms import ReportArm, ReportTurn
from soak.report.comparison import trend_text
from soak.report.plots import RatePoint
from soak.stats import wilson

_BANDS = 6
_AXES = {
    "depth_tokens": ("Not ok, by depth of the turn", "prompt tokens", ""),
    "turn": ("Not ok, by place in the conversation", "turn of the conversation", ""),
    "uptime_s": (
        "Not ok, by uptime",
        "time up",
        "Since the engine's start; where it is unknown, since the first turn.",
    ),
}
_SINCE_FIRST_TURN = ("Not ok, by time", "time since the arm's first turn", "")
FAILURES = tuple(name for name in CLASSES if name != "ok")


@dataclass(frozen=True)
class Banded:
    """Turns that are not ok along an axis: `points[band][arm]`, with a label for each band."""

    title: str
    along: str
    caption: str
    labels: tuple[str, ...]
    points: tuple[tuple[RatePoint, ...], ...]


def rate_point(events: int, turns: int) -> RatePoint:
    """Return a rate with its 95 % interval (Wilson's; of independent turns)."""
    limits = wilson(events, turns)
    return RatePoint(events, turns, limits.low, limits.high) if limits else RatePoint(events, turns, 0.0, 1.0)


def compared_rates(comparison: Comparison) -> dict[str, list[RatePoint | None]]:
    """Return each class's rates in the two arms of a comparison, with the intervals it states where it does."""
    return {
        name: [
            _stated(found.baseline, found.baseline_rate.ci95 if found.baseline_rate else None),
            _stated(found.candidate, found.candidate_rate.ci95 if found.candidate_rate else None),
        ]
        for name, found in comparison.classes.items()
    }


def _stated(events: Events, limits: tuple[float, float] | None) -> RatePoint:
    return RatePoint(events.events, events.turns, *limits) if limits else rate_point(events.events, events.turns)


def run_rates(arms: Sequence[ReportArm]) -> dict[str, list[RatePoint | None]]:
    """Return each class's rates in each arm."""
    return {
        name: [rate_point(getattr(arm.summary.turns, name), arm.summary.turns.finished) for arm in arms]
        for name in FAILURES
    }


def trend_bands(trend: Trend) -> Banded:
    """Return the bands of a comparison's trend, and what its tests say."""
    label = {"depth_tokens": _tokens, "uptime_s": _time}.get(trend.axis, _plain)
    title, along, caption = _AXES[trend.axis]
    tests = (trend_text(trend.baseline, trend), trend_text(trend.candidate, trend))
    return Banded(
        title,
        along,
        f"{caption} Trend: baseline {tests[0]}; candidate {tests[1]}; by episodes.".strip(),
        tuple(_range(band.low, band.high, label) for band in trend.bands),
        tuple(
            (
                rate_point(band.baseline.events, band.baseline.turns),
                rate_point(band.candidate.events, band.candidate.turns),
            )
            for band in trend.bands
        ),
    )


def depth_bands(arms: Sequence[ReportArm]) -> Banded | None:
    """Return the arms' turns in bands of equal numbers of turns by prompt tokens; None where no server told them."""
    values = [[(float(turn.prompt), turn) for turn in arm.turns if turn.prompt is not None] for arm in arms]
    known = sorted(value for side in values for value, _ in side)
    if not known or known[0] == known[-1]:
        return None
    edges = sorted({float(known[len(known) * step // _BANDS]) for step in range(_BANDS)})
    return _banded(_AXES["depth_tokens"], edges, values, _tokens)


def uptime_bands(arms: Sequence[ReportArm]) -> Banded | None:
    """Return the arms' turns in bands of equal time since each arm's first turn."""
    values = [_uptimes(arm.turns) for arm in arms]
    longest = max((value for side in values for value, _ in side), default=0.0)
    if longest <= 0:
        return None
    return _banded(_SINCE_FIRST_TURN, [longest * step / _BANDS for step in range(_BANDS)], values, _time)


def _uptimes(turns: Sequence[ReportTurn]) -> list[tuple[float, ReportTurn]]:
    starts = [(turn.started_at, turn) for turn in turns if turn.started_at is not None]
    first = min((at for at, _ in starts), default=0.0)
    return [(at - first, turn) for at, turn in starts]


def _banded(
    axis: tuple[str, str, str],
    edges: Sequence[float],
    values: Sequence[Sequence[tuple[float, ReportTurn]]],
    label: Callable[[float], str],
) -> Banded:
    """Return turns counted between each edge and the next, the last band without an end."""
    ends = [*edges[1:], None]
    counts = [[[0, 0] for _ in values] for _ in edges]
    for arm, side in enumerate(values):
        for value, turn in side:
            band = bisect_right(edges, value, lo=1) - 1
            counts[band][arm][0] += turn.class_ != "ok"
            counts[band][arm][1] += 1
    labels = tuple(_range(low, high, label) for low, high in zip(edges, ends, strict=True))
    return Banded(*axis, labels, tuple(tuple(rate_point(*pair) for pair in band) for band in counts))


def _range(low: float, high: float | None, label: Callable[[float], str]) -> str:
    return f"from {label(low)}" if high is None else f"{label(low)}–{label(high)}"


def _tokens(value: float) -> str:
    return f"{value:.0f}" if value < 1000 else f"{_rounded(value / 1000)}k"


def _time(value: float) -> str:
    if not value:
        return "0"
    for limit, unit, size in ((120, "s", 1), (7200, "min", 60)):
        if value < limit:
            return f"{_rounded(value / size)} {unit}"
    return f"{_rounded(value / 3600)} h"


def _rounded(value: float) -> str:
    """Return a number with two significant digits and no exponent."""
    return f"{float(f'{value:.2g}'):g}"


def _plain(value: float) -> str:
    return f"{value:g}"
