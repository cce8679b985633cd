"""Two arms side by side: for a terminal, and as markdown for a pull request."""

import textwrap
from collections.abc import Iterable, Iterator, Sequence

from soak.facts import ClassComparison, Comparison, Discordant, Evidence, Gate, Makespan, Trend, TrendTest, WallClock
from soak.report.arms import ReportArm, differences
from soak.report.cards import difference_lines, difference_markdown
from soak.report.escape import escape_markdown, escape_terminal, one_line
from soak.report.figures import UNKNOWN, count, decimal, interval, milliseconds, p_value, seconds, share
from soak.report.style import Style
from soak.report.table import markdown_table, terminal_table
from soak.report.tasks import task_lines

CLASS_HEADER = (
    "class",
    "baseline",
    "candidate",
    "only b / c",
    "difference, points",
    "rate ratio",
    "p",
    "p corrected",
    "result",
)
LATENCY_HEADER = ("answers", "p50", "p95", "p99", "ratio")

_CHANGE_SHOWN_S = 0.05
_DETAIL = 800
_LATENCY_TITLES = {"ttft_ms": "first token", "tpot_ms": "per token", "e2e_ms": "whole turn"}
PARTS = {
    "tokens": "length of answers",
    "speed": "time per token",
    "first_token": "waiting for the first token",
    "retries": "retries",
    "other": "what turns did not tell",
}
_TREND_TOLD = 0.05
_AXES = {"depth_tokens": "with depth", "turn": "along the conversation", "uptime_s": "with uptime"}
_PER = {"depth_tokens": "1,000 prompt tokens", "turn": "turn", "uptime_s": "hour"}
_GATE_WORDS = {True: "holds: fail", False: "does not hold", None: "not measured: unknown"}


def terminal_comparison(
    comparison: Comparison, width: int = 100, colour: bool = False, gates: Sequence[Gate] = ()
) -> str:
    """
    Return the comparison as text: verdict and sentence first, what voids it, gates, classes, time, latency.

    Prose is wrapped at `width` (40 to 200) columns; tables may be wider. `colour` puts verdict and results in colours.
    `gates` are what became of `--fail-on`.
    """
    width, style = min(max(width, 40), 200), Style(colour)
    lines = [f"{style.verdict(comparison.verdict)}{by_gates(comparison, gates)} — {_names(comparison)}", ""]
    lines += [*differs, ""] if (differs := difference_lines(comparison.cards)) else []
    lines += textwrap.wrap(escape_terminal(comparison.sentence), width)
    if comparison.invalid:
        lines += ["", style.bold("no conclusion may be drawn:"), *_bullets(comparison.invalid, width)]
    if comparison.warnings:
        lines += ["", style.bold("before you read on:"), *_bullets(comparison.warnings, width)]
    if gates:
        lines += ["", style.bold("fail-on:"), *_bullets(map(gate_line, gates), width)]
    table = terminal_table(CLASS_HEADER, [class_row(name, found, style) for name, found in comparison.classes.items()])
    lines += ["", f"  {exposure(comparison)}", style.bold(table[0]), *table[1:]]
    lines += [f"  {line}" for line in evidence_lines(comparison)]
    lines += [f"  {line}" for line in task_lines(comparison)]
    if comparison.details or comparison.notes:
        lines += ["", *_bullets([*comparison.details, *comparison.notes], width, _DETAIL)]
    lines += ["", *(f"  {line}" for line in clock_lines(comparison))]
    lines += [f"  {line}" for line in place_lines(comparison)]
    if comparison.latency:
        lines += ["", *terminal_table(LATENCY_HEADER, latency_rows(comparison))]
    return "\n".join(lines)


def _bullets(texts: Iterable[str], width: int, limit: int = 300) -> list[str]:
    """Return foreign sentences as wrapped points, each of at most `limit` characters."""
    return [
        line
        for text in texts
        for line in textwrap.wrap(one_line(text, limit), width, initial_indent="  - ", subsequent_indent="    ")
    ]


