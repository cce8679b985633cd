"""A plan in numbers, for a person to look at before anything is sent."""

from soak.plan import PlanOutline
from soak.report.escape import one_line
from soak.report.figures import count
from soak.report.table import terminal_table


def terminal_plan(outline: PlanOutline) -> str:
    """Return what a plan comes to, as text; what a time budget leaves open is "as many as fit"."""
    arms = ", ".join(one_line(arm, 40) for arm in outline.arms)
    at_most, recorded = ("at most ", "recorded ") if outline.upper_bound and outline.turns else ("", "")
    lines = [
        f"{one_line(outline.scenario, 60)}: {count(outline.episodes)} episodes, arms {arms}, seed {outline.seed}",
        f"  turns per arm: {at_most}{_open(outline.turns)}, passes: {_open(outline.passes)},"
        f" {count(outline.pass_turns)} {recorded}turns in a pass",
        f"  requests: {at_most}{_open(outline.requests)}",
        f"  prompt tokens, about: {_open(outline.prompt_tokens)}"
        f" ({count(outline.pass_prompt_tokens)} in a pass to one arm)",
        f"  completion tokens, at most: {_open(outline.completion_tokens_max)}",
    ]
    if outline.task_turns_max is not None:
        lines.append(
            f"  agent replay: a turn in this plan is a task, of at most {count(outline.task_turns_max)} model calls;"
            " their prompts are not known beforehand"
        )
    elif outline.upper_bound:
        lines.append(
            "  live replay: a conversation ends when its task does; turns are upper bounds, prompts those of the record"
        )
    if outline.shapes is not None:
        lines += [f"  {line}" for line in outline.shapes.said]
    depth = [
        [name, count(of.p50), count(of.p90), count(of.max)]
        for name, of in (("characters", outline.depth_characters), ("tokens, about", outline.depth_tokens))
    ]
    first = [
        [one_line(f"{one.episode}, pass {one.pass_}", 70), count(one.turns), count(one.deepest_characters)]
        for one in outline.first
    ]
    lines += ["", *terminal_table(["prefix of a turn", "p50", "p90", "deepest"], depth)]
    lines += ["", *terminal_table(["first conversations", "turns", "deepest, characters"], first)]
    return "\n".join(lines)


def _open(value: int | None) -> str:
    return "as many as fit the time" if value is None else count(value)
