"""The HTML page: what it shows, what it may not load, and how large it may become."""

import base64
import hashlib
import re
from collections.abc import Sequence
from dataclasses import replace

from page_facts import measured_comparison, of_records, record, report_arm, two_arms
from page_outline import Outline
from report_facts import summary

from soak.facts import Finding, Gate, Record, TurnKey
from soak.report import ReportArm
from soak.report.bad_turns import TEXT_BYTES, TURNS_SHOWN, bad_turns, marked_html
from soak.report.html import comparison_page, runs_page


def _with(arm: ReportArm, records: Sequence[Record]) -> ReportArm:
    return replace(arm, **of_records(records))


def test_a_comparison_page_shows_verdict_counts_gates_and_turns() -> None:
    """Verdict, sentence, warnings, gates, every class's counts, differences of the arms and all 26 bad turns."""
    gate = Gate(text="wall_clock.ratio > 110%", holds=False, seen={"wall_clock.ratio": 0.8})
    outline = Outline(comparison_page(measured_comparison(), two_arms(), [gate]))
    for part in (
        "unknown by --fail-on runs/ → runs/b",
        "Garbage loops 11 → 7 of 500 paired turns",
        "the arms ran different versions",
        "wall_clock.ratio > 110% does not hold (wall_clock.ratio is 0.8)",
        "garbage_loop 11 of 500 7 of 500 8 / 4 -0.80 (-2.45 to 0.72)",
        "evidence on garbage_loop: e-value 0.44 (highest 1.9; decided at 40)",
        "from first to last turn, 8 conversations at once: 50.0 min → 46.7 min",
        "engine version 0.32.0 0.32.1.dev7+g1a2b3c",
        "26 of 26 are shown here",
        "same 9 tokens 300 times in a row",
    ):
        assert part in outline.text, part
    assert sum(dict(attrs).get("class") == "turn" for _, attrs in outline.tags) == 26
    assert sum(tag == "svg" for tag, _ in outline.tags) == 9


def test_a_page_of_runs_shows_each_verdict_and_arm() -> None:
    """Three runs: three verdicts with reasons, and a column of turns for each arm."""
    arms = [report_arm(name, loops) for name, loops in (("A", 1), ("B", 2), ("C", 3))]
    summaries = [summary(text=arm.name, arms={arm.name: arm.summary}) for arm in arms]
    text = Outline(runs_page(summaries, arms)).text
    assert text.count("fail runs/") == 3
    assert "rate is broken B" in text
    assert "A: turns A: rate A: 95 % below B: turns B: rate" in text
    assert "garbage_loop 1 0.20 % 3.9 % 2 0.40 % 3.9 % 3 0.60 % 3.9 %" in text


def test_the_policy_allows_our_script_and_nothing_else() -> None:
    """The policy's hash is that of the one script, the default is none, and nothing points outside the page."""
    page = comparison_page(measured_comparison(), two_arms())
    outline = Outline(page)
    (script,) = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    (policy,) = (value for value in outline.values("content") if "default-src" in value)
    assert policy.startswith(f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}';")
    assert all(value.startswith("#") or value == "data:," for value in outline.values("href", "src", "xlink:href"))
    assert "url(http" not in page
    assert "@import" not in page


def test_huge_answers_and_many_bad_turns_make_a_page_of_bounded_size() -> None:
    """Answers of 5 MB and 3,000 bad turns: at most 400 turns, about 4 MB of their text, and both limits stated."""
    arm = report_arm("candidate", 1)
    many = tuple(record(i, "garbage_loop", "candidate", content="<&>" * 700) for i in range(3000))
    records = (*many, record(3000, "garbage_loop", "candidate", content="x" * 5_000_000))
    page = runs_page([summary()], [_with(arm, records)])
    text = Outline(page).text
    assert f"{TURNS_SHOWN} of 3001 are shown here" in text
    assert "soak show RUN --class CLASS lists the others" in text
    assert len(page) < TEXT_BYTES * 2


def test_text_that_does_not_fit_is_left_out_and_counted() -> None:
    """Once the page's share of text is used up, turns stand without theirs, and how many is said."""
    hostile = "\u202e" * 1000
    records = [record(i, "garbage_loop", "candidate", content=hostile, reasoning=hostile) for i in range(1000)]
    found = bad_turns([_with(report_arm("candidate", 1), records)])
    with_text = sum(bool(turn.texts) for turn in found.shown)
    assert with_text < len(found.shown) == TURNS_SHOWN
    assert found.texts_left_out == TURNS_SHOWN - with_text


def test_evidence_is_marked_where_it_begins() -> None:
    """The head stands before the onset, the first three copies are marked, the middle is counted."""
    finding = Finding(kind="loop", onset_char=5, unit="ab<", text="the same")
    html = str(marked_html("head\n" + "ab<" * 2000, [finding]))
    assert html.startswith('head\n<span class="onset">loop begins here: the same</span><mark>ab&lt;</mark>')
    assert html.count("<mark>") == 3
    assert re.search(r'<span class="gap">[\d,]+ characters left out</span>', html)


def test_the_other_arms_class_of_a_turn_is_told() -> None:
    """A bad turn says what the same turn became in the other arm."""
    found = bad_turns(two_arms())
    assert all(len(turn.others) == 1 and turn.others[0][0] != turn.arm for turn in found.shown)
    assert {name for turn in found.shown for _, name in turn.others} >= {"ok"}


def test_a_page_without_bad_turns_has_no_script() -> None:
    """Where there is nothing to filter no script is there, and the page says so."""
    arm = _with(report_arm("candidate", 1), [record(i, "ok", "candidate") for i in range(50)])
    page = runs_page([summary()], [arm])
    assert "There is none." in page
    assert "<script" not in page


def test_only_the_turns_that_are_shown_are_read() -> None:
    """Of 3,000 turns with 600 bad ones a page reads the 400 records that it shows, each once, and no other."""
    records = [record(i, "error" if i % 5 == 0 else "ok", "candidate") for i in range(3000)]
    arm, read = _with(report_arm("candidate", 1), records), []

    def reading(key: TurnKey) -> Record | None:
        read.append(key)
        return arm.record(key)

    found = bad_turns([replace(arm, record=reading)])
    assert len(read) == len(set(read)) == len(found.shown) == TURNS_SHOWN
    assert found.total == 600
