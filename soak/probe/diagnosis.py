"""
From conditions and laws to a cause: pure.

A condition (no speculation, no prefix cache, …) *helps* where the failure comes less often in it than as it was, by
Fisher's exact test, Holm-corrected over all conditions tried (Fisher, J. R. Stat. Soc. 98 (1935) 39; Holm, Scand. J.
Stat. 6 (1979) 65). What was not answered says nothing and is not counted. Repeats of a greedy request are no draws: the
same answer again counts once, for all of them would turn together on one rounding.
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
    Judgement,
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
WIDE_NATS = 4 * NEAR_TIE_NATS
"""
From here on rounding is no explanation. Between the two nothing is said: differences of 0.3 nats come at one token in a
hundred, and a near-tie of bf16 was seen to be 0.67 nats wide in fp32.
"""
TOLERANCE = 0.03
"""How far beyond top_p the trusted server's nucleus may reach before a token is called impossible (statistics)."""
RARE_NATS = math.log(3e5 * 12 / 1e-3)
"""
Without truncation a token that lies farther behind than this was not drawn: of 300,000 tokens, at one of the 12 places
looked at, one that rare comes with a chance of at most one in a thousand.
"""
STILL_LEAST = 2
"""So many failures a condition must show before it is said that they still come in it."""

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
    salt_in_prompt: bool = False
    """Whether the salt of the salted repeats stood in the prompt, so that the model read other words too."""


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
    base_failed, base_asked = _counts(seen, AS_ASKED)
    if not base_asked:
        return "undecided", "it was not answered when it was asked again", ["see the server's log"]
    wrong = [law for law in seen.laws if impossible(law, seen.case.sampling)]
    if seen.failure == "early_stop" and greedy(seen.case.sampling) and seen.laws and not wrong:
        return _stop(seen, wrong)  # first: where rounding decides, every change of the engine may turn it
    helped = helping(seen)
    engine = [name for name in helped if name in _ENGINE and not _reads_otherwise(seen, name)]
    if engine:
        return _engine(seen, engine, helped)
    if seen.failure == "early_stop":
        return _stop(seen, wrong)
    if wrong:
        return _impossible(seen, wrong[0])
    if not base_failed:
        bound = upper_bound(0, base_asked) or 1.0
        text = f"it did not come again in {base_asked} repeats (a rate below {bound:.0%} with 95 %)"
        return "undecided", text, ["60 repeats would show a rate of 5 % with 95 %"]
    if SALTED in helped:
        text = (
            "it goes away with a salt, which stands in the prompt here: a cold cache, or only other words, may do that"
        )
        return "undecided", text, ["a server whose cache can be salted or switched off would tell them apart"]
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
        where = f"it comes with {' and with '.join(still)} as well"
        own = ", and the model itself gives the tokens at its onset ordinary probability" if ordinary else ""
        both = "a fault that both servers share would look the same: another engine or an fp32 reference would tell"
        return "model", f"{where}{own}: the model's own", [both, *_needs(seen)]
    return "undecided", "no condition tells enough: too few repeats, or too few conditions could be tried", _needs(seen)


def _reads_otherwise(seen: Seen, name: str) -> bool:
    """Whether the model reads other words in this condition, so that going away in it does not show the engine."""
    return name == SALTED and seen.salt_in_prompt


def _impossible(seen: Seen, law: Law) -> tuple[Cause, str, list[str]]:
    """Return the cause of a token that is not the model's: the one part of the engine without which it never came."""
    without = [name for name in _ENGINE if name in seen.conditions and not _reads_otherwise(seen, name)]
    never = [name for name in without if _counts(seen, name)[1] and not _counts(seen, name)[0]]
    causes = {_ENGINE[name] for name in never}
    text = f"{_place(law)} cannot be drawn from the model, which puts it {law.behind:.2f} nats behind"
    if len(causes) == 1 and greedy(seen.case.sampling) and _counts(seen, AS_ASKED)[0]:
        return causes.pop(), f"{text}; with {' and with '.join(never)} it never came", _needs(seen)
    return "engine: other", text, _needs(seen)


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
    if wrong:
        cause, text, more = _impossible(seen, wrong[-1])
        return cause, f"{text}{same}", more
    law = seen.laws[-1]
    if greedy(seen.case.sampling):
        return _greedy_stop(law, same)
    if law.behind == 0:
        return "model", f"the model itself stops there: nothing is likelier{same}", _needs(seen)
    chance = math.exp(law.floor if law.logprob is None else law.logprob)
    return "model", f"the model stops there with probability {chance:.2g}: sampling drew it{same}", _needs(seen)


def _greedy_stop(law: Law, same: str) -> tuple[Cause, str, list[str]]:
    exact = ["a reference in fp32 would say on which side the model is"]
    margin = math.inf if law.margin is None else law.margin
    if 0 < law.behind <= NEAR_TIE_NATS:
        text = f"{_place(law)} lies {law.behind:.3f} nats behind another: rounding decides{same}"
        return "near-tie (numerics)", text, exact
    if law.behind == 0 and margin <= NEAR_TIE_NATS:
        return "near-tie (numerics)", f"{_place(law)} is ahead by {margin:.3f} nats: rounding decides{same}", exact
    if law.behind > 0:
        text = f"{_place(law)} lies {law.behind:.3f} nats behind another: more than rounding usually does"
        return "undecided", f"{text}, and less than would rule it out{same}", exact
    return "model", f"the model itself stops there: nothing is likelier{same}", []


