"""Two arms side by side: for a terminal, and as markdown for a pull request."""

import textwrap

from soak.facts import ClassComparison, Comparison, WallClock
from soak.report.escape import escape_markdown, escape_terminal, one_line
from soak.report.figures import count, decimal, interval, p_value, seconds
from soak.report.style import Style
from soak.report.table import markdown_table, terminal_table

_HEADER = [
    "class",
    "baseline",
    "candidate",
    "only b / c",
    "difference, points",
    "rate ratio",
    "p",
    "p corrected",
    "result",
]

_CHANGE_SHOWN_S = 0.05


def terminal_comparison(comparison: Comparison, width: int = 100, colour: bool = False) -> str:
    """
    Return the comparison as text: verdict and sentence first, what voids it, classes, time.

    Prose is wrapped at `width` (40 to 200) columns; tables may be wider. `colour` puts verdict and results in colours.
    """
    width, style = min(max(width, 40), 200), Style(colour)
    lines = [f"{style.verdict(comparison.verdict)} — {_names(comparison)}", ""]
    lines += textwrap.wrap(escape_terminal(comparison.sentence), width)
    if comparison.invalid:
        lines += ["", style.bold("no conclusion may be drawn:")]
        lines += [f"  - {one_line(reason, 300)}" for reason in comparison.invalid]
    table = terminal_table(_HEADER, [_row(name, found, style) for name, found in comparison.classes.items()])
    lines += ["", f"  {_exposure(comparison)}", style.bold(table[0]), *table[1:]]
    lines += ["", *(f"  {line}" for line in _clock(comparison.wall_clock))]
    return "\n".join(lines)


def _names(comparison: Comparison) -> str:
    return f"{one_line(comparison.baseline, 100)} → {one_line(comparison.candidate, 100)}"


def _exposure(comparison: Comparison) -> str:
    pairs, clusters, unpaired = (count(n) for n in (comparison.pairs, comparison.clusters, comparison.unpaired))
    return f"{pairs} paired turns, {unpaired} unpaired, {clusters} episodes"


def _row(name: str, found: ClassComparison, style: Style) -> list[str]:
    return [
        one_line(name, 30),
        f"{count(found.baseline.events)} of {count(found.baseline.turns)}",
        f"{count(found.candidate.events)} of {count(found.candidate.turns)}",
        f"{count(found.discordant.baseline_only)} / {count(found.discordant.candidate_only)}",
        _difference(found),
        _ratio(found),
        p_value(found.p_value),
        p_value(found.p_adjusted),
        style.turn_class(found.result),
    ]


def _difference(found: ClassComparison) -> str:
    if found.difference is None:
        return decimal(None)
    return f"{found.difference * 100:+.2f} ({interval(found.ci95, scale=100)})"


def _ratio(found: ClassComparison) -> str:
    return (
        decimal(found.rate_ratio)
        if found.rate_ratio is None
        else (f"{decimal(found.rate_ratio)} ({interval(found.rate_ratio_ci95)})")
    )


def _clock(clock: WallClock) -> list[str]:
    """Return the lines on turn time; they hold no foreign text but class names of a comparison."""
    if clock.baseline_s is None or clock.candidate_s is None:
        return ["turn time: not measured in both arms"]
    lines = [
        f"turn time: {seconds(clock.baseline_s)} → {seconds(clock.candidate_s)},"
        f" ratio {decimal(clock.ratio)} ({interval(clock.ci95)})"
    ]
    lines += [
        f"  {'+' if change > 0 else '−'}{seconds(abs(change))} in pairs whose worse turn is {one_line(name, 30)}"
        for name, change in sorted(clock.explained_by.items(), key=lambda item: -abs(item[1]))
        if abs(change) >= _CHANGE_SHOWN_S
    ]
    if clock.ratio_ok is not None:
        lines.append(f"  ratio {decimal(clock.ratio_ok)} ({interval(clock.ratio_ok_ci95)}) where both turns are ok")
    if clock.censored_pairs:
        lines.append(f"  pairs cut by a limit, whose times are lower bounds: {count(clock.censored_pairs)}")
    return lines


def markdown_comparison(comparison: Comparison) -> str:
    """Return the comparison as markdown: one paragraph to read, the figures folded away."""
    names = f"{escape_markdown(comparison.baseline)} → {escape_markdown(comparison.candidate)}"
    lines = [f"**{comparison.verdict.upper()}** — {names}", "", escape_markdown(comparison.sentence)]
    if comparison.invalid:
        lines += ["", "No conclusion may be drawn:", "", *(f"- {escape_markdown(why)}" for why in comparison.invalid)]
    rows = [
        [escape_markdown(cell) for cell in _row(name, found, Style(False))]
        for name, found in comparison.classes.items()
    ]
    lines += ["", "<details><summary>Figures</summary>", "", f"{_exposure(comparison)}. Intervals are 95 %.", ""]
    lines += [
        *markdown_table(_HEADER, rows),
        "",
        *(f"- {escape_markdown(text.strip())}" for text in _clock(comparison.wall_clock)),
    ]
    tests = {found.test for found in comparison.classes.values()}
    lines += [f"- tests: {escape_markdown('; '.join(sorted(tests)))}", "", "</details>"]
    return "\n".join(lines)
