"""An agent's tasks: how many were resolved on one arm, and whether two arms differ in it."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from soak.check.verdicts import Opinion
from soak.check.wording import plural
from soak.facts import ConversationEnd, Discordant, TaskComparison, TaskCounts
from soak.facts.comparison import Result
from soak.stats import PairedCounts, clopper_pearson, mcnemar_exact, newcombe_paired

ALPHA = 0.05
RESOLVED = "resolved"


def task_counts(ends: Sequence[ConversationEnd], planned: int) -> TaskCounts:
    """Return what the ends of one arm's tasks come to; `planned` tasks in all passes."""
    reasons = Counter(end.reason for end in ends)
    resolved = sum(_resolved(end) for end in ends)
    interval = clopper_pearson(resolved, len(ends))
    return TaskCounts(
        planned=max(planned, len(ends)),
        ended=len(ends),
        resolved=resolved,
        resolved_rate=resolved / len(ends) if ends else None,
        resolved_ci95=None if interval is None else (interval.low, interval.high),
        submitted_empty=reasons["submitted_empty"],
        loop_killed=reasons["loop_killed"],
        step_limit=reasons["step_limit"],
        errors=reasons["error"] + reasons["agent_failed"],
        ends=dict(sorted(reasons.items())),
        turns=sum(end.turns for end in ends),
        commands=_sum(ends, "commands"),
        format_errors=_sum(ends, "format_errors"),
        drifted=_sum(ends, "drifted"),
        wall_s=_wall_s(ends),
    )


def tasks_opinion(tasks: TaskCounts, state: str) -> Opinion:
    """Say what became of the tasks; a run called complete that left some out is unknown."""
    told = f"{tasks.resolved} of {plural(tasks.ended, 'ended task')} resolved"
    if state == "complete" and tasks.ended < tasks.planned:
        left = tasks.planned - tasks.ended
        return Opinion("unknown", (told, f"{plural(left, 'task')} never came to an end"))
    return Opinion("pass" if tasks.ended else "unknown", (told,))


def compare_tasks(baseline: Sequence[ConversationEnd], candidate: Sequence[ConversationEnd]) -> TaskComparison | None:
    """
    Return the tasks that both arms ended, side by side; None where there is none.

    Improvement or regression only where McNemar's exact p-value is below 0.05 and the interval of the difference
    excludes 0: a task is either resolved or not, and each stands for itself.
    """
    first, second = _by_task(baseline), _by_task(candidate)
    both = [(first[key], second[key]) for key in first if key in second]
    if not both:
        return None
    table = Counter((_resolved(one), _resolved(other)) for one, other in both)
    counts = PairedCounts(table[True, True], table[True, False], table[False, True], table[False, False])
    interval = newcombe_paired(counts)
    p_value = mcnemar_exact(counts.baseline_only, counts.candidate_only)
    result: Result = "inconclusive"
    if p_value < ALPHA and interval is not None and interval.excludes(0.0):
        result = "improvement" if interval.low > 0 else "regression"
    return TaskComparison(
        pairs=counts.pairs,
        baseline=counts.both + counts.baseline_only,
        candidate=counts.both + counts.candidate_only,
        discordant=Discordant(baseline_only=counts.baseline_only, candidate_only=counts.candidate_only),
        difference=(counts.candidate_only - counts.baseline_only) / counts.pairs,
        ci95=None if interval is None else (interval.low, interval.high),
        p_value=p_value,
        baseline_wall_s=_wall_s([one for one, _ in both]),
        candidate_wall_s=_wall_s([other for _, other in both]),
        result=result,
    )


def tasks_sentence(tasks: TaskComparison, *, void: bool = False) -> str:
    """Return the comparison of tasks as a sentence; without its result where the arms may not be compared (`void`)."""
    return (
        f"Tasks resolved: {tasks.baseline} → {tasks.candidate} of {tasks.pairs}"
        f" ({tasks.discordant.baseline_only} only in the baseline, {tasks.discordant.candidate_only} only in the"
        f" candidate; exact McNemar p = {tasks.p_value:.2g}){'' if void else f': {tasks.result}'}."
    )


def _by_task(ends: Iterable[ConversationEnd]) -> Mapping[tuple[str, int], ConversationEnd]:
    return {(end.episode, end.pass_): end for end in ends}


def _resolved(end: ConversationEnd) -> bool:
    return bool(end.counts.get(RESOLVED))


def _sum(ends: Iterable[ConversationEnd], name: str) -> int:
    return sum(end.counts.get(name, 0) for end in ends)


def _wall_s(ends: Iterable[ConversationEnd]) -> float:
    return _sum(ends, "wall_ms") / 1000
