"""The engine's evidence as people see it."""

import pytest
from report_facts import arm, summary, turn

from soak.facts import (
    AcceptanceBand,
    AcceptanceDrift,
    AcceptanceGroup,
    EngineEvidence,
    EngineFinding,
    EngineTurn,
    SeenInTurn,
)
from soak.report import terminal_summary, terminal_turn
from soak.report.engine import acceptance_rows, arm_engine_lines, engine_lines

HOSTILE = "\x1b[31m<script>alert(1)</script>\u202e"
FULL = EngineFinding(kind="acceptance_full", text="accepted everything", attributed="alone")


def group(rate: float, exact: float = 1.0) -> AcceptanceGroup:
    return AcceptanceGroup(
        turns=3,
        drafts=100.0,
        draft_tokens=200.0,
        accepted_tokens=200 * rate,
        acceptance_length=1 + 2 * rate,
        acceptance_rate=rate,
        exact=exact,
    )


EVIDENCE = EngineEvidence(
    alone=5,
    overlap=2,
    told=1,
    findings={"acceptance_full": 1, "preemption": 0},
    seen=[SeenInTurn(turn="e:1:0:a", finding=FULL)],
    by_depth=[
        AcceptanceBand(low=0, high=1024, acceptance=group(0.6)),
        AcceptanceBand(low=262144, high=None, acceptance=group(0.1, 0.25)),
    ],
    by_class={"ok": group(0.5), "garbage_loop": group(1.0)},
    drift=AcceptanceDrift(change=0.012, ci95=(-0.01, 0.034), pooled_change=-0.084, conversations=9, exposure_s=9000.0),
)


@pytest.mark.parametrize(
    ("fields", "whose"),
    [
        ({"told": True}, "told with the answer"),
        ({"attributed": "alone"}, "counters; the turn was alone"),
        ({"attributed": "overlap", "others": 3}, "counters, shared out by overlap with up to 3 others"),
        ({"attributed": "overlap"}, "counters; not this turn's alone"),
    ],
)
def test_a_turns_acceptance_says_whose_it_is(fields: dict[str, object], whose: str) -> None:
    """Numbers of a turn never come without how they were attributed."""
    known = {"drafts": 100.0, "draft_tokens": 200.0, "accepted_tokens": 150.0, "accepted_per_position": (90.0, 60.0)}
    (line,) = engine_lines(EngineTurn(key=turn().key, **known, **fields))  # type: ignore[arg-type]
    assert line == (
        f"engine: 75.0 % of 200 draft tokens accepted, acceptance length 2.50, by position 90.0 %, 60.0 % ({whose})"
    )


def test_cached_tokens_come_from_the_usage_first() -> None:
    """The answer's own word about the prefix cache goes before the counters; without both nothing is said."""
    key = turn().key
    told = EngineTurn(key=key, attributed="alone", prompt=900, cached=64, prefix_queries=900.0, prefix_hits=80.0)
    assert engine_lines(told) == ["engine: 64 of 900 prompt tokens from the prefix cache (usage)"]
    counted = EngineTurn(key=key, attributed="alone", prefix_queries=900.0, prefix_hits=80.0)
    assert engine_lines(counted) == [
        "engine: 80 of 900 prompt tokens from the prefix cache (counters; the turn was alone)"
    ]
    assert engine_lines(EngineTurn(key=key)) == []


def test_show_has_the_engines_findings() -> None:
    """One turn's page names what the engine showed while it was in flight, with nothing alive in it."""
    hostile = EngineFinding(kind="preemption", text=f"preempted {HOSTILE}", attributed="overlap")
    text = terminal_turn(turn(), engine=EngineTurn(key=turn().key, findings=(FULL, hostile)))
    assert "engine: every draft accepted: accepted everything" in text
    assert "engine: preemption: preempted" in text
    assert "\x1b" not in text
    assert "\u202e" not in text


def test_an_arms_evidence_in_lines() -> None:
    """Bands, classes, drift of like turns beside the pooled one, findings with a turn each, and how it was counted."""
    assert arm_engine_lines(EVIDENCE) == [
        "acceptance by prompt length: 0–1k 60.0 %, 256k and more 10.0 %",
        "acceptance by class: ok 50.0 %, garbage_loop 100 %",
        "acceptance over uptime, second half against first: +1.2 points between like turns (95 % -1.0 to +3.4),"
        " -8.4 of all turns pooled",
        "turns in flight while the engine showed (one event counts for each of them): every draft accepted 1",
        "  e:1:0:a: accepted everything",
        "counters: of 5 turns alone in flight, shared out by overlap for 2, not read around 0; 1 told it with their"
        " answers",
    ]
    assert arm_engine_lines(EngineEvidence(unread=4)) == []


def test_the_summary_shows_them() -> None:
    """The terminal's summary carries the lines below the engine's totals."""
    text = terminal_summary(summary(arms={"candidate": arm(evidence=EVIDENCE)}), width=200)
    assert "    acceptance by prompt length: 0–1k 60.0 %, 256k and more 10.0 %" in text
    assert "      e:1:0:a: accepted everything" in text


def test_rows_of_the_page() -> None:
    """A row for each band and class, with how much of it is known turn by turn."""
    assert acceptance_rows(EVIDENCE)[1] == [
        *("prompts of 256k and more tokens", "3", "200", "20", "10.0 %", "1.20", "25.0 %"),
    ]
    assert [row[0] for row in acceptance_rows(EVIDENCE)][2:] == ["ok", "garbage_loop"]
