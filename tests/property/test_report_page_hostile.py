"""Any text in any place of a page comes out as text."""

import sys
from dataclasses import replace
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

# Run alone, this folder is on the path and the builders' is not.
sys.path.insert(0, str(Path(__file__).parents[1] / "unit" / "report"))

from page_facts import UNIT, of_records, record, report_arm
from page_outline import Outline
from report_facts import arm, summary

from soak.facts import Finding, Quantiles, TurnCounts
from soak.report.bad_turns import marked_html
from soak.report.html import runs_page

NASTY = st.sampled_from(
    (
        *("<script>x()</script>", "</pre>", "</details>", "</style>", "<img src=x onerror=y()>", "<!--", "]]>", "&lt;"),
        *('"', "'", "{{7*7}}", "{% raw %}", "javascript:", "$\\frac$"),
        *("\x1b[2J", "\u202e", "\u2028", "\ud800", "\x00", "\r"),
    )
)
TEXT = st.lists(st.one_of(NASTY, st.text(max_size=8)), max_size=12).map("".join)
NO_TURNS = TurnCounts(
    planned=0,
    finished=0,
    ok=0,
    garbage_loop=0,
    early_stop=0,
    max_tokens=0,
    error=0,
    skipped=0,
    indeterminate=0,
)
NOTHING = Quantiles()


def page_of(text: str) -> Outline:
    """A page of two bad turns without plots, `text` in every place that foreign text can reach."""
    quiet = arm(text, turns=NO_TURNS, busy_s={}, ttft_ms=NOTHING, tpot_ms=NOTHING, e2e_ms=NOTHING)
    one = report_arm("candidate", 1, text=text)
    records = [
        record(0, "garbage_loop", "candidate", text, content=text + UNIT * 4),
        record(0, "error", "candidate", text, refusal=text, error=text),
    ]
    return Outline(
        runs_page([summary(text, arms={"candidate": quiet})], [replace(one, summary=quiet, **of_records(records))])
    )


PLAIN = page_of("plain")
SHAPES = {(tag, tuple(name for name, _ in attrs)) for tag, attrs in PLAIN.tags}
MANY_ATTRIBUTES = ("href", "src", "style", "content", "id", "type", "http-equiv", "rel")


@settings(max_examples=60, deadline=None)
@given(TEXT)
def test_a_page_has_the_same_elements_whatever_it_holds(text: str) -> None:
    """Answers, names, reasons, flags and paths add no element, attribute, link, script or living control character."""
    page = page_of(text)
    assert {(tag, tuple(name for name, _ in attrs)) for tag, attrs in page.tags} <= SHAPES
    assert page.values(*MANY_ATTRIBUTES) <= PLAIN.values(*MANY_ATTRIBUTES)
    assert sum(tag == "script" for tag, _ in page.tags) == 1
    assert all(char.isprintable() or char == "\n" for part in page.texts for char in part)


@settings(max_examples=100, deadline=None)
@given(TEXT, TEXT, st.integers(-5, 60))
def test_marked_evidence_holds_marks_and_text_alone(text: str, unit: str, onset: int) -> None:
    """Whatever an answer and its finding say, the excerpt has no tag but our marks, and nothing invisible."""
    finding = Finding(kind=text, onset_char=onset, unit=unit, text=text)
    found = Outline(f"<pre>{marked_html(text + unit * 4, [finding])}</pre>")
    assert {(tag, dict(attrs).get("class")) for tag, attrs in found.tags} <= {
        ("pre", None),
        ("mark", None),
        ("span", "onset"),
        ("span", "gap"),
    }
    assert all(char.isprintable() or char == "\n" for part in found.texts for char in part)
