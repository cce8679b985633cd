"""
From conditions and laws to a cause: pure.

A condition (no speculation, no prefix cache, …) *helps* where the failure comes less often in it than as it was, by
Fisher's exact test, Holm-corrected over all conditions tried (Fisher, J. R. Stat. Soc. 98 (1935) 39; Holm, Scand. J.
Stat. 6 (1979) 65).
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from soak.client import Row
from soak.facts import (
    Build,
    Case,
    Cause,
    EnvironmentCard,
    Law,
    Observation,
    Outcomes,
    Sampling,
    Trial,
    TurnClass,
)
from soak.probe.outcomes import answer_of
from soak.stats import fisher, holm, upper_bound

ALPHA = 0.05
STILL_SHARE = 0.5
"""A condition in which a failure still comes at least half as often did not help."""

NEAR_TIE_NATS = 0.25
"""
Twice the spacing of bf16 between 16 and 32, where the largest logits of language models lie (0.125): what two servers
that compute the same in another order may differ by. Source: IEEE 754 spacing of 8 significant bits.
"""
TOLERANCE = 0.03
"""How far beyond top_p the trusted server's nucleus may reach before a token is called impossible (statistics)."""
RARE_NATS = math.log(1e5)

AS_ASKED, SALTED, ALONE, GREEDY = "as asked", "salted", "alone", "temperature 0"
NO_SPECULATION, NO_CACHE, RESTARTED = "no speculation", "no prefix cache", "served anew"

_ENGINE: Mapping[str, Cause] = {
    SALTED: "engine: cache",
    NO_CACHE: "engine: cache",
    NO_SPECULATION: "engine: speculation",
    ALONE: "engine: other",
    RESTARTED: "engine: other",
}


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a diagnosis starts from; conditions that were not tried are absent, and `untried` says why."""

    case: Case
    failure: TurnClass
    conditions: Mapping[str, Outcomes]
    laws: tuple[Law, ...] = ()
    untried: Mapping[str, str] = {}
    identical: int = 0


class Cast(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict with its reasons."""

    cause: Cause
    text: str
    evidence: tuple[str, ...]
    open: tuple[str, ...]


def diagnose(seen: Seen) -> Cast:
    """Return the cause of a failure, with what led to it and what would change it."""
    evidence = [*_rates(seen), *_of_laws(seen)]
    missing = [f"{name}: not tried, {why}" for name, why in seen.untried.items()]
    cause, text, more = _cause(seen)
    return Cast(cause=cause, text=text, evidence=tuple(evidence), open=(*more, *missing))


def _cause(seen: Seen) -> tuple[Cause, str, list[str]]:
    ours = _of_client(seen)
    if ours is not None:
        return "client", ours, ["ask with a larger max_tokens, longer deadlines or without stop strings"]
    wrong = [law for law in seen.laws if impossible(law, seen.case.sampling)]
    base_failed, base_asked = _counts(seen, AS_ASKED)
    helped = helping(seen)
    engine = [name for name in helped if name in _ENGINE]
    if engine:
        return _engine(seen, engine, helped)
    if seen.failure == "early_stop":
        return _stop(seen, wrong)
    if wrong:
        return "engine: other", f"{_place(wrong[0])} cannot be drawn from the model", _needs(seen)
    if not base_failed:
        bound = upper_bound(0, base_asked) or 1.0
        text = f"it did not come again in {base_asked} repeats (a rate below {bound:.0%} with 95 %)"
        return "undecided", text, ["60 repeats would show a rate of 5 % with 95 %"]
    if GREEDY in helped:
        text = "it goes away at temperature 0 and with nothing else: the sampling leads the model there"
        return "sampling", text, ["other sampling on the same build, such as a lower temperature or top_p"]
    return _nothing_helped(seen)


def _nothing_helped(seen: Seen) -> tuple[Cause, str, list[str]]:
    """Return the cause of a failure that comes in every condition: the model's own, where that could be seen."""
    tried = [name for name in (NO_SPECULATION, NO_CACHE, SALTED) if name in seen.conditions]
    still = [name for name in tried if _still(_counts(seen, AS_ASKED), _counts(seen, name))]
    ordinary = bool(seen.laws) and not any(impossible(law, seen.case.sampling) for law in seen.laws)
    if NO_SPECULATION in still and (SALTED in still or NO_CACHE in still):
        where = f"it comes as often with {' and with '.join(still)}"
        own = ", and the model itself gives the tokens at its onset ordinary probability" if ordinary else ""
        return "model", f"{where}{own}: the model's own", _needs(seen)
    if ordinary and SALTED in still:
        text = "the model itself gives the tokens at its onset ordinary probability, and a cold cache does not help"
        return "model", text, _needs(seen)
    return "undecided", "no condition tells enough: too few repeats, or too few conditions could be tried", _needs(seen)


