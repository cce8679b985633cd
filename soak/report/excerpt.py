"""An excerpt of a long text that keeps what matters: its head, each place where something was found, and its tail."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

from soak.facts import Finding
from soak.report.escape import escape_terminal, one_line
from soak.report.style import Style

_HEAD, _TAIL = 600, 400
_BEFORE, _AFTER = 200, 500
_MARKS = 8
_COPIES_MARKED = 3
_UNIT_LEFT, _UNIT_RIGHT = "⟦", "⟧"

Span = tuple[int, int]


@dataclass(frozen=True)
class Piece:
    """
    A part of an excerpt, its `text` raw as the model sent it (but for an onset, whose text is one safe line).

    text: as it stands. gap: `text` is how much was left out. onset: what begins here. copy: one repeat of a unit.
    """

    kind: Literal["text", "gap", "onset", "copy"]
    text: str


def excerpt_pieces(text: str, findings: Sequence[Finding], *, head: int = _HEAD, tail: int = _TAIL) -> Iterator[Piece]:
    """
    Yield the pieces of an excerpt of `text`: its head, the surroundings of each onset (at most eight), its tail.

    What lies between is counted. Before an onset stands what begins there; the first copies of its unit are pieces of
    their own. At most about 7,000 characters come of it, however long the text is.
    """
    marks = sorted(
        (finding for finding in findings if 0 <= finding.onset_char <= len(text)), key=lambda f: f.onset_char
    )
    marks = marks[:_MARKS]
    end = 0
    for start, stop in _windows(len(text), [finding.onset_char for finding in marks], head, tail):
        if start > end:
            yield Piece("gap", f"{start - end:,} characters left out")
        inside = [
            finding
            for finding in marks
            if start <= finding.onset_char < stop or finding.onset_char == stop == len(text)
        ]
        yield from _marked(text, start, stop, inside)
        end = stop


def marked_excerpt(
    text: str, findings: Sequence[Finding], *, head: int = _HEAD, tail: int = _TAIL, style: Style | None = None
) -> list[str]:
    """Return the excerpt as escaped lines for a terminal, copies of a unit in ⟦ ⟧."""
    style = style or Style(False)
    lines: list[str] = []
    for kind, pieces in groupby(excerpt_pieces(text, findings, head=head, tail=tail), key=lambda piece: piece.kind):
        texts = [piece.text for piece in pieces]
        if kind == "copy":
            marked = _lines("".join(f"{_UNIT_LEFT}{unit}{_UNIT_RIGHT}" for unit in texts))
            lines += [style.mark(line) for line in marked]
        elif kind == "onset":
            lines += [style.mark(f">>> {line}") for line in texts]
        elif kind == "gap":
            lines += [f"[… {line} …]" for line in texts]
        else:
            lines += [line for one in texts for line in _lines(one)]
    return lines


def _windows(length: int, onsets: Sequence[int], head: int, tail: int) -> list[Span]:
    """Return the spans to show, in order, merged where they touch."""
    spans = [(0, min(head, length)), (max(length - tail, 0), length)]
    spans += [(max(onset - _BEFORE, 0), min(onset + _AFTER, length)) for onset in onsets]
    merged: list[Span] = []
    for start, stop in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], stop))
        else:
            merged.append((start, stop))
    return merged


def _marked(text: str, start: int, stop: int, findings: Sequence[Finding]) -> Iterator[Piece]:
    """Yield the pieces of one window, with an onset before each finding in it."""
    at = start
    for finding in findings:
        if finding.onset_char > at:
            yield Piece("text", text[at : finding.onset_char])
        at = max(at, finding.onset_char)
        yield Piece("onset", f"{one_line(finding.kind, 40)} begins here: {one_line(_says(finding), 160)}")
        for _ in range(_COPIES_MARKED):
            unit = finding.unit
            if not unit or not text.startswith(unit, at) or at + len(unit) > stop:
                break
            yield Piece("copy", unit)
            at += len(unit)
    if at < stop or not findings:
        yield Piece("text", text[at:stop])


def _says(finding: Finding) -> str:
    return finding.text or f"unit {finding.unit}"


def _lines(text: str) -> list[str]:
    return escape_terminal(text, keep_lines=True).split("\n")
