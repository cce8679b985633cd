"""Conditions over a comparison: what `--fail-on` accepts, refuses, and says."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "report"))

from page_facts import measured_comparison

from soak.errors import UsageError
from soak.facts import holds
from soak.scenario import condition_problem, parse_condition

COMPARISON = measured_comparison()  # garbage 11 → 7, p 0.388; errors +0.4 points; turn time × 0.8


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("classes.garbage_loop.p_value < 0.05", False),
        ("classes.garbage_loop.p_value < 40%", True),
        ("classes.error.difference > 1%", False),
        ("classes.error.difference > 0", True),
        ("classes.garbage_loop.difference < -0.5%", True),
        ("classes.garbage_loop.ci95.1 < 0", False),
        ("wall_clock.ratio > 1.1", False),
        ("wall_clock.ratio <= 80%", True),
        ("wall_clock.explained_by.garbage_loop < -60", True),
        ("classes.garbage_loop.result == regression", False),
        ("classes.garbage_loop.result != improvement", True),
        ("verdict == unknown", True),
        ("classes.garbage_loop.evidence.e_value >= 20", False),
        ("latency.ttft_ms.candidate.p99.value > 1000", True),
        ("classes.early_stop.p_value < 0.05", None),
        ("drift.candidate.tpot_percent_per_hour > 1", None),
        ("margin > 0", None),
        ("classes.garbage_loop.p_value < 40% and classes.error.difference > 0", True),
        ("classes.garbage_loop.p_value < 40% and classes.error.difference > 1%", False),
        ("wall_clock.ratio > 1.1 or classes.error.difference > 0", True),
        ("wall_clock.ratio > 1.1 and verdict == fail or verdict == unknown", True),
        ("verdict == unknown or wall_clock.ratio > 1.1 and verdict == fail", True),
        ("margin > 0 and wall_clock.ratio > 1.1", False),
        ("margin > 0 and verdict == unknown", None),
        ("margin > 0 or verdict == unknown", True),
        ("margin > 0 or wall_clock.ratio > 1.1", None),
    ],
)
def test_a_condition_holds_does_not_or_was_not_measured(text: str, expected: bool | None) -> None:
    """`and` binds tighter than `or`, and what was not measured decides only where nothing else does."""
    assert condition_problem(text) is None
    assert holds(parse_condition(text), COMPARISON) is expected


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "is not of the form"),
        ("wall_clock.ratio", "is not of the form"),
        ("wall_clock.ratio > 1 and", "is not of the form"),
        ("(wall_clock.ratio > 1)", "is not of the form"),
        ("x" * 2000, "is longer than"),
        ("classes.garbge_loop.p_value < 0.05", "near to it: classes.garbage_loop.p_value"),
        ("p_value < 0.05", "near to it: tasks.p_value, wall_clock.p_value"),
        ("rate.error > 1%", "is not a field of a comparison"),
        ("classes.error.ci95.2 > 0", "is not a field of a comparison"),
        ("classes == 3", "is not a number"),
        ("sentence == good", "is not a number"),
        ("classes.error.result == worse", "is never worse; it is one of equivalent, improvement"),
        ("classes.error.result > regression", "compare it by == or !="),
        ("classes.error.result == 3", "is not a number"),
        ("wall_clock.ratio > high", "is a number, so it cannot be compared with high"),
        ("classes.error.p_value < 5", "is a fraction from 0 to 1"),
        ("classes.error.difference > 2", "is a fraction from -1 to 1"),
        ("pairs < 1%", "is not a fraction"),
        ("pairs < -1", "is never negative"),
        ("wall_clock.ratio >= 0", "always holds"),
        ("classes.error.p_value > 1", "can never hold"),
        ("pairs == 1.5", "is a whole number"),
        ("wall_clock.ratio > 1.1 and classes.error.p_vlue < 1%", "classes.error.p_value"),
    ],
)
def test_a_useless_condition_is_refused_with_a_reason(text: str, problem: str) -> None:
    """A path that leads nowhere, a word for a number, and what decides nothing are refused, with near names."""
    assert problem in (condition_problem(text) or "")
    with pytest.raises(UsageError) as refused:
        parse_condition(text)
    assert refused.value.exit_code == 2