def _engine(seen: Seen, engine: Sequence[str], helped: Mapping[str, float]) -> tuple[Cause, str, list[str]]:
    """Return the part of the engine without which the failure goes away; of several the one with most evidence."""
    first = min(engine, key=lambda name: helped[name])
    causes = list(dict.fromkeys(_ENGINE[name] for name in engine))
    both = {"engine: cache", "engine: speculation"} <= set(causes)
    base, without = _counts(seen, AS_ASKED), _counts(seen, first)
    text = (
        f"fails in {base[0]} of {base[1]} as asked, in {without[0]} of {without[1]} with {first}"
        f" (the chance of this by luck: {helped[first]:.2g})"
    )
    if both:
        text += "; without the other it goes away as well: cache × speculation"
    return _ENGINE[first], text, _needs(seen)


def _stop(seen: Seen, wrong: Sequence[Law]) -> tuple[Cause, str, list[str]]:
    """Return why an answer stopped early, from the law at its stop."""
    same = f"; {seen.identical} of {seen.conditions[AS_ASKED].asked} repeats gave the same answer"
    if not seen.laws:
        return "undecided", f"no trusted server says what the model makes of the stop{same}", _needs(seen)
    law = seen.laws[-1]
    margin = law.margin
    greedy = seen.case.sampling.temperature == 0
    exact = ["a reference in fp32 would say on which side the model is"]
    if 0 < law.behind <= NEAR_TIE_NATS:
        text = f"{_place(law)} lies {law.behind:.3f} nats behind another: rounding decides{same}"
        return "near-tie (numerics)", text, exact
    if law.behind == 0 and margin is not None and margin <= NEAR_TIE_NATS:
        return "near-tie (numerics)", f"{_place(law)} is ahead by {margin:.3f} nats: rounding decides{same}", exact
    if wrong or (greedy and law.behind > NEAR_TIE_NATS):
        return "engine: other", f"{_place(law)}: the model puts it {law.behind:.2f} nats behind{same}", _needs(seen)
    if law.behind == 0:
        return "model", f"the model itself stops there: nothing is likelier{same}", _needs(seen)
    chance = math.exp(law.floor if law.logprob is None else law.logprob)
    return "model", f"the model stops there with probability {chance:.2g}: sampling drew it{same}", _needs(seen)


def _of_client(seen: Seen) -> str | None:
    """Return how we ourselves ended the answer, None where the server did."""
    observation = seen.case.observation
    if observation is None:
        return None
    if observation.ending.startswith("deadline") or observation.ending in ("cut", "too_large"):
        return f"our own limit ended it ({observation.ending})"
    if seen.failure == "early_stop" and isinstance(observation.stop_reason, str):
        stops = seen.case.sampling.stop or ()
        if observation.stop_reason in stops:
            return f"a stop string that was asked for ended it: {observation.stop_reason[:60]!r}"
    return None


def helping(seen: Seen) -> dict[str, float]:
    """Return the conditions in which the failure comes less often than as asked, with Holm-corrected p-values."""
    base = seen.conditions[AS_ASKED]
    others = [name for name in seen.conditions if name != AS_ASKED]
    counts = [_counts(seen, name) for name in others]
    raw = [fisher(_counts(seen, AS_ASKED), one) or 1.0 for one in counts]
    corrected = holm(raw)
    rate = failed_as(base, seen.failure) / base.asked
    return {
        name: p
        for name, (failed, asked), p in zip(others, counts, corrected, strict=True)
        if p <= ALPHA and failed / asked < rate
    }


def failed_as(outcomes: Outcomes, failure: TurnClass) -> int:
    """Return how many repeats were of the class that is looked into."""
    return outcomes.classes.get(failure, 0)


def _counts(seen: Seen, name: str) -> tuple[int, int]:
    one = seen.conditions[name]
    return failed_as(one, seen.failure), one.asked


