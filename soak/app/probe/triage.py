"""
`soak probe RUN TURN`: why this turn broke.

The turn is asked again as it was and in conditions that each take something away; a trusted server (the same build
without speculation) says what the model itself makes of the tokens at the onset of the failure. What that shows is
decided in `soak.probe.diagnosis`. A turn that we ourselves ended is not asked again: that is known beforehand.
"""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import msgspec

from soak.app.probe.benches import WITHOUT_SPECULATION, Bench, Benches, ProbeOrder, bench_name
from soak.app.probe.kept import kept_of
from soak.client import Desk, Row, prompt_ids, scores
from soak.errors import EngineError, UsageError
from soak.facts import (
    Case,
    Change,
    Diagnosis,
    EngineChange,
    Judgement,
    Law,
    Observation,
    Outcomes,
    ProbePlan,
    Trial,
    TurnClass,
)
from soak.probe import (
    ALONE,
    AS_ASKED,
    COOL,
    COOL_TEMPERATURE,
    GREEDY,
    NO_CACHE,
    NO_SPECULATION,
    PLAIN_COLD,
    RESTARTED,
    SALTED,
    Ask,
    Seen,
    body_of,
    class_of,
    diagnose,
    greedy,
    identical_of,
    law_of,
    of_client,
    onset_of,
    outcomes_of,
    places_of,
    reshaped,
    restart_matters,
)

NO_CACHE_CHANGE = EngineChange(prefix_cache=False)
GREEDY_REPEATS = 3
"""Greedy repeats are one draw: more than these only show again that they are the same."""

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
    failing: tuple[Observation, Judgement | None] | None = None
    identical: int = 0
    places: dict[str, int] = field(default_factory=dict)
    salt_in_prompt: bool = False


def states_of(case: Case) -> tuple[State, ...]:
    """Return the server states a triage goes through, the one as built first and, last, the same one started anew."""
    as_asked, cold = Change(in_flight=case.in_flight), Change(in_flight=case.in_flight, salted=True)
    built = {AS_ASKED: as_asked, SALTED: cold, **({ALONE: Change()} if case.in_flight > 1 else {}), **_calmer(case)}
    return (
        State(engine=EngineChange(), conditions=built),
        State(engine=WITHOUT_SPECULATION, conditions={NO_SPECULATION: as_asked, PLAIN_COLD: cold}, scored=True),
        State(engine=NO_CACHE_CHANGE, conditions={NO_CACHE: as_asked}),
        State(engine=EngineChange(), conditions={RESTARTED: as_asked}, serving=2),
    )


def _calmer(case: Case) -> dict[str, Change]:
    """Return the conditions of lower temperature than was asked; a temperature that was not asked is taken for 1."""
    temperature = case.extra_body.get("temperature", case.sampling.temperature)
    if temperature == 0 or greedy(case.sampling):
        return {}
    lower = {GREEDY: Change(in_flight=case.in_flight, sampling={"temperature": 0.0})}
    if isinstance(temperature, int | float) and temperature <= COOL_TEMPERATURE:
        return lower
    return {COOL: Change(in_flight=case.in_flight, sampling={"temperature": COOL_TEMPERATURE}), **lower}


def plan_triage(case: Case, repeats: int, order: ProbeOrder) -> ProbePlan:
    """Return what a triage will send at most, and what it cannot try; raises `UsageError` for a turn that is ok."""
    known = of_client(case, _failure(case))
    states = [] if known else [state for state in states_of(case) if _refusal(state, order) is None]
    asked = sum(_repeats(name, repeats) for state in states for name in state.conditions)
    scoring = any(state.scored for state in states)
    return ProbePlan(
        probe="triage",
        case=case.name,
        requests=asked + scoring,
        output_tokens=asked * case.sampling.max_tokens + scoring,
        kept=kept_of(order, _asks(states, case, repeats, order)),
        servers=tuple(f"{_named(state)}{_if_needed(state)}" for state in states),
        untried=() if known else tuple(_untried(case, order)),
        known=f"client: {known}" if known else "",
    )


def _asks(states: Sequence[State], case: Case, repeats: int, order: ProbeOrder) -> Iterator[tuple[str, Ask]]:
    """Yield all that the states ask, each with the name of its bench."""
    for state in states:
        bench = bench_name(order.spec(state.engine), state.serving)
        for name, change in state.conditions.items():
            yield bench, Ask(case=case, change=change, repeats=_repeats(name, repeats))


def _repeats(name: str, repeats: int) -> int:
    return min(repeats, GREEDY_REPEATS) if name == GREEDY else repeats


def _if_needed(state: State) -> str:
    return " (only if the failure went away on another server that was started for this)" if state.serving > 1 else ""