def _of_client(seen: Seen) -> str | None:
    """Return how we ourselves ended the answer, None where the server did. What loops does so whoever ends it."""
    observation = seen.case.observation
    if observation is None or seen.failure == "garbage_loop":
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
    base = _draws(seen, AS_ASKED)
    others = [name for name in seen.conditions if name != AS_ASKED and _counts(seen, name)[1]]
    counts = [_draws(seen, name) for name in others]
    corrected = holm([fisher(base, one) or 1.0 for one in counts])
    return {
        name: p
        for name, (failed, asked), p in zip(others, counts, corrected, strict=True)
        if p <= ALPHA and failed / asked < base[0] / base[1]
    }


def greedy(sampling: Sampling) -> bool:
    """Whether the likeliest token is taken, so that repeats differ by rounding only."""
    return sampling.temperature == 0 or sampling.top_k == 1


def failed_as(outcomes: Outcomes, failure: TurnClass) -> int:
    """Return how many repeats were of the class that is looked into."""
    return outcomes.classes.get(failure, 0)


def _counts(seen: Seen, name: str) -> tuple[int, int]:
    """Return how many answers failed, and how many there were; no answer is one only where that is the failure."""
    one = seen.conditions[name]
    return failed_as(one, seen.failure), one.asked - (0 if seen.failure == "error" else one.unanswered)


def _draws(seen: Seen, name: str) -> tuple[int, int]:
    """Return the counts as far as they are draws of their own: of greedy repeats each different answer counts once."""
    failed, asked = _counts(seen, name)
    distinct = seen.conditions[name].distinct
    if not (name == GREEDY or greedy(seen.case.sampling)) or distinct >= asked:
        return failed, asked
    return round(failed * distinct / asked), distinct


def impossible(law: Law, sampling: Sampling) -> bool:
    """
    Whether a token cannot have been drawn from the model's law.

    At temperature 0: not the likeliest, by far. Else outside what top_p, top_k or min_p leave, by more than rounding
    moves it, or so far behind the likeliest that nobody draws it. A law that penalties reshape must not be asked.
    """
    if greedy(sampling):
        return law.behind > WIDE_NATS
    temperature = 1.0 if sampling.temperature is None else sampling.temperature
    hot = max(1.0, temperature)
    return (
        _beyond_nucleus(law, sampling.top_p, temperature)
        or _beyond_top_k(law, sampling.top_k)
        or (bool(sampling.min_p) and law.behind > -math.log(sampling.min_p or 1.0) * temperature + WIDE_NATS)
        or law.behind > RARE_NATS * hot
    )


def _beyond_nucleus(law: Law, top_p: float | None, temperature: float) -> bool:
    """Whether likelier tokens hold more than top_p; a lower temperature only makes the nucleus smaller."""
    return top_p is not None and top_p < 1.0 and temperature <= 1.0 and law.nucleus >= top_p + TOLERANCE


def _beyond_top_k(law: Law, top_k: int | None) -> bool:
    """Whether twice as many tokens are likelier as may be drawn: at the edge itself rounding changes places."""
    return top_k is not None and top_k > 0 and law.rank is not None and law.rank >= 2 * top_k and law.behind > WIDE_NATS


def reshaped(case: Case) -> str | None:
    """Return what makes the sampled law another one than the model's own, None where nothing was asked that does."""
    sampling = case.sampling
    neutral = {"repetition_penalty": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0}
    asked = {name: getattr(sampling, name) for name in neutral} | case.extra_body
    for name, value in neutral.items():
        if asked[name] not in (None, value):
            return name
    return next((name for name in _RESHAPING if asked.get(name) not in _FREE), None)


_FREE: tuple[object, ...] = (None, "", False, [], {}, "auto", "none")
_RESHAPING = (
    *("logit_bias", "bad_words", "allowed_token_ids", "min_tokens", "ignore_eos", "logits_processors"),
    *("guided_json", "guided_regex", "guided_choice", "guided_grammar", "structured_outputs", "response_format"),
    *("tool_choice", "temperature", "top_p", "top_k", "min_p"),
)
"""Fields of a request that change which token is drawn, beside what `Sampling` holds; what replaces it is unread."""


def _still(base: tuple[int, int], other: tuple[int, int]) -> bool:
    """Whether a failure is still there: seen in the condition more than once, and at half its rate as asked or more."""
    return other[0] >= STILL_LEAST and other[0] / other[1] >= STILL_SHARE * base[0] / base[1]


def _rates(seen: Seen) -> list[str]:
    return [
        f"{name}: {failed_as(one, seen.failure)} of {one.asked} are {seen.failure}; {one.distinct} different answers"
        + (f"; {one.unanswered} were not answered" if one.unanswered else "")
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


def onset_of(judgement: Judgement | None, observation: Observation) -> int:
    """Return the token of an answer at which its failure begins, as the classifiers say of it; 0 where they do not."""
    findings = judgement.findings if judgement else ()
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
