"""What the scenario's thresholds say of an arm: after the run (`pass_if`) and during it (`stop_if`)."""

import math
from collections.abc import Mapping

from soak.check.measures import rate, rate_upper95, rates
from soak.check.verdicts import Opinion
from soak.check.wording import events_sentence, number, percent, percent_up
from soak.facts import (
    CLASSES,
    ArmSummary,
    Build,
    PrefixCache,
    Quantiles,
    Speculation,
    Threshold,
    Thresholds,
    TokenCounts,
    TurnCounts,
    evaluate,
    measured,
)
from soak.scenario import parse_threshold


def thresholds_opinion(thresholds: Thresholds, arm: ArmSummary) -> Opinion:
    """
    Return what `pass_if` says: *fail* if one is broken, *unknown* if one has nothing to look at, else *pass*.

    Below `min_turns` finished turns nothing is judged: one bad turn of three breaks any rate and shows nothing.
    """
    finished = arm.turns.finished
    if finished < thresholds.min_turns:
        return Opinion(
            "unknown", (f"{finished} finished turns are below the {thresholds.min_turns} the scenario asks for",)
        )
    said: dict[bool | None, list[str]] = {True: [], False: [], None: []}
    for threshold in map(parse_threshold, thresholds.pass_if):
        holds = evaluate(threshold, arm)
        said[holds].append(_sentence(threshold, arm, holds))
    if said[False]:
        return Opinion("fail", tuple(said[False]))
    if said[None]:
        return Opinion("unknown", tuple(said[None]))
    return Opinion(
        "pass", tuple(said[True]) or ("the scenario sets no pass_if threshold: pass says only that the run is valid",)
    )


def _sentence(threshold: Threshold, arm: ArmSummary, holds: bool | None) -> str:
    value = measured(threshold, arm)
    if holds is None or value is None:
        return f"{threshold.text}: cannot be judged, {'.'.join(threshold.path)} was not measured"
    says = "holds" if holds else "is broken"
    name = threshold.path[-1]
    if threshold.path[0] in ("rate", "turns") and name in CLASSES:
        counted = events_sentence(name, getattr(arm.turns, name), arm.turns.finished)
        more = _clean_turns(threshold, arm.turns.finished, value) if holds else ""
        return f"{counted}; {threshold.text} {says}{more}"
    is_rate = threshold.path[0].startswith("rate") or name == "loop_rate"
    shown = percent_up(value) if is_rate else number(value)
    return f"{'.'.join(threshold.path)} is {shown}; {threshold.text} {says}"


def _clean_turns(threshold: Threshold, finished: int, value: float) -> str:
    """Return how many turns without an event would bound the rate at the limit, where there are fewer."""
    if threshold.path[0] != "rate" or value > 0 or not 0 < threshold.limit < 1:
        return ""
    needed = math.ceil(math.log(0.05) / math.log1p(-threshold.limit))
    if needed <= finished:
        return ""
    return f" as counted (to bound the rate at {percent(threshold.limit)} takes {needed} clean turns)"


def broken_stop(thresholds: Thresholds, arm: ArmSummary) -> str | None:
    """
    Return the sentence of the first `stop_if` that holds for the arm as it stands, None if none does.

    Rates are looked at from `min_turns` finished turns on, so that one early bad turn stops no run; counts at once.
    """
    for threshold in map(parse_threshold, thresholds.stop_if):
        early = threshold.path[0].startswith("rate") and arm.turns.finished < thresholds.min_turns
        if not early and evaluate(threshold, arm):
            value = number(measured(threshold, arm))
            return f"stop_if {threshold.text} holds: it is {value} after {arm.turns.finished} finished turns"
    return None


def live_stop(thresholds: Thresholds, counts: Mapping[str, int]) -> str | None:
    """
    Return the sentence of the first `stop_if` that holds in mid-run, when only turn counts are known, else None.

    `counts` maps `finished`, `skipped`, `indeterminate` and the five classes to turns of one arm; an absent name is 0.
    What is measured only at the end (times, engine counters) cannot stop a run.
    """
    return broken_stop(thresholds, _arm_of(counts)) if thresholds.stop_if else None


def _arm_of(counts: Mapping[str, int]) -> ArmSummary:
    """Return the summary of an arm of which only counts are known; all else is None."""
    known = {name: counts.get(name, 0) for name in ("finished", "skipped", "indeterminate", *CLASSES)}
    ended = known["finished"] + known["skipped"] + known["indeterminate"]
    turns = TurnCounts(planned=ended, **known)
    return ArmSummary(
        build=Build(model="", target=""),
        valid=True,
        invalid_reasons=[],
        turns=turns,
        wall_s=0.0,
        busy_s={},
        tokens=TokenCounts(),
        ttft_ms=Quantiles(),
        tpot_ms=Quantiles(),
        e2e_ms=Quantiles(),
        speculation=Speculation(),
        prefix_cache=PrefixCache(),
        rate=rates(turns, rate),
        rate_upper95=rates(turns, rate_upper95),
    )
