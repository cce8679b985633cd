"""
One self-contained HTML page: verdicts, counts, plots, what was run, and a browser of the turns that are not ok.

Nothing is requested from anywhere: style, script and plots stand in the page, and its content security policy allows
no more. The only script is ours, named by its hash; it filters the list of turns, which is readable without it. Every
value that a template prints is escaped twice over: control, bidirectional and other invisible characters are written
out (`escape_terminal`), then markup is (`jinja2` with autoescape); only what this room made as markup is not.

Imported on demand: it needs the extra `report` (jinja2, matplotlib).
"""

import base64
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import jinja2
from markupsafe import Markup

from soak.facts import ArmSummary, Comparison, Gate, Summary
from soak.report import bands, plots
from soak.report.arms import ReportArm, environment_rows
from soak.report.bad_turns import bad_turns
from soak.report.comparison import (
    CLASS_HEADER,
    LATENCY_HEADER,
    PARTS,
    by_gates,
    class_row,
    clock_lines,
    evidence_lines,
    exposure,
    gate_line,
    latency_rows,
)
from soak.report.engine import ACCEPTANCE_HEADER, acceptance_rows, arm_engine_lines
from soak.report.escape import escape_terminal, shorten
from soak.report.figures import count, decimal, milliseconds, seconds, share
from soak.report.style import Style
from soak.report.tasks import TASKS_HEADER, task_lines, task_rows

_TEMPLATES = files("soak.report") / "templates"
_VALUE_MAX = 4000
_QUANTILES = ("p50", "p95", "p99")
_LATENCIES = {"ttft_ms": "first token", "tpot_ms": "per token", "e2e_ms": "whole turn"}
_SURVIVAL = {"turns": "turns", "tokens": "generated tokens", "s": "seconds of turn time"}


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A plot (SVG of our own making) under a title, with a sentence on how to read it."""

    title: str
    svg: Markup
    caption: str = ""


def figure(title: str, svg: str | None, caption: str = "") -> list[Figure]:
    """Return a plot of our own making as a figure; none of none."""
    return [] if svg is None else [Figure(title=title, svg=Markup(svg), caption=caption)]


@dataclass(frozen=True, kw_only=True)
class Table:
    """Cells under a header."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, kw_only=True)
class Section:
    """A part of the page: sentences, tables and plots under a title."""

    title: str
    anchor: str
    lines: Sequence[str] = ()
    tables: Sequence[Table] = ()
    figures: Sequence[Figure] = ()

    @property
    def empty(self) -> bool:
        """Whether there is nothing to show."""
        return not (self.lines or self.tables or self.figures)


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """A verdict with the paragraph or the reasons it rests on, and lists of points under titles."""

    of: str
    verdict: str
    by: str = ""
    sentence: str = ""
    points: Sequence[tuple[str, Sequence[str]]] = ()


def comparison_page(comparison: Comparison, arms: Sequence[ReportArm], gates: Sequence[Gate] = ()) -> str:
    """Return the page of a comparison; `arms` are the baseline and the candidate, named so."""
    points = (
        ("No conclusion may be drawn", comparison.invalid),
        ("Before you read on", comparison.warnings),
        ("Gates", [gate_line(gate) for gate in gates]),
        ("Notes", comparison.notes),
    )
    verdict = Verdict(
        of=f"{comparison.baseline} → {comparison.candidate}",
        verdict=comparison.verdict,
        by=by_gates(comparison, gates).strip(),
        sentence=comparison.sentence,
        points=[(title, texts) for title, texts in points if texts],
    )
    sections = [
        _tasks(arms, task_lines(comparison)),
        _compared_counts(comparison),
        _compared_time(comparison, arms),
        _compared_places(comparison, arms),
        _compared_latency(comparison, arms),
        _engine(arms),
    ]
    return _page("soak: a comparison", [verdict], sections, arms)


def runs_page(summaries: Sequence[Summary], arms: Sequence[ReportArm]) -> str:
    """Return the page of one or more runs that are not set against each other; `arms` are all arms of all of them."""
    verdicts = [
        Verdict(
            of=f"{summary.run} ({summary.scenario}, {summary.state})",
            verdict=summary.verdict,
            points=[("Why", summary.reasons)] if summary.reasons else [],
        )
        for summary in summaries
    ]
    sections = [
        _tasks(arms),
        _run_counts(arms),
        _run_time(arms),
        _places(arms, _bands(arms)),
        _run_latency(arms),
        _engine(arms),
    ]
    return _page("soak: a report", verdicts, sections, arms)


def page_without_arms(title: str, verdicts: Sequence[Verdict], sections: Iterable[Section], soak_version: str) -> str:
    """Return a page of verdicts and sections alone, for what is not a run's."""
    return _page(title, verdicts, sections, (), soak_version)