def by_gates(comparison: Comparison, gates: Sequence[Gate]) -> str:
    """
    Return what says that a verdict is somebody's gates', and what the evidence itself says.

    Empty without gates, and where the comparison is invalid: then they decide nothing.
    """
    if not gates or comparison.invalid:
        return ""
    evidence = comparison.verdict_by_evidence
    return " by --fail-on" if evidence in (None, comparison.verdict) else f" by --fail-on; the evidence: {evidence}"


def _names(comparison: Comparison) -> str:
    return f"{one_line(comparison.baseline, 100)} → {one_line(comparison.candidate, 100)}"


def gate_line(gate: Gate) -> str:
    """Return what became of a `--fail-on` condition, with the values it looked at."""
    values = ", ".join(f"{path} is {_value(value)}" for path, value in gate.seen.items())
    return f"{gate.text} {_GATE_WORDS[gate.holds]} ({values})"


def _value(value: float | str | None) -> str:
    if value is None or isinstance(value, str):
        return value or UNKNOWN
    return f"{value:.4g}" if abs(value) < 1e4 else f"{value:,.0f}"


def exposure(comparison: Comparison) -> str:
    """Return how much was compared."""
    pairs, clusters, unpaired = (count(n) for n in (comparison.pairs, comparison.clusters, comparison.unpaired))
    whole = comparison.conversations
    if whole is not None:
        return f"{count(whole.pairs)} paired conversations, {unpaired} turns (never paired), {clusters} episodes"
    return f"{pairs} paired turns, {unpaired} unpaired, {clusters} episodes"


def class_row(name: str, found: ClassComparison, style: Style) -> list[str]:
    """Return one class as cells under `CLASS_HEADER`, safe for a terminal."""
    return [
        one_line(name, 30),
        f"{count(found.baseline.events)} of {count(found.baseline.turns)}",
        f"{count(found.candidate.events)} of {count(found.candidate.turns)}",
        _discordant(found.discordant),
        _difference(found),
        _ratio(found),
        p_value(found.p_value),
        p_value(found.p_adjusted),
        style.turn_class(found.result),
    ]


def _discordant(found: Discordant | None) -> str:
    return UNKNOWN if found is None else f"{count(found.baseline_only)} / {count(found.candidate_only)}"


def _difference(found: ClassComparison) -> str:
    if found.difference is None:
        return UNKNOWN
    return f"{found.difference * 100:+.2f} ({interval(found.ci95, scale=100)})"


def _ratio(found: ClassComparison) -> str:
    if found.rate_ratio is None:
        return UNKNOWN
    return f"{decimal(found.rate_ratio)} ({interval(found.rate_ratio_ci95)})"


def evidence_lines(comparison: Comparison) -> list[str]:
    """Return the sequential evidence of each class that had an event, safe for a terminal."""
    return [
        f"evidence on {one_line(name, 30)}: {_evidence(found.evidence)}"
        for name, found in comparison.classes.items()
        if found.evidence is not None and found.baseline.events + found.candidate.events
    ]


def _evidence(evidence: Evidence) -> str:
    text = f"e-value {evidence.e_value:.3g} (highest {evidence.e_value_max:.3g}; decided at {evidence.bar:.3g})"
    if evidence.decided_after is None:
        return f"{text}, not decided after {count(evidence.conversations)} conversations"
    return f"{text}, {evidence.direction or 'decided'} after {count(evidence.decided_after)} pairs"


def clock_lines(comparison: Comparison) -> list[str]:
    """Return the lines on time, safe for a terminal: ratio, what explains it, makespan, usable tokens, drift."""
    clock = comparison.wall_clock
    if clock.baseline_s is None or clock.candidate_s is None:
        lines = ["turn time: not measured in both arms"]
    else:
        lines = [*_turn_time(clock, clock.baseline_s, clock.candidate_s), *_explained(clock)]
    if clock.makespan is not None:
        lines += _makespan(clock.makespan)
    return [*lines, *_goodput(comparison), *_drift(comparison), *_noise(comparison)]


def _turn_time(clock: WallClock, baseline_s: float, candidate_s: float) -> Iterator[str]:
    bound = {"at_least": ", at least", "at_most": ", at most", "unknown": ", not bounded"}.get(clock.bound, "")
    yield (
        f"turn time: {seconds(baseline_s)} → {seconds(candidate_s)},"
        f" ratio {decimal(clock.ratio)} ({interval(clock.ci95)}){bound}"
    )


