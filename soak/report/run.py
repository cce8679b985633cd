"""One run's summary for a terminal: verdict first, then classes, the worst turns, speed, engine, what to do next."""

import textwrap
from collections.abc import Mapping

from soak.facts import CLASSES, ArmSummary, Summary, TurnClass
from soak.report.cards import card_line
from soak.report.engine import arm_engine_lines
from soak.report.escape import escape_terminal, one_line
from soak.report.figures import UNKNOWN, bound, count, decimal, milliseconds, seconds, share
from soak.report.style import Style
from soak.report.table import terminal_table
from soak.report.tasks import TASKS_HEADER, task_rows

_MEANING = {
    "pass": "every threshold held in a valid run",
    "fail": "a threshold is broken",
    "unknown": "there is too little evidence to say",
}
_WORST_SHOWN = 5
_CLASS_WIDTH = max(map(len, CLASSES))
_MAX_WIDTH = 200


def terminal_summary(summary: Summary, width: int = 100, colour: bool = False) -> str:
    """
    Return the summary as text of about `width` columns (40 to 200); with `colour`, verdict and classes in ANSI colours.

    Tables may be wider where columns need it.
    """
    width, style = min(max(width, 40), _MAX_WIDTH), Style(colour)
    lines = _verdict(summary, width, style)
    lines += ["", *_classes(summary.arms, style)]
    if any(arm.tasks is not None for arm in summary.arms.values()):
        table = terminal_table(TASKS_HEADER, task_rows(summary.arms))
        lines += ["", style.bold(table[0]), *table[1:]]
    for name, arm in summary.arms.items():
        lines += ["", *_arm(name, arm, width, style, named=len(summary.arms) > 1)]
    lines += ["", *_next(summary)]
    return "\n".join(lines)


def _verdict(summary: Summary, width: int, style: Style) -> list[str]:
    scenario = one_line(summary.scenario, 60)
    first = (
        f"{style.verdict(summary.verdict)} — {_MEANING[summary.verdict]} ({scenario}, {one_line(summary.state, 20)})"
    )
    lines = [first]
    for reason in summary.reasons:
        lines += _wrapped(escape_terminal(reason), width)
    return lines


def _wrapped(text: str, width: int, *, bullet: str = "  - ") -> list[str]:
    return textwrap.wrap(text, width, initial_indent=bullet, subsequent_indent=" " * len(bullet)) or [bullet.rstrip()]


def _classes(arms: Mapping[str, ArmSummary], style: Style) -> list[str]:
    """Return the table of classes: turns, their share, 95 % upper bound, and turn time; arms side by side."""
    header = ["class"]
    for name in arms:
        header += [one_line(name, 30) if len(arms) > 1 else "turns", "of finished", "95 % below", "turn time"]
    rows = [[class_, *(cell for arm in arms.values() for cell in _class_cells(arm, class_))] for class_ in CLASSES]
    rows.append(["finished", *(cell for arm in arms.values() for cell in _finished_cells(arm))])
    for what in ("skipped", "indeterminate", "aborted", "not_reached"):
        if any(getattr(arm.turns, what) for arm in arms.values()):
            rows.append(
                [what, *(cell for arm in arms.values() for cell in (count(getattr(arm.turns, what)), "", "", ""))]
            )
    lines = terminal_table(header, rows)
    return [style.bold(lines[0]), *lines[1:]]


def _class_cells(arm: ArmSummary, class_: TurnClass) -> tuple[str, str, str, str]:
    below = "" if class_ == "ok" else bound(arm.rate_upper95.get(class_))
    return count(getattr(arm.turns, class_)), share(arm.rate.get(class_)), below, seconds(arm.busy_s.get(class_))


def _finished_cells(arm: ArmSummary) -> tuple[str, str, str, str]:
    return count(arm.turns.finished), "", "", seconds(sum(arm.busy_s.values()))


def _arm(name: str, arm: ArmSummary, width: int, style: Style, *, named: bool) -> list[str]:
    lines = [style.bold(one_line(name, 60))] if named else []
    lines += [_build(arm)]
    lines += _wrapped(running, width, bullet="  running: ") if (running := card_line(arm.environment)) else []
    lines += _worst(arm, width, style)
    lines += [_speed(arm), *_latency(arm), _engine(arm)]
    if arm.evidence is not None:
        for line in arm_engine_lines(arm.evidence):
            indent = " " * (4 + len(line) - len(line.lstrip()))
            lines += _wrapped(line.lstrip(), width, bullet=indent)
    return [*lines, *_skipped(arm)]


