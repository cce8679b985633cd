"""
Plots as SVG text to stand inside a page: the only module that knows the plotting library.

No foreign text enters a plot: labels are this module's own words, class names and the short names of arms. Colours are
CSS variables of the page, so that a plot follows light, dark and print. A plot of nothing is None.
"""

import io
import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from soak.facts import CLASSES

_SVG = "http://www.w3.org/2000/svg"
_XLINK = "http://www.w3.org/1999/xlink"
_INK, _FAINT, _BAR = "#010101", "#020202", "#030303"
_ARMS = ("#0a0101", "#0a0102", "#0a0103", "#0a0104", "#0a0105", "#0a0106")
_CLASS_COLOURS: dict[str, str] = dict(
    zip(CLASSES, ("#0b0101", "#0b0102", "#0b0103", "#0b0104", "#0b0105"), strict=True)
)
_VARIABLES = {
    _INK: "var(--ink)",
    _FAINT: "var(--faint)",
    _BAR: "var(--mark)",
    **{colour: f"var(--arm-{place})" for place, colour in enumerate(_ARMS)},
    **{colour: f"var(--{name.replace('_', '-')})" for name, colour in _CLASS_COLOURS.items()},
}
_MARKERS = ("o", "s", "^", "D", "v", "P")
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "soak",
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "text.color": _INK,
    "axes.labelcolor": _INK,
    "axes.edgecolor": _FAINT,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "grid.color": _FAINT,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "text.parse_math": False,
}
_WIDTH = 5.6
_MAX_ARMS = len(_ARMS)


class RatePoint(NamedTuple):
    """Events of turns with the limits of the rate's interval (fractions)."""

    events: int
    turns: int
    low: float
    high: float


def rates_plot(arms: Sequence[str], rows: Mapping[str, Sequence[RatePoint | None]]) -> str | None:
    """Return each class's rate in per cent with its interval, one row a class and one mark an arm."""
    if not any(point and point.turns for points in rows.values() for point in points):
        return None
    figure, axes = _canvas(0.9 + 0.42 * len(rows) + 0.16 * len(rows) * max(len(arms) - 2, 0))
    for place in range(min(len(arms), _MAX_ARMS)):
        marks = [(at + _dodge(place, len(arms)), points[place]) for at, points in enumerate(list(rows.values())[::-1])]
        for y, point in marks:
            if point is not None and point.turns:
                _interval(axes, y, point, place)
        axes.plot([], [], _MARKERS[place], color=_ARMS[place], label=arms[place])
    axes.set_yticks(range(len(rows)), list(rows)[::-1])
    axes.set_ylim(-0.6, len(rows) - 0.4)
    axes.set_xlim(left=0)
    axes.set_xlabel("of finished turns, % (95 % interval)")
    axes.grid(axis="x")
    return _finished(figure, axes, legend=len(arms) > 1)


def _dodge(place: int, arms: int) -> float:
    return (arms - 1) * 0.11 - place * 0.22 if arms < 4 else (arms - 1) * 0.07 - place * 0.14


def _interval(axes: Axes, y: float, point: RatePoint, place: int) -> None:
    rate = 100 * point.events / point.turns
    low, high = min(100 * point.low, rate), max(100 * point.high, rate)
    axes.plot([low, high], [y, y], color=_ARMS[place], linewidth=2, solid_capstyle="butt")
    axes.plot([rate], [y], _MARKERS[place], color=_ARMS[place], markersize=6)


def evidence_plot(paths: Mapping[str, Sequence[tuple[int, float]]], bar: float) -> str | None:
    """Return the evidence against "alike" over the pairs seen, by class, with the bar that decides."""
    shown = {name: path for name, path in paths.items() if len(path) > 1}
    if not shown:
        return None
    figure, axes = _canvas(2.7)
    for name, path in shown.items():
        values = [max(value, 1e-4) for _, value in path]
        colour, style = (_CLASS_COLOURS[name], "-") if name in _CLASS_COLOURS else (_INK, ":")
        axes.plot([at for at, _ in path], values, style, color=colour, linewidth=1.8, label=name)
    axes.axhline(bar, color=_BAR, linestyle="--", linewidth=1.2, label=f"decided at {bar:g}")
    axes.axhline(1, color=_FAINT, linewidth=0.8)
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(FuncFormatter(lambda _value, _: ""))
    axes.set_xlabel("paired turns so far")
    axes.set_ylabel("evidence (e-value)")
    return _finished(figure, axes, legend=True)


