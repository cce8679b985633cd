"""One run's history → `soak.summary/1`: measure each arm, ask each checker, merge what they say."""

from bisect import bisect
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from soak.check.attribution import Span
from soak.check.conversations import ConversationFact, conversation_sentences, measure_conversations
from soak.check.engine import EngineDelta, deltas
from soak.check.engine_evidence import engine_evidence
from soak.check.engine_turns import spans_elsewhere
from soak.check.measures import (
    busy_s,
    engine_figures,
    kind_counts,
    latencies,
    prefix_cache,
    rate,
    rate_upper95,
    rates,
    skipped_reasons,
    speculation,
    token_counts,
    turn_counts,
    worst_turns,
)
from soak.check.shapes import canary_counts, shape_opinions
from soak.check.tasks import task_counts, tasks_opinion
from soak.check.thresholds import broken_stop, thresholds_opinion
from soak.check.turns import UNJUDGED, TurnFact
from soak.check.validity import Validity, validity
from soak.check.verdicts import Opinion, merge, sorted_reasons
from soak.check.wording import duration, events_sentence, percent, plural
from soak.errors import RunFolderError
from soak.facts import (
    CARRIED_ON,
    ArmCard,
    ArmSummary,
    ConversationEnd,
    Conversations,
    EngineSample,
    EnvironmentCard,
    Event,
    Manifest,
    PlanCard,
    Scenario,
    Summary,
)

MAX_INDETERMINATE = 0.1
"""Above this share of planned turns that we ourselves broke off, an arm is unknown: what was lost may not be random."""

MAX_SKIPPED = 0.5
"""Above this share of planned turns that could not be sent, an arm is unknown: most of the question was not asked."""

_EMBEDDED = "local"  # the target as given

