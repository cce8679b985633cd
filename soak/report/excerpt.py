"""An excerpt of a long text that keeps what matters: its head, each place where something was found, and its tail."""

from collections.abc import Sequence

from soak.facts import Finding
from soak.report.escape import escape_terminal, one_line
from soak.report.style import Style

_HEAD, _TAIL = 600, 400
_BEFORE, _AFTER = 200, 500
_MARKS = 8
_COPIES_MARKED = 3
_UNIT_LEFT, _UNIT_RIGHT = "⟦", "⟧"

Span = tuple[int, int]


def marked_excerpt(
    text: str, findings: Sequence[Finding], *, head: int = _HEAD, tail: int = _TAIL, style: Style | None = None
) -> list[str]:
    """
    Return escaped lines of `text`: its head, the surroundings of each onset (at most eight), its tail.

    What lies between is counted. Before an onset stands a line that says what begins there; the first copies of its
    unit stand in ⟦ ⟧.
    """
    style = style or Style(False)
    marks = sorted(
        (finding for finding in findings if 0 <= finding.onset_char <= len(text)), key=lambda f: f.onset_char
    )
    marks = marks[:_MARKS]
    lines: list[str] = []
    end = 0
    for start, stop in _windows(len(text), [finding.onset_char for finding in marks], head, tail):
        if start > end:
            lines.append(f"[… {start - end:,} characters left out …]")
        inside = [
            finding
            for finding in marks
            if start <= finding.onset_char < stop or finding.onset_char == stop == len(text)
        ]
        lines += _marked(text, start, stop, inside, style)
        end = stop
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


def _marked(text: str, start: int, stop: int, findings: Sequence[Finding], style: Style) -> list[str]:
    """Return the lines of one window, with a line before each onset in it."""
    lines: list[str] = []
    at = start
    for finding in findings:
        lines += _lines(text[at : finding.onset_char]) if finding.onset_char > at else []
        at = max(at, finding.onset_char)
        lines.append(style.mark(f">>> {one_line(finding.kind, 40)} begins here: {one_line(_says(finding), 160)}"))
        copies, at = _copies(text, at, stop, finding.unit)
        if copies:
            lines += [style.mark(line) for line in copies]
    return lines + (_lines(text[at:stop]) if at < stop or not lines else [])


def _says(finding: Finding) -> str:
    return finding.text or f"unit {finding.unit}"


def _copies(text: str, at: int, stop: int, unit: str) -> tuple[list[str], int]:
    """Return the first copies of `unit` from `at` on, each in brackets, and where they end."""
    marked = ""
    for _ in range(_COPIES_MARKED):
        if not unit or not text.startswith(unit, at) or at + len(unit) > stop:
            break
        marked += f"{_UNIT_LEFT}{unit}{_UNIT_RIGHT}"
        at += len(unit)
    return (_lines(marked) if marked else []), at


def _lines(text: str) -> list[str]:
    return escape_terminal(text, keep_lines=True).split("\n")