def processes_plot(paths: Mapping[str, Sequence[tuple[int, float]]], bar: float) -> str | None:
    """Return e-processes over the tokens seen, in powers of ten, with the bar at which they alarm."""
    shown = {name: path for name, path in paths.items() if len(path) > 1}
    if not shown:
        return None
    figure, axes = _canvas(2.7)
    for place, (name, path) in enumerate(shown.items()):
        values = [max(value, -2 * bar) for _, value in path]
        axes.plot([at for at, _ in path], values, color=_ARMS[place % _MAX_ARMS], linewidth=1.6, label=name)
    axes.axhline(bar, color=_BAR, linestyle="--", linewidth=1.2, label=f"alarms at 10^{bar:g}")
    axes.axhline(0, color=_FAINT, linewidth=0.8)
    axes.set_xlabel("tokens tested so far")
    axes.set_ylabel("log10 of the evidence")
    return _finished(figure, axes, legend=True)


def time_plot(arms: Sequence[str], seconds: Sequence[Mapping[str, float]]) -> str | None:
    """Return each arm's turn time, stacked by class."""
    longest = max((sum(times.values()) for times in seconds), default=0.0)
    if longest <= 0:
        return None
    size, unit = _unit(longest)
    figure, axes = _canvas(0.95 + 0.34 * len(arms))
    for name in CLASSES:
        lengths = [times.get(name, 0.0) / size for times in seconds]
        lefts = [sum(times.get(other, 0.0) for other in CLASSES[: CLASSES.index(name)]) / size for times in seconds]
        if any(lengths):
            axes.barh(range(len(arms)), lengths, 0.62, lefts, color=_CLASS_COLOURS[name], label=name)
    axes.set_yticks(range(len(arms)), list(arms))
    axes.invert_yaxis()
    axes.set_xlabel(f"summed turn time, {unit}")
    return _finished(figure, axes, legend=True)


def change_plot(changes: Mapping[str, float]) -> str | None:
    """Return what the change of turn time is made of, in bars to the left (less) and right (more)."""
    shown = {name: value for name, value in changes.items() if value}
    if not shown:
        return None
    size, unit = _unit(max(abs(value) for value in shown.values()))
    figure, axes = _canvas(0.7 + 0.32 * len(shown))
    values = [value / size for value in shown.values()]
    colours = [_CLASS_COLOURS.get(name, _ARMS[5]) for name in shown]
    axes.barh(range(len(shown)), values, 0.62, color=colours)
    axes.axvline(0, color=_INK, linewidth=0.8)
    axes.set_yticks(range(len(shown)), [name.replace("_", " ") for name in shown])
    axes.invert_yaxis()
    axes.set_xlabel(f"change of turn time, {unit} (left: candidate took less)")
    axes.grid(axis="x")
    return _finished(figure, axes, legend=False)


_LABELS_IN_A_ROW = 48
"""Characters of tick labels that fit side by side; with more each is set in two lines."""


def bands_plot(
    arms: Sequence[str], bands: Sequence[str], points: Sequence[Sequence[RatePoint]], along: str
) -> str | None:
    """Return the rate of turns that are not ok in each band of `along`, with intervals, one mark an arm."""
    if not any(point.turns for band in points for point in band):
        return None
    figure, axes = _canvas(2.7)
    for place in range(min(len(arms), _MAX_ARMS)):
        for at, band in enumerate(points):
            if band[place].turns:
                _upright(axes, at - _dodge(place, len(arms)), band[place], place)
        axes.plot([], [], _MARKERS[place], color=_ARMS[place], label=arms[place])
    crowded = sum(map(len, bands)) > _LABELS_IN_A_ROW
    labels = [band.replace("–", "–\n") if crowded else band for band in bands]
    axes.set_xticks(range(len(bands)), labels, fontsize=8 if len(bands) < 7 else 7)
    axes.set_xlim(-0.6, len(bands) - 0.4)
    axes.set_ylim(bottom=0)
    axes.set_xlabel(along)
    axes.set_ylabel("not ok, % of turns")
    axes.grid(axis="y")
    return _finished(figure, axes, legend=len(arms) > 1)