MAX_LOOP_LAG_MS = 250.0
"""Where our own event loop ran later than this, or than half the median time to the first token, it shows in times."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryView:
    """
    What checkers read of a history.

    `turns`: the last word on each turn. `samples`: engine samples per arm, oldest first. `open_starts`: turns per arm
    that were started and have no end. `repeated_starts`: starts per arm that were broken off and offered again.
    `broken_off`: the times in flight of each arm's starts that came to no finish. `conversations`: those of each arm
    that came to their end, where turns were made at run time; `ends`: how.
    """

    turns: Sequence[TurnFact]
    samples: Mapping[str, Sequence[EngineSample]] = field(default_factory=dict)
    open_starts: Mapping[str, int] = field(default_factory=dict)
    repeated_starts: Mapping[str, int] = field(default_factory=dict)
    events: Sequence[Event] = ()
    ends: Sequence[ConversationEnd] = ()
    conversations: Mapping[str, Sequence[ConversationFact]] = field(default_factory=dict)
    broken_off: Mapping[str, Sequence[Span]] = field(default_factory=dict)


def summarise(
    manifest: Manifest,
    history: HistoryView,
    *,
    run: str,
    state: str,
    plan: PlanCard,
    wall_s: float,
) -> Summary:
    """
    Return what the run came to.

    `state` is how it ended (`facts.Summary`), `wall_s` the seconds it was active. The verdict is the worst of the
    arms'. An arm is *fail* if it is valid, has `min_turns` finished turns and a `pass_if` is broken, also where the
    run did not end by itself (more turns do not mend what is broken), or if the run was stopped by its own
    `stop_if`; *unknown* if it is invalid, too little was finished, too much was skipped or broken off, a turn was
    never reached or never judged, the server went away or was restarted, a threshold's field was not measured, the
    run did not end by itself or a checker crashed; else *pass*. Raises `RunFolderError` if the manifest's scenario
    cannot be read.
    """
    scenario = scenario_of(manifest)
    turns = _by_arm(history, manifest)
    arms: dict[str, ArmSummary] = {}
    opinions: dict[str, list[Opinion]] = {}
    for card in manifest.arms:
        arm, valid = _measure(card, scenario, history, turns[card.name], plan, wall_s)
        arm, said = _with_evidence(arm, manifest, history, card.name, turns)
        arms[card.name] = arm
        opinions[card.name] = [
            *said,
            *_ask(scenario, arm, state),
            *_course(history, card.name, turns[card.name]),
            *_left_over(scenario, history, arm, state),
            *_too_deep(card, arm),
            *([tasks_opinion(arm.tasks, state)] if arm.tasks is not None else []),
            *_carried_on(arm, scenario, state),
            *shape_opinions(scenario, arm, history.events),
            Opinion("pass", (*valid.states, *client_notes(arm), *valid.notes)),
        ]
    return Summary(
        run=run,
        scenario=scenario.name,
        replay=scenario.replay,
        verdict=merge(merge(opinion.verdict for opinion in said) for said in opinions.values()),
        reasons=sorted_reasons(_named(opinions)),
        state=state,
        plan=plan,
        arms=arms,
    )


def scenario_of(manifest: Manifest) -> Scenario:
    """Return the scenario a manifest holds; raises `RunFolderError` if it is not one."""
    try:
        return msgspec.convert(manifest.scenario, Scenario)
    except msgspec.ValidationError as problem:
        raise RunFolderError(
            "the run's scenario cannot be read",
            why=f"its manifest does not hold a scenario of this version: {problem}",
            hint="judge the run with the soak version that made it (the manifest names it)",
        ) from problem


def _by_arm(history: HistoryView, manifest: Manifest) -> dict[str, list[TurnFact]]:
    turns: dict[str, list[TurnFact]] = defaultdict(list, {card.name: [] for card in manifest.arms})
    for turn in history.turns:
        turns[turn.key.arm].append(turn)
    return turns


def _measure(
    card: ArmCard, scenario: Scenario, history: HistoryView, turns: list[TurnFact], plan: PlanCard, wall_s: float
) -> tuple[ArmSummary, Validity]:
    """Return one arm's numbers, and what the validity checker says of them."""
    samples = history.samples.get(card.name, ())
    delta = deltas(samples)
    valid = _validity(card, scenario, samples, delta, turns)
    works = scenario.replay == "agent"
    counts = turn_counts(
        turns,
        planned=plan.turns if scenario.replay == "recorded" else 0,  # live, what is reached is what was planned
        open_starts=history.open_starts.get(card.name, 0),
        repeated_starts=history.repeated_starts.get(card.name, 0),
    )
    tokens = token_counts(turns)
    ttft, tpot, e2e = latencies(turns)
    arm = ArmSummary(
        build=card.build,
        environment=EnvironmentCard(entries=card.environment.entries) if card.environment else None,
        valid=not valid.invalid,
        invalid_reasons=list(valid.invalid),
        turns=counts,
        wall_s=wall_s,
        busy_s=busy_s(turns),
        tokens=tokens,
        ttft_ms=ttft,
        tpot_ms=tpot,
        e2e_ms=e2e,
        speculation=speculation(delta),
        prefix_cache=prefix_cache(delta),
        usable_tokens_per_s=tokens.usable / wall_s if tokens.usable is not None and wall_s > 0 else None,
        rate=rates(counts, rate),
        rate_upper95=rates(counts, rate_upper95),
        skipped_reasons=skipped_reasons(turns),
        clamped=sum(turn.clamped for turn in turns),
        censored=sum(turn.censored for turn in turns),
        attempts=sum(turn.attempts for turn in turns),
        retried_turns=sum(turn.attempts > 1 for turn in turns),
        loop_lag_ms_max=max((turn.loop_lag_ms for turn in turns), default=0.0),
        kinds=kind_counts(turns),
        engine=engine_figures(delta),
        worst=worst_turns(turns),
        tasks=task_counts([end for end in history.ends if end.arm == card.name], planned=plan.tasks) if works else None,
        conversations=_conversations(card, scenario, history, turns),
        canaries=canary_counts(turns) if scenario.canaries else None,
    )
    return arm, valid