def _explained(clock: WallClock) -> Iterator[str]:
    yield from _changes(clock.explained_by, "in pairs whose worse turn is")
    if clock.ratio_ok is not None:
        yield f"  ratio {decimal(clock.ratio_ok)} ({interval(clock.ratio_ok_ci95)}) where both turns are ok"
    yield from _changes(clock.explained_by_part, "by")
    if clock.censored_pairs:
        yield f"  pairs cut by a limit, whose times are lower bounds: {count(clock.censored_pairs)}"


def _changes(changes: dict[str, float], wording: str) -> Iterator[str]:
    for name, change in sorted(changes.items(), key=lambda item: -abs(item[1])):
        if abs(change) >= _CHANGE_SHOWN_S:
            sign = "+" if change > 0 else "−"
            yield f"  {sign}{seconds(abs(change))} {wording} {PARTS.get(name, one_line(name, 30))}"


def _makespan(makespan: Makespan) -> Iterator[str]:
    yield (
        f"from first to last turn, {count(makespan.in_flight)} conversations at once: {seconds(makespan.baseline_s)} →"
        f" {seconds(makespan.candidate_s)}, ratio {decimal(makespan.ratio)}; without garbage turns"
        f" {seconds(makespan.baseline_without_garbage_s)} → {seconds(makespan.candidate_without_garbage_s)},"
        f" ratio {decimal(makespan.ratio_without_garbage)}"
    )


def _goodput(comparison: Comparison) -> Iterator[str]:
    sides = [(comparison.goodput.get(name)) for name in ("baseline", "candidate")]
    if any(sides):
        rates = " → ".join(decimal(side.usable_tokens_per_s if side else None, 1) for side in sides)
        wasted = " → ".join(count(side.wasted_tokens if side else None) for side in sides)
        yield f"usable tokens/s: {rates}; tokens spent on bad turns: {wasted}"
    if any(side and side.within_limits is not None for side in sides):
        within = " → ".join(share(side.within_limits if side else None) for side in sides)
        yield f"turns ok and within the stated limits: {within}"


def _drift(comparison: Comparison) -> Iterator[str]:
    for name, drift in comparison.drift.items():
        if drift.tpot_percent_per_hour is not None:
            change = f"{drift.tpot_percent_per_hour:+.2f} % an hour ({interval(drift.ci95)})"
            yield f"{one_line(name, 30)}: time per token drifts by {change}"
        elif drift.unknown_because is not None:
            yield f"{one_line(name, 30)}: drift of the time per token: {one_line(drift.unknown_because, 200)}"


def _noise(comparison: Comparison) -> Iterator[str]:
    floor = comparison.noise_floor
    if floor is not None:
        yield (
            f"noise floor (both arms ran one build): {count(floor.class_flips)} pairs changed class"
            f" ({share(floor.class_flip_rate)}); turn times differ by a factor of"
            f" {decimal(floor.turn_time_factor_p50)} in half of the pairs,"
            f" {decimal(floor.turn_time_factor_p95)} in 95 %"
        )


def place_lines(comparison: Comparison) -> list[str]:
    """Return where and when turns failed, safe for a terminal: time to the first failure, and trends that are seen."""
    return [*_first_failures(comparison), *_trends(comparison)]


def _first_failures(comparison: Comparison) -> Iterator[str]:
    for one in comparison.survival:
        if one.unit == "turns" and one.baseline.failed + one.candidate.failed:
            reached = " → ".join(
                f"{count(side.failed)} of {count(side.conversations)} failed"
                + ("" if side.median is None else f" (median turn {count(side.median)})")
                for side in (one.baseline, one.candidate)
            )
            yield f"conversations up to their first failure: {reached}; p {p_value(one.p_value)} by episodes"


def _trends(comparison: Comparison) -> Iterator[str]:
    """
    Yield each arm's trend whose p-value, times the tests made (Bonferroni), says that there is one.

    That there is none is not said of the others.
    """
    tests = [
        (name, found, trend)
        for trend in comparison.trends
        for name, found in (("baseline", trend.baseline), ("candidate", trend.candidate))
        if found.p_value is not None
    ]
    for name, found, trend in tests:
        if (found.p_value or 0.0) * len(tests) < _TREND_TOLD:
            yield f"{name}: failures change {_AXES[trend.axis]}: {trend_text(found, trend)}, one of {len(tests)} tests"