def _upright(axes: Axes, x: float, point: RatePoint, place: int) -> None:
    rate = 100 * point.events / point.turns
    low, high = min(100 * point.low, rate), max(100 * point.high, rate)
    axes.plot([x, x], [low, high], color=_ARMS[place], linewidth=2, solid_capstyle="butt")
    axes.plot([x], [rate], _MARKERS[place], color=_ARMS[place], markersize=6)


class QuantilePoint(NamedTuple):
    """A quantile in milliseconds; limits are None where they are not known."""

    value: float | None
    low: float | None = None
    high: float | None = None


def latency_plot(arms: Sequence[str], rows: Mapping[str, Sequence[QuantilePoint]]) -> str | None:
    """Return quantiles on a logarithmic axis, one row a quantile and one mark an arm."""
    shown = {name: points for name, points in rows.items() if any((point.value or 0) > 0 for point in points)}
    if not shown:
        return None
    figure, axes = _canvas(0.9 + 0.3 * len(shown))
    for place in range(min(len(arms), _MAX_ARMS)):
        for at, points in enumerate(shown.values()):
            point, y = points[place], at - _dodge(place, len(arms))
            if point.value is not None and point.value > 0:
                low, high = point.low or point.value, point.high or point.value
                axes.plot([low, high], [y, y], color=_ARMS[place], linewidth=2, solid_capstyle="butt")
                axes.plot([point.value], [y], _MARKERS[place], color=_ARMS[place], markersize=6)
        axes.plot([], [], _MARKERS[place], color=_ARMS[place], label=arms[place])
    axes.set_yticks(range(len(shown)), list(shown))
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(FuncFormatter(_milliseconds))
    axes.xaxis.set_minor_formatter(FuncFormatter(lambda _value, _: ""))
    axes.grid(axis="x")
    return _finished(figure, axes, legend=len(arms) > 1)


def _milliseconds(value: float, _place: int | None = None) -> str:
    return f"{value:g} ms" if value < 1000 else f"{value / 1000:g} s"


def survival_plot(arms: Sequence[str], curves: Sequence[Sequence[tuple[float, float]]], along: str) -> str | None:
    """Return the share of conversations without a failure so far, in steps."""
    if not any(curves):
        return None
    figure, axes = _canvas(2.7)
    for place, curve in enumerate(curves[:_MAX_ARMS]):
        ats, shares = [0.0, *(at for at, _ in curve)], [100.0, *(100 * share for _, share in curve)]
        axes.step(ats, shares, where="post", color=_ARMS[place], linewidth=1.8, label=arms[place])
    axes.set_ylim(0, 103)
    axes.set_xlim(left=0)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel(along)
    axes.set_ylabel("without a failure, %")
    axes.grid(axis="y")
    return _finished(figure, axes, legend=True)


def _unit(longest_s: float) -> tuple[float, str]:
    return (1.0, "s") if longest_s < 120 else (60.0, "min") if longest_s < 7200 else (3600.0, "h")


def _canvas(height: float) -> tuple[Figure, Axes]:
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(_WIDTH, height), layout="constrained")
        axes = figure.add_subplot()
        axes.set_axisbelow(True)
        axes.tick_params(length=3)
    return figure, axes


def _finished(figure: Figure, axes: Axes, *, legend: bool) -> str:
    with mpl.rc_context(_STYLE):
        if legend:
            handles, labels = axes.get_legend_handles_labels()
            figure.legend(handles, labels, loc="outside upper left", ncols=4, columnspacing=1.2, handlelength=1.4)
        drawn = io.StringIO()
        figure.savefig(drawn, format="svg", transparent=True, metadata={"Date": None})
    return _for_a_page(drawn.getvalue())


def _for_a_page(svg: str) -> str:
    """Return an SVG document as an element to stand in a page: without prologue, metadata, global style and sizes."""
    ET.register_namespace("", _SVG)
    ET.register_namespace("xlink", _XLINK)
    root = ET.fromstring(svg)
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag in (f"{{{_SVG}}}metadata", f"{{{_SVG}}}style"):
                parent.remove(child)
    for element in root.iter(f"{{{_SVG}}}g"):
        element.attrib.pop("id", None)
    for name in ("width", "height", "version"):
        root.attrib.pop(name, None)
    root.set("aria-hidden", "true")
    text = ET.tostring(root, encoding="unicode")
    return re.sub("|".join(_VARIABLES), lambda found: _VARIABLES[found[0]], text)