def _worst(arm: ArmSummary, width: int, style: Style) -> list[str]:
    """Return a line of evidence for each of the worst turns."""
    shown = arm.worst[:_WORST_SHOWN]
    if not shown:
        return []
    names = [one_line(turn.turn, 60) for turn in shown]
    lines = [style.bold(f"  worst turns ({len(shown)} of {arm.turns.finished - arm.turns.ok} not ok)")]
    for name, turn in zip(names, shown, strict=True):
        class_ = style.turn_class(turn.class_) + " " * (_CLASS_WIDTH - len(turn.class_))
        size = f" ({count(turn.tokens)} tokens)" if turn.tokens else ""
        reason = one_line(turn.reason, 2 * width)
        lead = f"    {name:<{max(map(len, names))}}  {class_}"
        if len(name) + len(reason) + len(size) + _CLASS_WIDTH + 8 <= width:
            lines.append(f"{lead}  {reason}{size}")
        else:
            lines += [f"{lead}{size}", *_wrapped(reason, width, bullet=" " * 8)]
    return lines


def _build(arm: ArmSummary) -> str:
    build = arm.build
    engine = " ".join(part for part in (build.engine, build.version) if part) or "engine unknown"
    method = (build.speculative or {}).get("method")
    speculation = f", speculation {one_line(str(method), 30)}" if method else ""
    return f"  build: {one_line(engine, 60)}, {one_line(build.model, 80)}{speculation}, at {one_line(build.target, 80)}"


def _speed(arm: ArmSummary) -> str:
    tokens = arm.tokens
    lost = None if tokens.completion is None or tokens.usable is None else tokens.completion - tokens.usable
    of_all = f"{count(tokens.usable)} of {count(tokens.completion)} completion tokens, {count(lost)} spent on bad turns"
    return f"  speed: {decimal(arm.usable_tokens_per_s, 1)} usable tokens/s over {seconds(arm.wall_s)} ({of_all})"


def _latency(arm: ArmSummary) -> list[str]:
    if arm.e2e_ms.p50 is None and arm.ttft_ms.p50 is None:
        return [f"  latency: {UNKNOWN} (no answer came to its end)"]
    rows = [
        [name, *(milliseconds(value) for value in (of.p50, of.p95, of.p99))]
        for name, of in (("first token", arm.ttft_ms), ("per token", arm.tpot_ms), ("whole turn", arm.e2e_ms))
    ]
    cut = [f"    left out of these times, cut by a limit: {count(arm.censored)}"] if arm.censored else []
    return [*terminal_table(["latency", "p50", "p95", "p99"], rows), *cut]


def _engine(arm: ArmSummary) -> str:
    speculation, cache = arm.speculation, arm.prefix_cache
    positions = ", ".join(share(value) for value in speculation.per_position[:8])
    return (
        f"  engine: acceptance length {decimal(speculation.acceptance_length)},"
        f" rate {share(speculation.acceptance_rate)}"
        + (f", by position {positions}" if positions else "")
        + f"; prefix-cache hits {share(cache.hit_rate)} ({count(cache.hits)} of {count(cache.queries)} tokens)"
    )


def _skipped(arm: ArmSummary) -> list[str]:
    return [f"    skipped {count(turns)}: {one_line(reason, 100)}" for reason, turns in arm.skipped_reasons.items()]


def _next(summary: Summary) -> list[str]:
    """Return the commands worth typing next."""
    run = one_line(summary.run, 200)
    steps = []
    worst = [turn for arm in summary.arms.values() for turn in arm.worst]
    if summary.state in ("interrupted", "running", "engine_gone"):
        is_proxied = summary.replay == "proxy"  # nobody can ask on behalf of its clients
        steps.append(f"soak proxy --finish {run} --record DIR" if is_proxied else f"soak resume {run}")
    if worst:
        steps.append(f"soak show {run} {one_line(worst[0].turn, 100)}")
    if len(summary.arms) > 1:
        steps.append(f"soak compare {run}")
    steps = steps or [f"soak show {run}"]
    return ["next:", *(f"  {step}" for step in steps)]
