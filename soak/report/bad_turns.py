"""
The turns of a report that are not ok, each with its evidence marked in the text, as safe HTML of bounded size.

However many turns failed and however long their answers are, a page holds at most `TURNS_SHOWN` of them and about
`TEXT_BYTES` of their text; what is left out is counted.
"""

import shlex
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from soak.facts import EngineTurn, Finding, Observation, Record
from soak.report.arms import ReportArm, ReportTurn
from soak.report.engine import engine_lines
from soak.report.escape import escape_terminal, one_line, shorten
from soak.report.excerpt import Piece, excerpt_pieces
from soak.report.turn import course_lines, finding_line

TURNS_SHOWN = 400
TEXT_BYTES = 4_000_000
_LINE = 400
_UNIT = 400
_WORST_FIRST = ("garbage_loop", "error", "early_stop", "max_tokens")


@dataclass(frozen=True, kw_only=True)
class Text:
    """One part of an answer: its title and its excerpt as HTML."""

    title: str
    excerpt: Markup


@dataclass(frozen=True, kw_only=True)
class BadTurn:
    """One turn to look at; `others` are the classes the same turn got in the other arms, by their names."""

    arm: str
    key: str
    class_: str
    reason: str
    size: str
    others: tuple[tuple[str, str], ...]
    course: tuple[str, ...]
    findings: tuple[str, ...]
    texts: tuple[Text, ...]
    command: str


@dataclass(frozen=True, kw_only=True)
class BadTurns:
    """The turns shown, worst class first and longest first in it, and how many there are of each arm and class."""

    shown: tuple[BadTurn, ...]
    total: int
    counts: tuple[tuple[str, str, int, int], ...]
    texts_left_out: int


def bad_turns(arms: Sequence[ReportArm]) -> BadTurns:
    """Return the turns of the arms that are not ok, as many as a page can hold; only their records are read."""
    groups = _groups(arms)
    share = max(1, TURNS_SHOWN // max(1, sum(map(bool, groups.values()))))
    classes = [{turn.key.pair: turn.class_ for turn in arm.turns} for arm in arms]
    budget, left_out, shown = TEXT_BYTES, 0, []
    for (place, _), turns in groups.items():
        for record in filter(None, (arms[place].record(turn.key) for turn in turns[:share])):
            texts = tuple(_texts(record)) if budget > 0 else ()
            budget -= sum(len(text.excerpt) for text in texts)
            left_out += not texts and record.observation is not None and budget <= 0
            others = {
                arms[i].name: known[record.key.pair]
                for i, known in enumerate(classes)
                if i != place and record.key.pair in known
            }
            shown.append(_bad_turn(arms[place], record, others, texts))
    counts = [
        (arms[place].name, name, len(turns), min(len(turns), share)) for (place, name), turns in groups.items() if turns
    ]
    return BadTurns(
        shown=tuple(shown), total=sum(map(len, groups.values())), counts=tuple(counts), texts_left_out=left_out
    )


def _groups(arms: Sequence[ReportArm]) -> dict[tuple[int, str], list[ReportTurn]]:
    """Return the bad turns by class and arm, the longest answers first."""
    found: dict[tuple[int, str], list[ReportTurn]] = defaultdict(list)
    for place, arm in enumerate(arms):
        for turn in arm.turns:
            found[place, turn.class_].append(turn)
    return {
        (place, name): sorted(found[place, name], key=lambda turn: (-(turn.tokens or 0), turn.key))
        for name in _WORST_FIRST
        for place in range(len(arms))
    }


def _class(record: Record) -> str:
    return record.judgement.class_ if record.judgement and record.outcome == "finished" else record.outcome


def _tokens(record: Record) -> int | None:
    return record.observation.output_tokens if record.observation else None


def _bad_turn(arm: ReportArm, record: Record, others: Mapping[str, str], texts: tuple[Text, ...]) -> BadTurn:
    tokens, judgement = _tokens(record), record.judgement
    return BadTurn(
        arm=arm.name,
        key=one_line(str(record.key), 120),
        class_=_class(record),
        reason=one_line(judgement.reason if judgement else "", _LINE),
        size="" if tokens is None else f"{tokens:,} tokens",
        others=tuple(others.items()),
        course=tuple(_course(record, arm.engine.get(record.key))),
        findings=tuple(finding_line(finding, 200) for finding in (judgement.findings if judgement else ())[:20]),
        texts=texts,
        command=one_line(f"soak show {shlex.quote(arm.run)} {shlex.quote(str(record.key))}", _LINE),
    )


def _course(record: Record, engine: EngineTurn | None) -> list[str]:
    lines = course_lines(record.observation) if record.observation else []
    return lines + (engine_lines(engine) if engine is not None else [])


def _texts(record: Record) -> Iterator[Text]:
    findings = record.judgement.findings if record.judgement else ()
    if record.observation is None:
        return
    for where, title, text in _parts(record.observation):
        if text:
            marks = [finding for finding in findings if finding.where == where]
            yield Text(title=f"{title}: {len(text):,} characters", excerpt=marked_html(text, marks))


def _parts(seen: Observation) -> tuple[tuple[str, str, str], ...]:
    names = ", ".join(one_line(call.name, 60) for call in seen.tool_calls[:20])
    arguments = "\n".join(call.arguments for call in seen.tool_calls)
    return (
        ("reasoning", "reasoning", seen.reasoning),
        ("content", "content", seen.content),
        ("tool_arguments", f"tool arguments ({names})", arguments),
        ("refusal", "refusal", seen.refusal or ""),
    )


def marked_html(text: str, findings: Sequence[Finding]) -> Markup:
    """Return an excerpt of `text` as HTML: onsets and copies of units marked, everything else inert."""
    return Markup("").join(_piece(piece) for piece in excerpt_pieces(text, findings))


def _piece(piece: Piece) -> Markup:
    if piece.kind == "onset":
        return Markup('<span class="onset">{}</span>').format(piece.text)
    if piece.kind == "gap":
        return Markup('<span class="gap">{}</span>').format(piece.text)
    if piece.kind == "copy":
        return Markup("<mark>{}</mark>").format(_safe(shorten(piece.text, _UNIT)))
    return _safe(piece.text)


def _safe(text: str) -> Markup:
    return escape(escape_terminal(text, keep_lines=True))