def _conversations(
    card: ArmCard, scenario: Scenario, history: HistoryView, turns: list[TurnFact]
) -> Conversations | None:
    if scenario.replay not in CARRIED_ON:
        return None
    found = measure_conversations(history.conversations.get(card.name, ()), turns)
    # What an agent's ends count besides is not about calls: it is in `tasks`.
    return found if scenario.replay == "live" else msgspec.structs.replace(found, counts={})


def _with_evidence(
    arm: ArmSummary, manifest: Manifest, history: HistoryView, name: str, turns: Mapping[str, Sequence[TurnFact]]
) -> tuple[ArmSummary, list[Opinion]]:
    """Return the arm with the engine's evidence turn by turn, and what that says of the arm as a whole."""
    try:
        found = engine_evidence(
            turns[name], history.samples.get(name, ()), spans_elsewhere(name, manifest, turns, history.broken_off)
        )
    except Exception as crash:
        return arm, [Opinion("unknown", (_crashed("engine evidence", crash),))]
    return msgspec.structs.replace(arm, evidence=found), [Opinion("pass", tuple(found.alarms))]


def _course(history: HistoryView, arm: str, turns: Sequence[TurnFact]) -> list[Opinion]:
    """
    Return what befell the run.

    A server that went away and an unjudged turn leave it unknown; a resume, and what passed beside turns, do not.
    """
    away = sum(event.kind == "server_down" and event.arm in (arm, None) for event in history.events)
    deaths = [event for event in history.events if event.kind == "engine_died" and event.arm == arm]
    resumes = sorted(event.at for event in history.events if event.kind == "resumed")
    restarts = _restarts(history.samples.get(arm, ()), resumes)
    unjudged = sum(turn.outcome == "indeterminate" and turn.reason == UNJUDGED for turn in turns)
    told = (
        (len(deaths), f"the engine died {plural(len(deaths), 'time')}; first: {deaths[0].text if deaths else ''}"),
        (away, f"the server went away {plural(away, 'time')}; turns in flight then ended as error"),
        (restarts, f"the engine was restarted {plural(restarts, 'time')} during the run"),
        (unjudged, f"{plural(unjudged, 'turn')} finished without a judgement (counted as indeterminate)"),
    )
    opinions = [Opinion("unknown", (text,)) for times, text in told if times]
    opinions += [Opinion("pass", (text,)) for text in _unread(history.events, arm)]
    if traffic := [event.text for event in history.events if event.kind == "proxied"]:
        opinions.append(Opinion("pass", (traffic[-1],)))
    if resumes:
        opinions.append(Opinion("pass", (f"the run was resumed {plural(len(resumes), 'time')}",)))
    return opinions


def _unread(events: Sequence[Event], arm: str) -> list[str]:
    """Return for how long the engine's metrics page was silent, and what that leaves open."""
    silent_s, times, since = 0.0, 0, None
    for event in events:
        if event.kind == "metrics_silent" and event.arm == arm:
            times, since = times + 1, event.at
        elif since is not None and (event.kind == "ended" or (event.kind == "metrics_back" and event.arm == arm)):
            silent_s, since = silent_s + event.at - since, None
        elif event.kind == "resumed":  # when the sitting before was killed is not known
            since = None
    if not times:
        return []
    return [
        f"the engine's metrics page was silent {plural(times, 'time')}, for {duration(silent_s)} in all: acceptance,"
        " cache hits and what is concluded from their counters miss what changed in that time"
    ]


def _restarts(samples: Sequence[EngineSample], resumes: Sequence[float]) -> int:
    """Return the restarts of the engine within sittings; between two a build that we serve is restarted by us."""
    sittings: dict[int, list[EngineSample]] = defaultdict(list)
    for sample in samples:
        sittings[bisect(resumes, sample.at)].append(sample)
    return sum(deltas(sitting).restarts for sitting in sittings.values())