def impossible(law: Law, sampling: Sampling) -> bool:
    """
    Whether a token cannot have been drawn from the model's law.

    Outside the nucleus by more than the tolerance, or, with no nucleus, a hundred thousand times less likely than the
    likeliest; at temperature 0: not the likeliest, by far.
    """
    if sampling.temperature == 0:
        return law.behind > 4 * NEAR_TIE_NATS
    top_p = 1.0 if sampling.top_p is None else sampling.top_p
    temperature = 1.0 if sampling.temperature is None else sampling.temperature
    if top_p < 1.0 and temperature <= 1.0:  # a lower temperature only makes the nucleus smaller
        return law.nucleus >= top_p + TOLERANCE
    return law.behind > RARE_NATS * max(1.0, temperature)


def _still(base: tuple[int, int], other: tuple[int, int]) -> bool:
    """Whether a failure is surely still there: seen in the condition at half its rate as asked or more."""
    return other[0] > 0 and other[0] / other[1] >= STILL_SHARE * base[0] / base[1]


def _rates(seen: Seen) -> list[str]:
    return [
        f"{name}: {failed_as(one, seen.failure)} of {one.asked} are {seen.failure}; {one.distinct} different answers"
        for name, one in seen.conditions.items()
    ]


def _of_laws(seen: Seen) -> list[str]:
    texts = []
    for law in seen.laws:
        share = f"p below {math.exp(law.floor):.2g}" if law.logprob is None else f"p = {math.exp(law.logprob):.2g}"
        rank = "" if law.rank is None else f" (rank {law.rank + 1})"
        word = "cannot be drawn" if impossible(law, seen.case.sampling) else "ordinary"
        best = f"the likeliest {math.exp(law.best_logprob):.2g}"
        texts.append(f"token {law.position}: the model gives it {share}{rank}, {best}: {word}")
    return texts


def _place(law: Law) -> str:
    return f"token {law.position} of the answer (id {law.token})"


def _needs(seen: Seen) -> list[str]:
    asked = seen.conditions[AS_ASKED].asked
    return [f"more repeats than {asked} would narrow the intervals"] if asked < 40 else []


def law_of(row: Row, position: int) -> Law:
    """Return what a trusted server makes of one token of an answer."""
    assert row.token is not None, "the row is of a given token"
    named = [(token, share) for token, share in row.top if math.isfinite(share)]
    own = row.logprob if row.logprob is not None and math.isfinite(row.logprob) else None
    above = [share for token, share in named if token != row.token and (own is None or share > own)]
    return Law(
        position=position,
        token=row.token,
        logprob=own,
        rank=row.rank,
        floor=min((share for _, share in named), default=0.0),
        best=named[0][0] if named else row.token,
        best_logprob=named[0][1] if named else 0.0,
        second_logprob=named[1][1] if len(named) > 1 else None,
        nucleus=min(1.0, sum(math.exp(min(0.0, share)) for share in above)),
    )


def onset_of(case: Case, observation: Observation) -> int:
    """Return the token of the answer at which its failure begins, as the classifiers say; 0 where they do not."""
    findings = case.judgement.findings if case.judgement else ()
    onsets = [one.onset_token for one in findings if one.onset_token is not None]
    return min(onsets[0], len(observation.token_ids or ()) - 1) if onsets else 0


def identical_of(trials: Sequence[Trial]) -> int:
    """Return how many repeats gave the most frequent answer."""
    return Counter(answer_of(trial.observation) for trial in trials).most_common(1)[0][1] if trials else 0


def places_of(observation: Observation | None, card: EnvironmentCard | None, build: Build) -> dict[str, int]:
    """Return where the end of an answer lies: tokens of prompt and answer, and their place in block and draft."""
    if observation is None or observation.usage is None or observation.usage.prompt is None:
        return {}
    prompt, answer = observation.usage.prompt, observation.output_tokens or 0
    places = {"prompt_tokens": prompt, "answer_tokens": answer}
    block = _whole(card.entries["block_size"].value) if card and "block_size" in card.entries else None
    if block:
        places |= {"block_size": block, "end_in_block": (prompt + answer) % block}
    drafts = (build.speculative or {}).get("num_speculative_tokens")
    if isinstance(drafts, int) and drafts > 0:
        places |= {"draft_tokens": drafts, "end_in_draft": answer % (drafts + 1)}
    return places


def _whole(text: str) -> int | None:
    return int(text) if text.isdecimal() and len(text) < 9 else None
