"""The plainest probe: the turn as it was, k times, each with a seed of its own."""

from soak.app.probe.benches import Benches, ProbeOrder, bench_name
from soak.app.probe.kept import kept_of
from soak.facts import Case, ProbePlan, RepeatsFound
from soak.probe import Ask, outcomes_of


def plan_repeats(case: Case, repeats: int, order: ProbeOrder) -> ProbePlan:
    """Return what the probe will send."""
    return ProbePlan(
        probe="repeats",
        case=case.name,
        requests=repeats,
        output_tokens=repeats * case.sampling.max_tokens,
        kept=kept_of(order, [(bench_name(order.target), Ask(case=case, repeats=repeats))]),
        servers=("as built",),
    )


def probe_repeats(case: Case, repeats: int, benches: Benches) -> RepeatsFound:
    """Return how often the turn fails, as it was asked; the first repeat has the turn's own seed."""
    with benches.open() as bench:
        (trials,) = bench.asker.ask(Ask(case=case, repeats=repeats))
    found = outcomes_of(trials)
    first = case.judgement.class_ if case.judgement else None
    share = f"{found.failed} of {found.asked} repeats failed (95 %: {found.low:.0%} to {found.high:.0%})"
    same = "all answers were the same" if found.distinct == 1 else f"{found.distinct} different answers"
    return RepeatsFound(case=case.name, first=first, outcomes=(found,), text=f"{share}; {same}")