def _left_over(scenario: Scenario, history: HistoryView, arm: ArmSummary, state: str) -> list[Opinion]:
    """Return that a run called complete left planned turns out, unless its evidence was what ended it."""
    counted = scenario.budget.turns is not None or scenario.budget.passes is not None
    decided = any(event.kind == "decided" for event in history.events)
    left = arm.turns.not_reached
    if not (counted and state == "complete" and left) or decided:
        return []
    return [Opinion("unknown", (f"{plural(left, 'planned turn')} {'was' if left == 1 else 'were'} never reached",))]


def _too_deep(card: ArmCard, arm: ArmSummary) -> list[Opinion]:
    """Return why the embedded build could not be sent most of the turns: nothing is broken, its model is small."""
    context = card.capabilities.context_tokens if card.capabilities else None
    deep = sum(turns for reason, turns in arm.skipped_reasons.items() if "context" in reason)
    if card.given_target != _EMBEDDED or context is None or deep <= MAX_SKIPPED * arm.turns.planned:
        return []
    text = (
        f"{deep} of the skipped turns are deeper than the {context:,} tokens that the embedded model holds: expected"
        " with it, and no fault of the build; a server with a larger context is sent these turns too"
    )
    return [Opinion("unknown", (text,))]


def _carried_on(arm: ArmSummary, scenario: Scenario, state: str) -> list[Opinion]:
    """Return what came of conversations that the model's own answers carried on."""
    found = arm.conversations
    if found is None:
        return []
    said = [Opinion("pass", (f"{scenario.replay} replay: its counts say nothing beside those of recorded replay",))]
    said.append(Opinion("pass", conversation_sentences(found)))
    counted = scenario.budget.turns is not None or scenario.budget.passes is not None
    if counted and state == "complete" and found.ended < found.begun:
        said.append(Opinion("unknown", (f"{plural(found.begun - found.ended, 'conversation')} never came to an end",)))
    return said


def client_notes(arm: ArmSummary) -> tuple[str, ...]:
    """Return what our own side had to do with the times: retries, and an event loop that ran late."""
    notes = []
    if arm.retried_turns:
        notes.append(
            f"{plural(arm.retried_turns, 'turn')} took more than one attempt ({arm.attempts:,} attempts in all)"
        )
    median_ms = arm.ttft_ms.p50
    limit_ms = MAX_LOOP_LAG_MS if median_ms is None else min(MAX_LOOP_LAG_MS, median_ms / 2)
    if arm.loop_lag_ms_max > limit_ms:
        notes.append(
            f"client-limited: our own event loop ran {max(arm.loop_lag_ms_max, 1):,.0f} ms late; latencies include that"
        )
    return tuple(notes)


def _validity(
    card: ArmCard, scenario: Scenario, samples: Sequence[EngineSample], delta: EngineDelta, turns: list[TurnFact]
) -> Validity:
    """Ask the validity checker; if it crashes, the arm is invalid, for nothing vouches for it."""
    try:
        return validity(card, scenario.expect, samples, delta, turns)
    except Exception as crash:
        return Validity(invalid=(_crashed("validity", crash),))


def _crashed(checker: str, crash: Exception) -> str:
    return f"the {checker} checker crashed ({type(crash).__name__}: {str(crash)[:200]}): its answer is unknown"


Checker = Callable[[Scenario, ArmSummary, str], Opinion]


def _ask(scenario: Scenario, arm: ArmSummary, state: str) -> list[Opinion]:
    """Return every checker's opinion of one arm."""
    return [_guarded(name, checker, scenario, arm, state) for name, checker in CHECKERS.items()]


def _guarded(name: str, checker: Checker, scenario: Scenario, arm: ArmSummary, state: str) -> Opinion:
    try:
        return checker(scenario, arm, state)
    except Exception as crash:
        return Opinion("unknown", (_crashed(name, crash),))


def _valid(_scenario: Scenario, arm: ArmSummary, _state: str) -> Opinion:
    return Opinion("pass") if arm.valid else Opinion("unknown", tuple(f"invalid: {why}" for why in arm.invalid_reasons))