def probe_triage(case: Case, repeats: int, benches: Benches) -> Diagnosis:
    """
    Return why a turn broke; raises `UsageError` for a turn that did not.

    A state that cannot be had, or a server that does not come, leaves its conditions untried: that is told. Where we
    ended the turn ourselves, nothing is asked.
    """
    failure = _failure(case)
    tried = _Tried()
    for state in () if of_client(case, failure) else states_of(case):
        if state.serving == 1 or _refusal(state, benches.order) or restart_matters(_seen(case, failure, tried)):
            _try(state, case, repeats, failure, benches, tried)
    cast = diagnose(_seen(case, failure, tried))
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


def _seen(case: Case, failure: TurnClass, tried: _Tried) -> Seen:
    return Seen(
        case=case,
        failure=failure,
        conditions=tried.conditions,
        laws=tried.laws,
        untried=tried.untried,
        identical=tried.identical,
        salt_in_prompt=tried.salt_in_prompt,
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
            bench.check(state.engine)
            _ask(state, case, repeats, failure, bench, tried)
            if state.scored:
                tried.laws = _laws(case, failure, bench, tried)
    except EngineError as error:
        if state.engine == EngineChange() and state.serving == 1:
            raise
        tried.untried.update({name: error.what for name in state.conditions if name not in tried.conditions})


def _refusal(state: State, order: ProbeOrder) -> str | None:
    if state.serving > 1 and not order.target.launched:
        return "it is a server that runs already, which soak does not start anew"
    return order.incomparable(state.engine)


def _ask(state: State, case: Case, repeats: int, failure: TurnClass, bench: Bench, tried: _Tried) -> None:
    for name, change in state.conditions.items():
        (trials,) = bench.asker.ask(Ask(case=case, change=change, repeats=_repeats(name, repeats)))
        tried.conditions[name] = outcomes_of(trials, server=_named(state), silence_fails=failure == "error")
        if name == AS_ASKED:
            tried.identical = identical_of(trials)
            tried.failing = _failing(case, [trial for trial in trials if class_of(trial) == failure])
            tried.places = places_of(
                tried.failing[0] if tried.failing else None, bench.side.environment, bench.side.build
            )
        in_prompt = change.salted and bench.side.capabilities.engine != "vllm"
        tried.salt_in_prompt |= in_prompt
        if change.salted and not in_prompt and (hits := _cached(trials)):
            del tried.conditions[name]
            tried.untried[name] = f"the server takes no notice of the salt: {hits} tokens came from its cache"


def _failing(case: Case, failing: Sequence[Trial]) -> tuple[Observation, Judgement | None] | None:
    """
    Return the answer whose tokens are looked at, with what the classifiers said of it.

    It is the one that was first given, unless its tokens are not known or its prompt cannot be made again to the
    letter: then the model would be asked about tokens that it never gave after this prompt.
    """
    first = case.observation
    if first is not None and first.token_ids and case.exact:
        return first, case.judgement
    for trial in failing:
        if trial.observation.token_ids:
            return trial.observation, trial.judgement
    return None if first is None else (msgspec.structs.replace(first, token_ids=None), case.judgement)


def _cached(trials: Sequence[Trial]) -> int:
    """Return the most tokens that the server says came from its cache for one of these answers."""
    usages = [trial.observation.usage for trial in trials]
    return max((usage.cached or 0 for usage in usages if usage is not None), default=0)


def _laws(case: Case, failure: TurnClass, bench: Bench, tried: _Tried) -> tuple[Law, ...]:
    """Return what the model makes of the tokens around the onset, by this server; untold where it cannot say."""
    what = "the model's own law at the onset"
    if (field_ := reshaped(case)) is not None:
        tried.untried[what] = f"{field_} makes the law that tokens are drawn from another one"
        return ()
    if tried.failing is None or not tried.failing[0].token_ids:
        tried.untried[what] = "the answer's token ids are not known"
        return ()
    observation, judgement = tried.failing
    tokens = tried.failing[0].token_ids
    around = _around(len(tokens), failure, onset_of(judgement, observation))
    try:
        rows = asyncio.run(_rows(case, bench, tokens[: around[-1] + 1], around[0]))
        return tuple(law_of(row, around[0] + at) for at, row in enumerate(rows))
    except EngineError as error:
        tried.untried[what] = f"{error.what}: {error.why}"
        return ()


def _around(tokens: int, failure: TurnClass, onset: int) -> range:
    """Return the places to look at: the last tokens before a stop and it, or some from just before the onset."""
    if failure == "early_stop":
        return range(max(0, tokens - _AROUND), tokens)
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
