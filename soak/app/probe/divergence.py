"""`soak probe --diverge`: greedy answers with and without speculation, and where they first part."""

from collections.abc import Sequence
from dataclasses import replace

import msgspec

from soak.app.probe.benches import WITHOUT_SPECULATION, Bench, Benches, ProbeOrder, bench_name
from soak.app.probe.kept import kept_of
from soak.app.probe.silence import not_answered
from soak.errors import TargetError, UsageError
from soak.facts import Case, Change, DivergenceFound, EngineChange, ProbePlan, Trial
from soak.probe import Ask, answered, divergence_found, parting_of

OWN = 3
"""How often each server is asked, so that what it gives by itself is known first."""
_TOP = 20
_GREEDY = Change(same_seed=True)


def plan_divergence(cases: Sequence[Case], order: ProbeOrder) -> ProbePlan:
    """Return what will be sent; raises `UsageError` where no second server can be had."""
    refusal = order.incomparable(WITHOUT_SPECULATION)
    if refusal is not None:
        raise UsageError("there is nothing to compare with", why=refusal, hint="name a second server with --plain")
    requests = 2 * OWN * len(cases)
    return ProbePlan(
        probe="divergence",
        case=", ".join(case.name for case in cases),
        requests=requests,
        output_tokens=2 * OWN * sum(case.sampling.max_tokens for case in cases),
        kept=kept_of(order, _questions(cases, order)),
        servers=(EngineChange().text, WITHOUT_SPECULATION.text),
    )


def probe_divergence(cases: Sequence[Case], benches: Benches) -> DivergenceFound:
    """
    Return where greedy answers of the target and of the server without speculation part.

    Raises `TargetError` where of no case both servers gave an answer.
    """
    greedy = [_greedy(case) for case in cases]
    with benches.open() as bench:
        first, one = _asked(greedy, bench), bench.name
    if not _answers(first):
        raise _silence(first)
    with benches.open(WITHOUT_SPECULATION) as bench:
        bench.check(WITHOUT_SPECULATION)
        second, other = _asked(greedy, bench), bench.name
    told = [(case.name, parting_of(case.name, a, b)) for case, a, b in zip(cases, first, second, strict=True)]
    partings = [parting for _, parting in told if parting is not None]
    if not partings:
        raise _silence(second)
    silent = [name for name, parting in told if parting is None]
    return divergence_found((one, other), partings, benches.allowance.used, silent)


def _answers(trials: Sequence[Sequence[Trial]]) -> bool:
    return any(answered(trial.observation) for of_case in trials for trial in of_case)


def _silence(trials: Sequence[Sequence[Trial]]) -> TargetError:
    missing = [trial for of_case in trials for trial in of_case if not answered(trial.observation)]
    return not_answered("no question was answered by both servers", missing[-1])


def _questions(cases: Sequence[Case], order: ProbeOrder) -> list[tuple[str, Ask]]:
    """Return what is asked of which bench."""
    benches = [bench_name(order.spec(change)) for change in (EngineChange(), WITHOUT_SPECULATION)]
    return [(bench, ask) for bench in benches for ask in _asks([_greedy(case) for case in cases])]


def _asks(cases: Sequence[Case]) -> list[Ask]:
    return [Ask(case=case, change=_GREEDY, repeats=OWN) for case in cases]


def _greedy(case: Case) -> Case:
    sampling = replace(case.sampling, temperature=0.0, top_p=None, top_k=None, min_p=None)
    return msgspec.structs.replace(case, sampling=sampling, logprobs=_TOP, seed=None)


def _asked(cases: Sequence[Case], bench: Bench) -> tuple[tuple[Trial, ...], ...]:
    return bench.asker.ask(*_asks(cases))
