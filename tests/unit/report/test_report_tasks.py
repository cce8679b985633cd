"""An agent's tasks in every output, with foreign text made harmless."""

import msgspec

from soak.facts import Comparison, TaskComparison, WallClock
from soak.facts.comparison import Discordant
from soak.report.junit import junit_comparison
from soak.report.tasks import task_lines


def compared(**changes: object) -> Comparison:
    fields = {
        "pairs": 20,
        "baseline": 15,
        "candidate": 5,
        "discordant": Discordant(baseline_only=10, candidate_only=0),
        "difference": -0.5,
        "ci95": (-0.7, -0.2),
        "p_value": 0.002,
        "baseline_wall_s": 18000.0,
        "candidate_wall_s": 14400.0,
        "result": "regression",
        **changes,
    }
    return Comparison(
        baseline="a",
        candidate="b",
        pairs=0,
        unpaired=40,
        clusters=20,
        classes={},
        wall_clock=EMPTY,
        invalid=[],
        verdict="fail",
        sentence="",
        tasks=TaskComparison(**fields),  # type: ignore[arg-type]
    )


EMPTY = WallClock(baseline_s=None, candidate_s=None, ratio=None, ci95=None, explained_by={})


def test_the_line_says_both_counts_and_the_evidence() -> None:
    """Counts, discordant tasks, difference with interval, p-value, result, and the agent's time."""
    first, second = task_lines(compared())
    assert first == (
        "tasks resolved: 15 → 5 of 20 (only b / c 10 / 0), -50.0 points (-70.00 to -20.00),"
        " exact McNemar p 0.002: regression"
    )
    assert second == "agent's time over these tasks: 5.00 h → 4.00 h"


def test_a_regression_fails_in_junit() -> None:
    """A regression in resolved tasks is a failure for a build server, an inconclusive result is skipped."""
    assert 'classname="soak.tasks"' in junit_comparison(compared())
    assert "<failure" in junit_comparison(compared())
    quiet = junit_comparison(compared(result="inconclusive"))
    assert "<failure" not in quiet
    assert "<skipped" in quiet


def test_without_tasks_nothing_is_said() -> None:
    """A comparison without an agent has no line on tasks."""
    assert task_lines(msgspec.structs.replace(compared(), tasks=None)) == []
