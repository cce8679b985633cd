"""Any text in any place of any report comes out inert."""

import re
import sys
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

# Run alone, this folder is on the path and the builders' is not.
sys.path.insert(0, str(Path(__file__).parents[1] / "unit" / "report"))

from report_facts import comparison, summary, turn

from soak.facts import Finding, Message
from soak.report import (
    escape_markdown,
    escape_terminal,
    markdown_comparison,
    terminal_comparison,
    terminal_summary,
    terminal_turn,
    terminal_turn_list,
)

NASTY = st.sampled_from(
    ["\x1b[2J", "\x9b", "\r", "\n", "\u202e", "\u200b", "\ud800", "<img>", "|", "`", "](", "@x", "http://", "\x00"]
)
TEXT = st.lists(st.one_of(NASTY, st.text(max_size=8)), max_size=12).map("".join)


def inert_on_a_terminal(text: str) -> bool:
    return all(line.isprintable() for line in text.split("\n"))


@settings(deadline=None)
@given(TEXT)
def test_escaped_text_is_printable_and_says_the_same(text: str) -> None:
    """Everything printable is left as it is, all else is written out."""
    escaped = escape_terminal(text)
    assert inert_on_a_terminal(escaped)
    assert "\n" not in escaped
    if text.isprintable():
        assert escaped == text


@settings(deadline=None)
@given(TEXT)
def test_escaped_markdown_has_no_live_markup(text: str) -> None:
    """No tag, entity of the text's own, bare link, mention or unescaped mark is left."""
    escaped = escape_markdown(text)
    assert not re.search(r"[<>@\n]|://|&(?!#\d+;)", escaped)
    assert not re.search(r"[`*_\[\]!|~$]", re.sub(r"\\.", "", escaped))


@settings(max_examples=60, deadline=None)
@given(TEXT)
def test_results_are_inert_whatever_they_hold(text: str) -> None:
    """Run names, builds, reasons and sentences cannot move the cursor or open a tag."""
    assert inert_on_a_terminal(terminal_summary(summary(text)))
    assert inert_on_a_terminal(terminal_comparison(comparison(text)))
    page = markdown_comparison(comparison(text))
    assert re.findall(r"<[^>]*>", page) == ["<details>", "<summary>", "</summary>", "</details>"] * 2


@settings(max_examples=60, deadline=None)
@given(TEXT, TEXT, st.integers(-5, 60))
def test_turns_are_inert_whatever_the_model_said(text: str, unit: str, onset: int) -> None:
    """Answers, prefixes, findings and errors cannot do anything on a terminal."""
    finding = Finding(kind=text, onset_char=onset, unit=unit, text=text)
    record = turn(text, content=text + unit * 4, findings=(finding,), reasoning=text)
    shown = terminal_turn(
        record,
        [Message(role="user", content=text)],
        Message(role="assistant", content=text),
        raw_bytes=len(text),
    )
    assert inert_on_a_terminal(shown)
    assert inert_on_a_terminal(terminal_turn_list([record]))
