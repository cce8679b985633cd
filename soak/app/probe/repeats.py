"""The plainest probe: the turn as it was, k times, each with a seed of its own."""

from soak.app.probe.benches import Benches, ProbeOrder, bench_name
from soak.app.probe.kept import kept_of
from soak.app.probe.silence import refuse_silence
from soak.facts import Case, ProbePlan, RepeatsFound
from soak.probe import Ask, outcomes_of, silence_is_asked


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
    """
    Return how often the turn fails, as it was asked; the first repeat has the turn's own seed.

    Raises `TargetError` where none was answered, unless that is how the turn failed itself.
    """
    with benches.open() as bench:
        (trials,) = bench.asker.ask(Ask(case=case, repeats=repeats))
    silence_fails = silence_is_asked(case, "any_failure")
    if not silence_fails:
        refuse_silence("no repeat was answered", trials)
    found = outcomes_of(trials, silence_fails=silence_fails)
    first = case.judgement.class_ if case.judgement else None
    share = f"{found.failed} of {found.counted} repeats failed (95 %: {found.low:.0%} to {found.high:.0%})"
    same = "all answers were the same" if found.distinct == 1 else f"{found.distinct} different answers"
    silent = f"; {found.unanswered} of {found.asked} not answered" if found.unanswered else ""
    return RepeatsFound(case=case.name, first=first, outcomes=(found,), text=f"{share}; {same}{silent}")