def _page(
    title: str,
    verdicts: Sequence[Verdict],
    sections: Iterable[Section],
    arms: Sequence[ReportArm],
    soak_version: str = "",
) -> str:
    style, script = (_own(name) for name in ("page.css", "page.js"))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        _environment()
        .get_template("page.html")
        .render(
            title=title,
            verdicts=verdicts,
            sections=[section for section in sections if not section.empty],
            arms=arms,
            environment=environment_rows(arms),
            turns=bad_turns(arms),
            style=Markup(style),
            script=Markup(script),
            script_hash=f"sha256-{digest}",
            versions=", ".join(dict.fromkeys(arm.manifest.soak_version for arm in arms)) or soak_version,
        )
    )


def _own(name: str) -> str:
    return (_TEMPLATES / name).read_text(encoding="utf-8").strip()


@cache
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.FunctionLoader(_own),
        autoescape=True,
        finalize=_finalize,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _finalize(value: Any) -> Any:
    """Return a value as a template may print it: text without a living control or format character, and bounded."""
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    return escape_terminal(shorten(value, _VALUE_MAX), keep_lines=True)


# -- a comparison --------------------------------------------------------------------------------------------------


def _compared_counts(comparison: Comparison) -> Section:
    rows = [class_row(name, found, Style(False)) for name, found in comparison.classes.items()]
    plot = plots.rates_plot(("baseline", "candidate"), bands.compared_rates(comparison))
    return Section(
        title="Failures",
        anchor="failures",
        lines=[
            f"{exposure(comparison)}. Intervals are 95 %; p is two-sided; corrected: for several classes.",
            *evidence_lines(comparison),
            *comparison.details,
        ],
        tables=[Table(header=CLASS_HEADER, rows=rows)],
        figures=[
            *figure("Rate of each class", plot, "Each arm by itself, turns taken as independent."),
            *_evidence_figure(comparison),
        ],
    )


def _evidence_figure(comparison: Comparison) -> list[Figure]:
    found = {
        name: one.evidence
        for name, one in comparison.classes.items()
        if one.evidence is not None and one.baseline.events + one.candidate.events
    }
    bar = max((evidence.bar for evidence in found.values()), default=0.0)
    plot = plots.evidence_plot({name: evidence.path for name, evidence in found.items()}, bar) if bar > 0 else None
    return figure(
        "Evidence that the arms differ, pair by pair",
        plot,
        "It may be looked at after every pair. Below 1 it speaks for “alike”; at the dashed line it decides.",
    )


def _compared_time(comparison: Comparison, arms: Sequence[ReportArm]) -> Section:
    clock = comparison.wall_clock
    changes = plots.change_plot(clock.explained_by)
    parts = plots.change_plot({PARTS[name]: value for name, value in clock.explained_by_part.items() if name in PARTS})
    return Section(
        title="Wall clock",
        anchor="time",
        lines=clock_lines(comparison),
        figures=[
            *_time_figure(arms),
            *figure("The change, by the worse class of the pair", changes),
            *figure("The change, by what took longer or shorter", parts),
        ],
    )


def _compared_latency(comparison: Comparison, arms: Sequence[ReportArm]) -> Section:
    if not comparison.latency:
        return _run_latency(arms)
    rows = {
        f"{_LATENCIES.get(name, name)}, {quantile}": [
            plots.QuantilePoint(one.value, one.low95, one.high95) if one else plots.QuantilePoint(None)
            for one in (found.baseline.get(quantile), found.candidate.get(quantile))
        ]
        for name, found in comparison.latency.items()
        for quantile in _QUANTILES
    }
    return Section(
        title="Latency",
        anchor="latency",
        tables=[Table(header=LATENCY_HEADER, rows=latency_rows(comparison))],
        figures=figure("Quantiles with 95 % intervals", plots.latency_plot(("baseline", "candidate"), rows)),
    )


def _compared_places(comparison: Comparison, arms: Sequence[ReportArm]) -> Section:
    told = [bands.trend_bands(trend) for trend in comparison.trends]
    return _places(arms, told or _bands(arms), _survival_figures(comparison))


def _survival_figures(comparison: Comparison) -> list[Figure]:
    figures: list[Figure] = []
    for one in comparison.survival:
        curves = (one.baseline.curve, one.candidate.curve)
        plot = plots.survival_plot(("baseline", "candidate"), curves, _SURVIVAL[one.unit])
        caption = f"Log-rank p {decimal(one.p_log_rank)}; by episodes {decimal(one.p_value)}. A picture, not the test."
        figures += figure(f"Conversations without a failure, by {_SURVIVAL[one.unit]}", plot, caption)
    return figures


# -- runs ----------------------------------------------------------------------------------------------------------