def _complete(scenario: Scenario, arm: ArmSummary, state: str) -> Opinion:
    """Say whether the plan was carried out."""
    turns = arm.turns
    against = [] if state in ("complete", "stopped") else [f"the run is not complete: {_STATES.get(state, state)}"]
    for count, limit, what in (
        (turns.skipped, MAX_SKIPPED, "were skipped"),
        (turns.indeterminate, MAX_INDETERMINATE, "were broken off by ourselves (indeterminate)"),
    ):
        if count > limit * turns.planned:
            against.append(f"{count} of {turns.planned} planned turns {what}: more than {percent(limit)}")
    if against:
        return Opinion("unknown", tuple(against))
    # Only recorded replay knows beforehand how many turns there will be.
    what = "planned turns" if scenario.replay == "recorded" else "begun turns"
    kept = f"{turns.finished} of {turns.planned} {what} finished"
    rest = [
        f"{count} {what}"
        for count, what in (
            (turns.skipped, "skipped"),
            (turns.indeterminate, "indeterminate"),
            (turns.not_reached, "not reached"),
            (turns.aborted, "aborted by us as planned"),
        )
        if count
    ]
    return Opinion("pass", (", ".join([kept, *rest]),))


_STATES = {
    "running": "it is still running, or was killed and not resumed",
    "interrupted": "it was interrupted and not resumed",
    "engine_gone": "the engine went away and did not come back",
}


def _classes(_scenario: Scenario, arm: ArmSummary, _state: str) -> Opinion:
    """State the counts of the classes a run is made for, whatever the thresholds."""
    if not arm.turns.finished:
        return Opinion("unknown", ("no turn finished",))
    names = ("garbage_loop", "early_stop")
    said = [events_sentence(name, getattr(arm.turns, name), arm.turns.finished) for name in names]
    if arm.turns.max_tokens * 2 > arm.turns.finished:
        cut = f"{arm.turns.max_tokens} of {arm.turns.finished} finished turns"
        said.append(f"max_tokens {cut}: most answers were cut at the cap, and how they would have ended is not known")
    said += [f"{plural(arm.kinds[kind], 'turn')} {what}" for kind, what in _ODD_KINDS.items() if kind in arm.kinds]
    return Opinion("pass", tuple(said))


# Notes of the classifiers that concern the server as a whole: told of a run, whatever the class of the turns.
_ODD_KINDS = {
    "unknown_finish_reason": "ended with a finish reason that is not known, and judged as if it were stop",
    "usage_zero": "came with a usage of 0 tokens for text: its token counts cannot be believed",
    "usage_reasoning": "came with more reasoning tokens than tokens: its token counts cannot be believed",
    "usage_above_limit": "came with more tokens than max_tokens allowed: it is not kept, or usage is wrong",
    "usage_cached": "came with more cached tokens than the prompt has: the hit rate in usage cannot be believed",
}


def _thresholds(scenario: Scenario, arm: ArmSummary, _state: str) -> Opinion:
    if not arm.valid:
        return Opinion("unknown")
    return thresholds_opinion(scenario.thresholds, arm)


def _stopped(scenario: Scenario, arm: ArmSummary, state: str) -> Opinion:
    """Say whether this arm is why the run was stopped; a stop that no longer holds leaves the run unknown."""
    if state != "stopped":
        return Opinion("pass")
    held = broken_stop(scenario.thresholds, arm)
    if held is None or not arm.valid:
        return Opinion("unknown", ("the run was stopped by a threshold before its plan was done",))
    return Opinion("fail", (held,))


CHECKERS: dict[str, Checker] = {
    "validity": _valid,
    "stop": _stopped,
    "thresholds": _thresholds,
    "completeness": _complete,
    "classes": _classes,
}


def _named(opinions: Mapping[str, Sequence[Opinion]]) -> list[Opinion]:
    """Return all opinions, each sentence led by its arm where there is more than one."""
    many = len(opinions) > 1
    return [
        Opinion(opinion.verdict, tuple(f"{arm}: {reason}" if many else reason for reason in opinion.reasons))
        for arm, said in opinions.items()
        for opinion in said
    ]