def trend_text(found: TrendTest, trend: Trend) -> str:
    """Return a trend's slope, where one is told, and its p-value."""
    slope = ""
    if found.slope is not None:
        slope = f"{100 * found.slope:+.2g} points per {_PER[trend.axis]} ({interval(found.slope_ci95, scale=100)}), "
    return f"{slope}p {p_value(found.p_value)}"


def latency_rows(comparison: Comparison) -> list[list[str]]:
    """Return latency as cells under `LATENCY_HEADER`, safe for a terminal."""
    rows = []
    for name, found in comparison.latency.items():
        cells = [one_line(_LATENCY_TITLES.get(name, name), 30)]
        for quantile in LATENCY_HEADER[1:4]:
            sides = (found.baseline.get(quantile), found.candidate.get(quantile))
            cells.append(" → ".join(milliseconds(side.value if side else None) for side in sides))
        rows.append([*cells, f"{decimal(found.ratio)} ({interval(found.ratio_ci95)})"])
    return rows


def markdown_comparison(comparison: Comparison, gates: Sequence[Gate] = (), arms: Sequence[ReportArm] = ()) -> str:
    """
    Return the comparison as markdown: one paragraph to read, the figures folded away in parts.

    `gates` are what became of `--fail-on`; of two `arms` the differences of what they ran are listed.
    """
    names = f"{escape_markdown(comparison.baseline)} → {escape_markdown(comparison.candidate)}"
    lines = [f"**{comparison.verdict.upper()}**{by_gates(comparison, gates)} — {names}", ""]
    lines += [*ran, ""] if (ran := difference_markdown(comparison.cards)) else []
    lines += [escape_markdown(comparison.sentence)]
    for title, texts in (
        ("No conclusion may be drawn:", comparison.invalid),
        ("Before you read on:", comparison.warnings),
        ("Gates:", [gate_line(gate) for gate in gates]),
    ):
        lines += ["", title, "", *_markdown_list(texts)] if texts else []
    lines += _folded("Figures", _markdown_figures(comparison))
    lines += _folded("Time and latency", _markdown_times(comparison))
    differs = differences(arms)
    if differs:
        rows = [[escape_markdown(one_line(cell, 120)) for cell in (row.name, *row.values)] for row in differs]
        header = ["differs", *(escape_markdown(arm.name) for arm in arms)]
        lines += _folded("What the arms ran differently", markdown_table(header, rows))
    if comparison.notes:
        lines += _folded("Notes", _markdown_list(comparison.notes))
    return "\n".join(lines)


def _folded(title: str, lines: Sequence[str]) -> list[str]:
    """Return lines folded under a title of our own; the blank lines make markdown read what is inside as markdown."""
    return ["", f"<details><summary>{title}</summary>", "", *lines, "", "</details>"]


def _markdown_list(texts: Iterable[str]) -> list[str]:
    return [f"- {escape_markdown(text.strip())}" for text in texts]


def _markdown_figures(comparison: Comparison) -> list[str]:
    rows = [
        [escape_markdown(cell) for cell in class_row(name, found, Style(False))]
        for name, found in comparison.classes.items()
    ]
    tests = sorted({found.test for found in comparison.classes.values()})
    return [
        f"{exposure(comparison)}. Intervals are 95 %.",
        "",
        *markdown_table(CLASS_HEADER, rows),
        "",
        *_markdown_list(
            [*task_lines(comparison), *evidence_lines(comparison), f"tests: {'; '.join(tests)}", *comparison.details]
        ),
    ]


def _markdown_times(comparison: Comparison) -> list[str]:
    lines = _markdown_list([*clock_lines(comparison), *place_lines(comparison)])
    if comparison.latency:
        rows = [[escape_markdown(cell) for cell in row] for row in latency_rows(comparison)]
        lines += ["", *markdown_table(LATENCY_HEADER, rows)]
    return lines
