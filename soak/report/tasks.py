"""An agent's tasks, for every output: counts of a run's arms, and two arms side by side."""

from collections.abc import Mapping

from soak.facts import ArmSummary, Comparison, TaskCounts
from soak.report.escape import one_line
from soak.report.figures import count, interval, p_value, seconds, share

TASKS_HEADER = ("tasks", "resolved", "share", "95 %", "turns", "agent's time", "how they ended")


def task_rows(arms: Mapping[str, ArmSummary]) -> list[list[str]]:
    """Return a row under `TASKS_HEADER` for each arm that an agent worked on, safe for a terminal."""
    return [[one_line(name, 30), *_cells(arm.tasks)] for name, arm in arms.items() if arm.tasks is not None]


def _cells(tasks: TaskCounts) -> list[str]:
    limits = interval(tasks.resolved_ci95, scale=100)
    ends = ", ".join(
        f"{one_line(reason.replace('_', ' '), 40)} {count(number)}" for reason, number in tasks.ends.items()
    )
    return [
        f"{count(tasks.resolved)} of {count(tasks.ended)}",
        share(tasks.resolved_rate),
        f"{limits} %",
        count(tasks.turns),
        seconds(tasks.wall_s),
        ends or "none ended",
    ]


def task_lines(comparison: Comparison) -> list[str]:
    """Return what there is to say of the tasks of two arms; nothing where no agent worked on any."""
    tasks = comparison.tasks
    if tasks is None:
        return []
    resolved = f"{count(tasks.baseline)} → {count(tasks.candidate)} of {count(tasks.pairs)}"
    only = f"{count(tasks.discordant.baseline_only)} / {count(tasks.discordant.candidate_only)}"
    change = "" if tasks.difference is None else f", {tasks.difference * 100:+.1f} points"
    return [
        f"tasks resolved: {resolved} (only b / c {only})"
        f"{change} ({interval(tasks.ci95, scale=100)}), exact McNemar p {p_value(tasks.p_value)}: {tasks.result}",
        f"agent's time over these tasks: {seconds(tasks.baseline_wall_s)} → {seconds(tasks.candidate_wall_s)}",
    ]
