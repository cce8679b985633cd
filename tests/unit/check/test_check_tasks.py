"""An agent's tasks, counted and compared: each task is one pair, and evidence is asked for."""

from soak.check.tasks import compare_tasks, task_counts, tasks_opinion, tasks_sentence
from soak.facts import ConversationEnd


def ends(arm: str, *resolved: bool, reason: str = "submitted", wall_ms: int = 1000) -> list[ConversationEnd]:
    return [
        ConversationEnd(
            episode=f"t{i}",
            pass_=0,
            arm=arm,
            reason=reason,
            turns=4,
            counts={"resolved": int(one), "wall_ms": wall_ms, "commands": 3},
        )
        for i, one in enumerate(resolved)
    ]


def test_counts_add_up() -> None:
    """Resolved ones are a share of the ended with its exact interval, times and turns are sums."""
    tasks = task_counts([*ends("a", True, True, False), *ends("a", False, reason="loop_killed")], planned=5)
    assert (tasks.planned, tasks.ended, tasks.resolved, tasks.loop_killed) == (5, 4, 2, 1)
    assert tasks.resolved_rate == 0.5
    assert tasks.resolved_ci95 is not None
    low, high = tasks.resolved_ci95
    assert (round(low, 3), round(high, 3)) == (0.068, 0.932)
    assert (tasks.turns, tasks.commands, tasks.wall_s) == (16, 12, 4.0)


def test_nothing_ended_is_unknown() -> None:
    """Without an ended task nothing is known; a complete run that left tasks out is unknown, too."""
    assert tasks_opinion(task_counts([], planned=3), "interrupted").verdict == "unknown"
    assert tasks_opinion(task_counts(ends("a", True), planned=2), "complete").verdict == "unknown"
    assert tasks_opinion(task_counts(ends("a", True), planned=1), "complete").verdict == "pass"


def test_seven_to_eleven_is_not_evidence() -> None:
    """Four more resolved tasks of twenty prove nothing: the exact test says so and the result is inconclusive."""
    found = compare_tasks(ends("a", *[True] * 7, *[False] * 13), ends("b", *[True] * 11, *[False] * 9))
    assert found is not None
    assert (found.pairs, found.baseline, found.candidate) == (20, 7, 11)
    assert (found.discordant.baseline_only, found.discordant.candidate_only) == (0, 4)
    assert found.p_value == 0.125
    assert found.result == "inconclusive"
    assert tasks_sentence(found).endswith("exact McNemar p = 0.12): inconclusive.")
    assert tasks_sentence(found, void=True).endswith("exact McNemar p = 0.12).")


def test_a_clear_change_has_a_direction() -> None:
    """Where ten tasks change one way and none the other it is an improvement, and the mirror image a regression."""
    none, ten = ends("a", *[False] * 10, *[True] * 5), ends("b", *[True] * 15)
    better, worse = compare_tasks(none, ten), compare_tasks(ten, none)
    assert better is not None
    assert worse is not None
    assert (better.result, worse.result) == ("improvement", "regression")
    assert better.difference == -(worse.difference or 0)


def test_only_tasks_that_both_ended_are_compared() -> None:
    """A task that one arm never ended says nothing about the other; without a common one there is no comparison."""
    found = compare_tasks(ends("a", True, False, True), ends("b", True))
    assert found is not None
    assert (found.pairs, found.baseline_wall_s) == (1, 1.0)
    assert compare_tasks(ends("a", True), []) is None
