"""What probes will do and what they found, for the terminal."""

from soak.facts import CLASSES, Outcomes, ProbePlan, RepeatsFound
from soak.report.escape import one_line
from soak.report.figures import count
from soak.report.style import Style
from soak.report.table import terminal_table


def terminal_probe_plan(plan: ProbePlan) -> str:
    """Return what a probe will send at most, on which servers, and what it cannot try."""
    kept = f", {count(plan.kept)} of them answered already" if plan.kept else ""
    size = f"at most {count(plan.requests)} requests{kept}, {count(plan.output_tokens)} output tokens"
    lines = [f"probe {plan.probe} of {one_line(plan.case, 100)}: {size}"]
    lines += [f"  on {one_line(server, 160)}" for server in plan.servers]
    return "\n".join([*lines, *(f"  not tried: {one_line(text, 300)}" for text in plan.untried)])


def terminal_repeats(found: RepeatsFound, width: int = 100, colour: bool = False) -> str:
    """Return what repeats of one turn came to."""
    style = Style(colour)
    first = f"; first asked it was {style.turn_class(found.first)}" if found.first else ""
    table = outcomes_table(found.outcomes)
    return "\n".join([f"{one_line(found.case, width)}{first}", *table, "", one_line(found.text, 1000)])


def outcomes_table(outcomes: tuple[Outcomes, ...]) -> list[str]:
    """Return a table of outcomes: one row for each bench and change."""
    names = [name for name in CLASSES if any(name in one.classes for one in outcomes)]
    header = ["asked", "of", *names, "failed", "95 %"]
    rows = [
        [
            one_line(f"{one.server}; {one.change}", 80),
            count(one.asked),
            *(count(one.classes.get(name, 0)) for name in names),
            f"{one.failed / one.asked:.0%}",
            f"{one.low:.0%} to {one.high:.0%}",
        ]
        for one in outcomes
    ]
    return terminal_table(header, rows)
