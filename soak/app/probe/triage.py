"""
`soak probe RUN TURN`: why this turn broke.

The turn is asked again as it was and in conditions that each take one thing away; a trusted server (the same build
without speculation and, where soak starts it, without prefix cache) says what the model itself makes of the tokens at
the onset of the failure. What that shows is decided in `soak.probe.diagnosis`.
"""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from soak.app.probe.benches import WITHOUT_SPECULATION, Bench, Benches, ProbeOrder
from soak.client import Desk, Row, prompt_ids, scores
from soak.errors import SoakError, UsageError
from soak.facts import Case, Change, Diagnosis, EngineChange, Law, Observation, Outcomes, ProbePlan, TurnClass
from soak.probe import (
    ALONE,
    AS_ASKED,
    GREEDY,
    NO_CACHE,
    NO_SPECULATION,
    RESTARTED,
    SALTED,
    Ask,
    Seen,
    body_of,
    class_of,
    diagnose,
    identical_of,
    law_of,
    onset_of,
    outcomes_of,
    places_of,
)

NO_CACHE_CHANGE = EngineChange(prefix_cache=False)

_AROUND = 8


@dataclass(frozen=True, kw_only=True)
class State:
    """A server state and the conditions that are tried on it, by name; `scored`: it also says what the model makes."""

    engine: EngineChange
    conditions: dict[str, Change]
    serving: int = 1
    scored: bool = False


@dataclass
class _Tried:
    conditions: dict[str, Outcomes] = field(default_factory=dict)
    untried: dict[str, str] = field(default_factory=dict)
    laws: tuple[Law, ...] = ()
    failing: Observation | None = None
    identical: int = 0
    places: dict[str, int] = field(default_factory=dict)


def states_of(case: Case) -> tuple[State, ...]:
    """Return the server states a triage goes through, the one as built first."""
    as_asked = Change(in_flight=case.in_flight)
    built = {AS_ASKED: as_asked, SALTED: Change(in_flight=case.in_flight, salted=True)}
    if case.in_flight > 1:
        built[ALONE] = Change()
    if case.sampling.temperature != 0:
        built[GREEDY] = Change(in_flight=case.in_flight, sampling={"temperature": 0.0})
    return (
        State(engine=EngineChange(), conditions=built),
        State(engine=WITHOUT_SPECULATION, conditions={NO_SPECULATION: as_asked}, scored=True),
        State(engine=NO_CACHE_CHANGE, conditions={NO_CACHE: as_asked}),
        State(engine=EngineChange(), conditions={RESTARTED: as_asked}, serving=2),
    )


def plan_triage(case: Case, repeats: int, order: ProbeOrder) -> ProbePlan:
    """Return what a triage will send at most, and what it cannot try; raises `UsageError` for a turn that is ok."""
    _failure(case)
    states = [state for state in states_of(case) if _refusal(state, order) is None]
    asked = sum(len(state.conditions) for state in states) * repeats
    return ProbePlan(
        probe="triage",
        case=case.name,
        requests=asked + 1,
        output_tokens=asked * case.sampling.max_tokens + 1,
        servers=tuple(_named(state) for state in states),
        untried=tuple(_untried(case, order)),
    )


def probe_triage(case: Case, repeats: int, benches: Benches) -> Diagnosis:
    """
    Return why a turn broke; raises `UsageError` for a turn that did not.

    A state that cannot be had, or a server that does not come, leaves its conditions untried: that is told.
    """
    failure = _failure(case)
    tried = _Tried()
    for state in states_of(case):
        _try(state, case, repeats, failure, benches, tried)
    seen = Seen(
        case=case,
        failure=failure,
        conditions=tried.conditions,
        laws=tried.laws,
        untried=tried.untried,
        identical=tried.identical,
    )
    cast = diagnose(seen)
    return Diagnosis(
        case=case.name,
        failure=failure,
        cause=cast.cause,
        text=cast.text,
        evidence=cast.evidence,
        open=cast.open,
        outcomes=tuple(tried.conditions.values()),
        laws=tried.laws,
        identical=tried.identical,
        places=tried.places,
        requests=benches.allowance.used,
    )


