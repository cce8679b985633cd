"""One turn with its evidence marked in the text, and the list of a run's turns by class."""

import textwrap
from collections import defaultdict
from collections.abc import Iterable, Sequence

from soak.facts import EngineTurn, Finding, Message, Observation, Record, TurnClass, text_of
from soak.report.engine import engine_lines
from soak.report.escape import one_line
from soak.report.excerpt import marked_excerpt
from soak.report.figures import UNKNOWN, count, milliseconds, share
from soak.report.style import Style

_WORST_FIRST: tuple[TurnClass, ...] = ("garbage_loop", "error", "early_stop", "max_tokens", "ok")
_PER_CLASS = 20
_MESSAGES_SHOWN = 4
_MESSAGE_CHARACTERS = 600
_REFERENCE_CHARACTERS = 600


def terminal_turn_list(
    records: Iterable[Record], width: int = 100, colour: bool = False, per_class: int = _PER_CLASS
) -> str:
    """
    Return the turns of a run by class, the worst class first and in it the longest answers first.

    At most `per_class` turns of a class are listed, the others counted; so are skipped, indeterminate and aborted
    turns, with their reasons.
    """
    style = Style(colour)
    groups: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        judged = record.outcome == "finished" and record.judgement is not None
        groups[record.judgement.class_ if judged and record.judgement else record.outcome].append(record)
    lines: list[str] = []
    for name in (*_WORST_FIRST, "skipped", "indeterminate", "aborted"):
        if groups[name]:
            lines += [*_group(name, groups[name], width, style, per_class), ""]
    return "\n".join(lines[:-1] or ["no turns yet"])


def _group(name: str, records: list[Record], width: int, style: Style, per_class: int) -> list[str]:
    records.sort(key=lambda record: (-(_tokens(record) or 0), record.key))
    keys = [one_line(str(record.key), 70) for record in records[:per_class]]
    widest = max(map(len, keys))
    rows = [
        [key, _size(record), _headed(_why(record), max(width - widest - 18, 60))]
        for key, record in zip(keys, records, strict=False)
    ]
    lines = [f"{style.turn_class(name)} {count(len(records))}"]
    lines += [f"  {row[0]:<{widest}}  {row[1]:>12}  {row[2]}" for row in rows]
    more = len(records) - len(rows)
    return [*lines, f"  … and {count(more)} more"] if more else lines


def _headed(text: str, length: int) -> str:
    """Return `text` on one line, its end left out where it is longer than `length`: a reason begins with what it is."""
    line = one_line(text, 1000)
    return line if len(line) <= length else f"{line[: length - 1].rstrip()}…"


def _tokens(record: Record) -> int | None:
    return record.observation.output_tokens if record.observation else None


def _size(record: Record) -> str:
    tokens = _tokens(record)
    return "" if tokens is None else f"{count(tokens)} tokens"


def _why(record: Record) -> str:
    return record.judgement.reason if record.judgement else (record.reason or "no reason recorded")


def terminal_turn(
    record: Record,
    prefix: Sequence[Message] = (),
    reference: Message | None = None,
    *,
    engine: EngineTurn | None = None,
    raw_bytes: int | None = None,
    width: int = 100,
    colour: bool = False,
) -> str:
    """
    Return one turn as text: what it was classed and why, how it went, the end of its prefix, and the answer with the
    onset of each finding and its repeated unit marked; of long texts head, evidence and tail are shown.

    `prefix` is what the model saw, `reference` the recorded answer, `engine` what the engine did meanwhile, `raw_bytes`
    how much of the stream itself is kept. Everything is escaped.
    """
    style = Style(colour)
    lines = [style.bold(f"turn {one_line(str(record.key), 120)}"), *_verdict_lines(record, width, style)]
    if record.observation is not None:
        lines += course_lines(record.observation)
        lines += [] if engine is None else engine_lines(engine)
        lines += _finding_lines(record, width)
    if prefix:
        lines += ["", *_prefix_lines(prefix, style)]
    if reference is not None:
        lines += ["", style.bold("recorded answer"), *_indented(_message_text(reference), _REFERENCE_CHARACTERS)]
    if record.observation is not None:
        lines += ["", *_answer_lines(record.observation, record.judgement.findings if record.judgement else (), style)]
    if raw_bytes is not None:
        lines += ["", f"raw stream kept: {count(raw_bytes)} bytes; --raw prints them"]
    return "\n".join(lines)