def _run_counts(arms: Sequence[ReportArm]) -> Section:
    rows = [
        [name, *(cell for arm in arms for cell in _counted(arm.summary, name))]
        for name in ("ok", *bands.FAILURES, "skipped", "indeterminate", "aborted")
        if name != "aborted" or any(arm.summary.turns.aborted for arm in arms)
    ]
    header = [
        "class",
        *(f"{lead}{what}" for arm in arms for lead in [_lead(arms, arm)] for what in ("turns", "rate", "95 % below")),
    ]
    plot = plots.rates_plot([arm.name for arm in arms], bands.run_rates(arms))
    return Section(
        title="Turns",
        anchor="failures",
        lines=[line for arm in arms for line in _invalid(arm)],
        tables=[Table(header=header, rows=rows)],
        figures=figure("Rate of each class", plot, "Turns taken as independent."),
    )


def _tasks(arms: Sequence[ReportArm], lines: Sequence[str] = ()) -> Section:
    """Return what an agent made of its tasks; empty where none worked on any."""
    rows = task_rows({arm.name: arm.summary for arm in arms})
    tables = [Table(header=TASKS_HEADER, rows=rows)] if rows else []
    return Section(title="Tasks", anchor="tasks", lines=lines, tables=tables)


def _lead(arms: Sequence[ReportArm], arm: ReportArm) -> str:
    return f"{arm.name}: " if len(arms) > 1 else ""


def _invalid(arm: ReportArm) -> list[str]:
    return [f"{arm.name} is invalid, it tested nothing: {why}" for why in arm.summary.invalid_reasons]


def _counted(summary: ArmSummary, name: str) -> tuple[str, str, str]:
    if name == "aborted":  # as planned: its share says nothing of the server
        return count(summary.turns.aborted), "", ""
    bound = "" if name == "ok" else share(summary.rate_upper95.get(name))
    return count(getattr(summary.turns, name)), share(summary.rate.get(name)), bound


def _time_figure(arms: Sequence[ReportArm]) -> list[Figure]:
    plot = plots.time_plot([arm.name for arm in arms], [arm.summary.busy_s for arm in arms])
    return figure("Turn time by class", plot, "All finished turns; turns overlap, so it may exceed the time passed.")


def _run_time(arms: Sequence[ReportArm]) -> Section:
    lines = [
        f"{_lead(arms, arm)}{seconds(arm.summary.wall_s)} passed,"
        f" {decimal(arm.summary.usable_tokens_per_s, 1)} usable tokens/s,"
        f" {count(arm.summary.tokens.usable)} of {count(arm.summary.tokens.completion)} completion tokens usable;"
        f" acceptance length {decimal(arm.summary.speculation.acceptance_length)},"
        f" prefix-cache hits {share(arm.summary.prefix_cache.hit_rate)}"
        for arm in arms
    ]
    return Section(title="Wall clock", anchor="time", lines=lines, figures=_time_figure(arms))


def _run_latency(arms: Sequence[ReportArm]) -> Section:
    points: dict[str, list[plots.QuantilePoint]] = {}
    rows = []
    for name, title in _LATENCIES.items():
        sides = [getattr(arm.summary, name) for arm in arms]
        for quantile in _QUANTILES:
            points[f"{title}, {quantile}"] = [plots.QuantilePoint(getattr(side, quantile)) for side in sides]
        rows += [
            [f"{_lead(arms, arm)}{title}", *(milliseconds(getattr(side, quantile)) for quantile in _QUANTILES)]
            for arm, side in zip(arms, sides, strict=True)
        ]
    plot = plots.latency_plot([arm.name for arm in arms], points)
    tables = [Table(header=["latency", *_QUANTILES], rows=rows)] if plot else []
    return Section(title="Latency", anchor="latency", tables=tables, figures=figure("Quantiles", plot))


def _engine(arms: Sequence[ReportArm]) -> Section:
    """Return the engine's own evidence, turn by turn; empty where no arm has any."""
    found = [(_lead(arms, arm), arm.summary.evidence) for arm in arms if arm.summary.evidence is not None]
    rows = [[f"{lead}{name}", *cells] for lead, evidence in found for name, *cells in acceptance_rows(evidence)]
    return Section(
        title="What the engine did turn by turn",
        anchor="engine",
        lines=[f"{lead}{line.strip()}" for lead, evidence in found for line in arm_engine_lines(evidence)],
        tables=[Table(header=ACCEPTANCE_HEADER, rows=rows)] if rows else [],
    )


def _bands(arms: Sequence[ReportArm]) -> list[bands.Banded]:
    return [one for one in (bands.depth_bands(arms), bands.uptime_bands(arms)) if one is not None]


def _places(arms: Sequence[ReportArm], found: Sequence[bands.Banded], more: Sequence[Figure] = ()) -> Section:
    """Return where in a conversation and when in the run turns failed."""
    names = [arm.name for arm in arms]
    figures: list[Figure] = []
    for one in found:
        figures += figure(one.title, plots.bands_plot(names, one.labels, one.points, one.along), one.caption)
    return Section(title="Where and when turns failed", anchor="places", figures=[*figures, *more])
