"""A search for the first bad build, for a terminal: what it came to, step by step, and what that rests on."""

import math
import textwrap

from soak.facts import Bisection, BisectStep
from soak.report.escape import escape_terminal, one_line
from soak.report.figures import UNKNOWN, count, seconds, share
from soak.report.style import Style
from soak.report.table import terminal_table

_HEADER = ("build", "", "failed", "rate, surely", "odds bad : good", "turns sent", "time")
_LOG_MAX = 30.0
_WIDTHS = (40, 200)


def terminal_bisection(found: Bisection, width: int = 100, colour: bool = False) -> str:
    """Return what a bisection came to as text of about `width` columns."""
    width, style = min(max(width, _WIDTHS[0]), _WIDTHS[1]), Style(colour)
    lines = _wrapped(f"{found.outcome.upper().replace('_', ' ')} — {escape_terminal(found.sentence)}", width)
    if found.steps:
        lines += ["", *terminal_table(_HEADER, [_row(step, style) for step in found.steps])]
    lines += ["", *_wrapped(_rests_on(found), width)]
    for step in found.steps:
        if step.outcome in ("undecided", "untestable"):
            lines += _wrapped(f"{one_line(step.build, 60)}: {escape_terminal(step.text)}", width)
    for left in found.left_out:
        lines += _wrapped(f"left out: {one_line(left.build, 60)}: {escape_terminal(left.why)}", width)
    return "\n".join(lines + _next(found))


def step_line(step: BisectStep) -> str:
    """Return one line on a step that has just ended, safe to print."""
    return f"{one_line(step.build, 60)}: {step.outcome} — {escape_terminal(step.text)}"


def _row(step: BisectStep, style: Style) -> tuple[str, ...]:
    if step.outcome == "untestable":
        return one_line(step.build, 60), style.turn_class(step.outcome), UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN
    return (
        one_line(step.build, 60),
        style.turn_class(step.outcome),
        f"{count(step.failures)} of {count(step.turns)}",
        f"{share(step.rate_low)} to {share(step.rate_high)}",
        UNKNOWN if step.log_ratio is None else _odds(step.log_ratio),
        count(step.turns_sent),
        seconds(step.wall_s),
    )


def _odds(log_ratio: float) -> str:
    """Return a likelihood ratio as odds, the smaller side 1."""
    factor = count(math.exp(min(abs(log_ratio), _LOG_MAX))) + ("+" if abs(log_ratio) > _LOG_MAX else "")
    return f"{factor} : 1" if log_ratio >= 0 else f"1 : {factor}"


def _rests_on(found: Bisection) -> str:
    classes = " or ".join(found.classes)
    said = f"A turn fails if it is {classes}."
    if found.good_rate is not None and found.bad_rate is not None:
        measured = " (measured on the ends)" if found.measured else ""
        said += f" Good is a rate up to {share(found.good_rate)}, bad one from {share(found.bad_rate)}{measured}."
    return (
        f"{said} {count(found.turns)} turns were sent. A step calls a good build bad with a chance of at most"
        f" {share(found.alpha)}, a bad one good with {share(found.beta)}; that any of these steps is wrong"
        f" has a chance of at most {share(found.error_bound)}, if turns fail independently of those before."
    )


def _next(found: Bisection) -> list[str]:
    if found.outcome == "open":
        return ["", f"go on with: soak resume {one_line(found.run, 200)}"]
    if found.outcome in ("narrowed", "ends_alike"):
        return ["", "more turns may tell: begin a new one between these builds with a greater --turns-per-step"]
    return []


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, subsequent_indent="  ", break_on_hyphens=False) or [""]