def _failure(case: Case) -> TurnClass:
    if case.judgement is None or case.judgement.class_ == "ok":
        raise UsageError(
            f"{case.name} did not break",
            why="its class is ok" if case.judgement else "nobody says what came back when it was first asked",
            hint="take a turn that broke (`soak show RUN`), or ask this one again with --only-repeats",
        )
    return case.judgement.class_


def _try(state: State, case: Case, repeats: int, failure: TurnClass, benches: Benches, tried: _Tried) -> None:
    """Ask the conditions of one server state; the state as built must be had, the others may be missing."""
    refusal = _refusal(state, benches.order)
    if refusal is not None:
        tried.untried.update(dict.fromkeys(state.conditions, refusal))
        return
    try:
        with benches.open(state.engine, state.serving) as bench:
            _ask(state, case, repeats, failure, bench, tried)
            if state.scored:
                tried.laws = _laws(case, failure, bench, tried)
    except SoakError as error:
        if state.engine == EngineChange() and state.serving == 1:
            raise
        tried.untried.update({name: error.what for name in state.conditions if name not in tried.conditions})


def _refusal(state: State, order: ProbeOrder) -> str | None:
    if state.serving > 1 and not order.target.launched:
        return "it is a server that runs already, which soak does not start anew"
    return order.refusal(state.engine)


def _ask(state: State, case: Case, repeats: int, failure: TurnClass, bench: Bench, tried: _Tried) -> None:
    for name, change in state.conditions.items():
        (trials,) = bench.asker.ask(Ask(case=case, change=change, repeats=repeats))
        tried.conditions[name] = outcomes_of(trials, server=_named(state))
        if name == AS_ASKED:
            tried.identical = identical_of(trials)
            failing = [trial.observation for trial in trials if class_of(trial) == failure]
            tried.failing = case.observation or (failing[0] if failing else None)
            tried.places = places_of(tried.failing, bench.side.environment, bench.side.build)


def _laws(case: Case, failure: TurnClass, bench: Bench, tried: _Tried) -> tuple[Law, ...]:
    """Return what the model makes of the tokens around the onset, by this server; untold where it cannot say."""
    observation = tried.failing
    if observation is None or not observation.token_ids:
        tried.untried["the model's own law at the onset"] = "the answer's token ids are not known"
        return ()
    around = list(_around(case, failure, observation))
    try:
        rows = asyncio.run(_rows(case, bench, observation.token_ids[: around[-1] + 1], around[0]))
    except SoakError as error:
        tried.untried["the model's own law at the onset"] = f"{error.what}: {error.why}"
        return ()
    return tuple(law_of(row, around[0] + at) for at, row in enumerate(rows))


def _around(case: Case, failure: TurnClass, observation: Observation) -> range:
    """Return the places to look at: the last token of a stop, else some tokens from just before the onset."""
    tokens = len(observation.token_ids or ())
    if failure == "early_stop":
        return range(tokens - 1, tokens)
    onset = onset_of(case, observation)
    return range(max(0, onset - _AROUND // 2), min(tokens, onset + _AROUND))


async def _rows(case: Case, bench: Bench, answer: Sequence[int], first: int) -> tuple[Row, ...]:
    body = body_of(case, Change(same_seed=True), 0, bench.side.capabilities)
    async with Desk(bench.side.target) as desk:
        prompt = await prompt_ids(desk, body)
        ids = (*prompt, *answer)
        return await scores(desk, bench.side.capabilities.model, ids, len(prompt) + first)


def _named(state: State) -> str:
    return state.engine.text if state.serving == 1 else f"{state.engine.text}, served anew"


def _untried(case: Case, order: ProbeOrder) -> Iterator[str]:
    """Yield, for each condition that cannot be tried, its name and why."""
    for state in states_of(case):
        if (why := _refusal(state, order)) is not None:
            yield f"{', '.join(state.conditions)}: {why}"