def _verdict_lines(record: Record, width: int, style: Style) -> list[str]:
    name = style.turn_class(record.judgement.class_) if record.judgement else record.outcome
    return [f"class: {name}", *textwrap.wrap(f"why: {one_line(_why(record), 1000)}", width, subsequent_indent="  ")]


def course_lines(seen: Observation) -> list[str]:
    """Return how the exchange went: ending, tokens, times, attempts, defects; safe for a terminal."""
    usage = seen.usage
    cached = count(usage.cached) if usage else UNKNOWN
    lines = [
        f"ended: {seen.ending}, finish reason {one_line(str(seen.finish_reason), 40)}"
        + (", cut by a limit: times are lower bounds" if seen.censored else ""),
        f"tokens: prompt {count(usage.prompt if usage else None)} (cached {cached}), answer {count(seen.output_tokens)}"
        + (f" of at most {count(seen.max_tokens)}" if seen.max_tokens else "")
        + (" (clamped)" if seen.clamped else ""),
        f"times: first token {milliseconds(seen.ttft_ms)}, whole turn {milliseconds(seen.e2e_ms)},"
        f" longest gap {milliseconds(seen.max_gap_ms)}; attempts {len(seen.attempts)}, chunks {count(seen.chunks)}",
    ]
    if seen.error:
        lines.append(f"error: {one_line(seen.error, 400)}")
    if seen.defects:
        lines.append(f"protocol defects: {one_line(', '.join(seen.defects), 200)}")
    return lines


def _finding_lines(record: Record, width: int) -> list[str]:
    findings = record.judgement.findings if record.judgement else ()
    return ["findings:" if findings else "findings: none", *(finding_line(finding, width) for finding in findings)]


def finding_line(finding: Finding, width: int) -> str:
    """Return one finding on a line, with where it begins and how much it covers; safe for a terminal."""
    parts = [f"from character {count(finding.onset_char)}"]
    if finding.onset_token is not None:
        parts.append(f"token {count(finding.onset_token)}")
    if finding.period_tokens is not None:
        parts.append(f"period {count(finding.period_tokens)} tokens")
    if finding.copies is not None:
        parts.append(f"{finding.copies:.4g} copies")
    if finding.covered:
        parts.append(f"covers {share(finding.covered)}")
    text = f": {one_line(finding.text, max(width, 60))}" if finding.text else ""
    return f"  {one_line(finding.kind, 40)} in {finding.where} ({', '.join(parts)}){text}"


def _prefix_lines(prefix: Sequence[Message], style: Style) -> list[str]:
    shown = prefix[-_MESSAGES_SHOWN:]
    hidden = len(prefix) - len(shown)
    lines = [
        style.bold(f"prefix: {count(len(prefix))} messages")
        + (f", the last {count(len(shown))} shown" if hidden else "")
    ]
    for message in shown:
        lines += [f"  [{message.role}]", *_indented(_message_text(message), _MESSAGE_CHARACTERS)]
    return lines


def _message_text(message: Message) -> str:
    calls = "".join(f"\n{call.name}({call.arguments})" for call in message.tool_calls)
    return f"{text_of(message.content)}{calls}".strip("\n")


def _indented(text: str, limit: int) -> list[str]:
    """Return escaped lines of a text that carries no evidence, its middle left out above `limit` characters."""
    return [f"    {line}" for line in marked_excerpt(text, (), head=limit * 2 // 3, tail=limit // 3)]


def _answer_lines(seen: Observation, findings: Sequence[Finding], style: Style) -> list[str]:
    arguments = "\n".join(call.arguments for call in seen.tool_calls)
    names = ", ".join(one_line(call.name, 60) for call in seen.tool_calls[:20])
    parts = (
        ("reasoning", "reasoning", seen.reasoning),
        ("content", "content", seen.content),
        ("tool_arguments", f"tool arguments ({names})", arguments),
        ("refusal", "refusal", seen.refusal or ""),
    )
    lines: list[str] = []
    for where, title, text in parts:
        if text:
            marks = [finding for finding in findings if finding.where == where]
            lines.append(style.bold(f"answer, {title}: {count(len(text))} characters"))
            lines += [f"    {line}" for line in marked_excerpt(text, marks, style=style)]
    return lines or [style.bold("answer: empty")]
