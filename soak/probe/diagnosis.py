"""
From conditions and laws to a cause: pure.

What the conditions show is told in `conditions.py`; here it is put together with what a trusted server makes of the
tokens.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from soak.facts import (
    Build,
    Case,
    Cause,
    EnvironmentCard,
    Judgement,
    Law,
    Observation,
    Trial,
    TurnClass,
    text_of,
)
from soak.probe.conditions import (
    AS_ASKED,
    COOL,
    NO_CACHE,
    NO_SPECULATION,
    PLAIN_COLD,
    RESTARTED,
    SALTED,
    SINGLE,
    STILL_LEAST,
    Seen,
    answers,
    blamed,
    counts,
    greedy,
    helping,
    rarer_in,
    reads_otherwise,
    still,
    tested,
    without_restart,
)
from soak.probe.laws import NEAR_TIE_NATS, impossible
from soak.probe.outcomes import answer_of, spoke
from soak.stats import upper_bound

ONE_LOOK = (
    "p and the intervals hold for one look at a number of repeats that was settled beforehand; repeats added to these"
    " because of what they showed make false alarms likelier: ask more of them in a new folder"
)
OTHER_LIMITS = "ask with a larger max_tokens, longer deadlines or without stop strings"
_P = "the chance of a difference at least this large if the condition made none"

ENOUGH_ANSWERS = 5
"""With fewer answers nothing is said of how seldom a stop comes: 0 of 5 is a rate below 45 % with 95 %."""

_Found = tuple[Cause, str, list[str]]


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


def _cause(seen: Seen) -> _Found:
    ours = of_client(seen.case, seen.failure)
    if ours is not None:
        return "client", ours, [OTHER_LIMITS]
    if not answers(seen, AS_ASKED):
        return "undecided", "it was not answered when it was asked again", ["see the server's log"]
    wrong = [law for law in seen.laws if impossible(law, seen.case.sampling)]
    found = blamed(seen)
    if seen.failure == "early_stop" and greedy(seen.case.sampling) and seen.laws and not wrong:
        stop = _greedy_stop(seen, seen.laws[-1])
        if stop[0] == "near-tie (numerics)" or not found:
            return stop  # where rounding decides, every change of the engine may turn it: that blames no part
    if found:
        return _engine(seen, found)
    if wrong:
        return _impossible(seen, wrong[-1 if seen.failure == "early_stop" else 0])
    if seen.failure == "early_stop":
        return _stop(seen)
    return _engine_cleared(seen)


def of_client(case: Case, failure: TurnClass) -> str | None:
    """
    Return how we ourselves ended the answer, None where the server did: known before anything is asked again.

    What loops does so whoever ends it. A limit on tokens is the cause where the recorded answer is no shorter; where it
    is, something else made the answer that long.
    """
    observation = case.observation
    if observation is None or failure == "garbage_loop":
        return None
    if observation.ending.startswith("deadline") or observation.ending in ("cut", "too_large"):
        return f"our own limit ended it ({observation.ending})"
    if failure == "max_tokens" and (recorded := _recorded_tokens(case)) >= case.sampling.max_tokens:
        return f"max_tokens is {case.sampling.max_tokens}, and the answer recorded here has at least {recorded}"
    if failure == "early_stop" and isinstance(observation.stop_reason, str):
        stops = case.sampling.stop or ()
        if observation.stop_reason in stops:
            return f"a stop string that was asked for ended it: {observation.stop_reason[:60]!r}"
    return None


def _recorded_tokens(case: Case) -> int:
    """Return how many tokens the recorded answer has at least: where they were not counted, as many as words."""
    if case.reference_tokens is not None or case.reference is None:
        return case.reference_tokens or 0
    texts = (text_of(case.reference.content), *(call.arguments for call in case.reference.tool_calls))
    return sum(len(text.split()) for text in texts)


def _engine(seen: Seen, found: Mapping[str, float]) -> _Found:
    """Return the part of the engine without which the failure goes away; of several the one with most evidence."""
    if (p := rarer_in(seen, RESTARTED)) is not None:
        found = without_restart(found)
        if not found:
            text = f"{_falls(seen, RESTARTED)} with nothing changed (p = {p:.2g}: {_P}): something in the first serving"
            return "engine: other", f"{text}, and what took another start to try tells no more", _needs(seen)
    single = [name for name in found if name in SINGLE]
    if not single:
        return _two_factors(seen, found[PLAIN_COLD])
    first = min(single, key=found.__getitem__)
    text = f"{_falls(seen, first)} ({_corrected(seen, found[first])})"
    if {"engine: cache", "engine: speculation"} <= {SINGLE[name] for name in single}:
        text += "; without the other it goes away as well: cache × speculation"
    return SINGLE[first], f"{text}{_remainder(seen, first)}", [*_misfit(seen), *_needs(seen)]


def _two_factors(seen: Seen, p: float) -> _Found:
    """Return what is said where the failure goes away without speculation and cold at once, and not by either alone."""
    alone = [name for name in (NO_SPECULATION, NO_CACHE, SALTED) if name in seen.conditions]
    text = f"{_falls(seen, PLAIN_COLD)} ({_corrected(seen, p)})"
    if all(still(seen, name) for name in alone):
        kept = " and ".join(f"{_share(seen, name)} with {name}" for name in alone)
        told = f"either alone is not enough ({kept}): two faults, or one that each of the two brings on"
    else:
        told = "whether one of the two alone would do these repeats do not tell"
    return "engine: other", f"{text}; {told}", _needs(seen)


def _remainder(seen: Seen, first: str) -> str:
    """Return a remark where failures remain without the one part, and none where both are away."""
    if not answers(seen, PLAIN_COLD) or reads_otherwise(seen, PLAIN_COLD):
        return ""
    if counts(seen, first)[0] < STILL_LEAST or counts(seen, PLAIN_COLD)[0]:
        return ""
    return f"; what remains is gone with {PLAIN_COLD}: there may be a second fault"


def _misfit(seen: Seen) -> list[str]:
    if not still(seen, PLAIN_COLD):
        return []
    return [f"it comes with {PLAIN_COLD} all the same ({_share(seen, PLAIN_COLD)}), which does not fit"]


def _engine_cleared(seen: Seen) -> _Found:
    """Return the cause of a failure that no part of the engine was shown to need."""
    failed, asked = counts(seen, AS_ASKED)
    if not failed:
        bound = upper_bound(0, asked) or 1.0
        text = f"it did not come again in {asked} repeats (a rate below {bound:.0%} with 95 %)"
        return "undecided", text, ["60 repeats would show a rate of 5 % with 95 %", ONE_LOOK]
    if any(reads_otherwise(seen, name) for name in helping(seen)):
        text = (
            "it goes away with a salt, which stands in the prompt here: a cold cache, or only other words, may do that"
        )
        return "undecided", text, ["a server whose cache can be salted or switched off would tell them apart"]
    if not still(seen, PLAIN_COLD):
        return _not_cleared(seen)
    where = [name for name in (NO_SPECULATION, NO_CACHE, SALTED, PLAIN_COLD) if still(seen, name)]
    text = f"it comes with {' and with '.join(where)} as well{_own(seen)}"
    both = "a fault that both servers share would look the same: another engine or an fp32 reference would tell"
    if (p := rarer_in(seen, COOL)) is not None:
        text += f"; {_falls(seen, COOL)} (p = {p:.2g}: {_P}): an unlucky draw of a law that is the model's own"
        return "sampling", text, ["a lower temperature or top_p on the same build", both, *_needs(seen)]
    cool = f", at {COOL} in {_share(seen, COOL)}" if answers(seen, COOL) else ""
    if cool and not still(seen, COOL):
        told = "no part of the engine is needed; an unlucky draw or the model's own way, these repeats do not tell"
        return "undecided", f"{text}{cool}: {told}", [both, *_needs(seen)]
    return "model", f"{text}{cool}: the model's own", [both, *_needs(seen)]


def _not_cleared(seen: Seen) -> _Found:
    """Return what is said where nothing helped, nor did it come often enough with speculation and cache away."""
    if (p := rarer_in(seen, COOL)) is not None:
        text = f"{_falls(seen, COOL)} (p = {p:.2g}: {_P}): an unlucky draw, or a fault that makes unlikely tokens come"
        return "undecided", text, [f"the same repeats with {PLAIN_COLD} would tell them apart", *_needs(seen)]
    return "undecided", "no condition tells enough: too few repeats, or too few conditions could be tried", _needs(seen)


def _own(seen: Seen) -> str:
    ordinary = bool(seen.laws) and not any(impossible(law, seen.case.sampling) for law in seen.laws)
    return ", and the model itself gives the tokens at its onset ordinary probability" if ordinary else ""


def _impossible(seen: Seen, law: Law) -> _Found:
    """Return the cause of a token that is not the model's: the one part of the engine without which it never came."""
    never = [name for name in (*SINGLE, PLAIN_COLD) if _never(seen, name)]
    causes = {SINGLE[name] for name in never if name in SINGLE}
    text = f"{_place(law)} cannot be drawn from the model, which puts it {law.behind:.2f} nats behind{_same(seen)}"
    if not greedy(seen.case.sampling) or not counts(seen, AS_ASKED)[0]:
        return "engine: other", text, _needs(seen)
    if len(causes) == 1:
        return causes.pop(), f"{text}; with {' and with '.join(never)} it never came", _needs(seen)
    if never == [PLAIN_COLD]:
        return (
            "engine: other",
            f"{text}; only with {PLAIN_COLD} it never came: two faults, or either part",
            _needs(seen),
        )
    return "engine: other", text, _needs(seen)


def _never(seen: Seen, name: str) -> bool:
    return bool(answers(seen, name)) and not counts(seen, name)[0] and not reads_otherwise(seen, name)


def _stop(seen: Seen) -> _Found:
    """Return why a sampled answer stopped early where nothing shows the engine: from the rates and the law there."""
    if not seen.laws:
        return "undecided", f"no trusted server says what the model makes of the stop{_same(seen)}", _needs(seen)
    law = seen.laws[-1]
    if law.behind == 0:
        return "model", f"the model itself stops there: nothing is likelier{_same(seen)}", _needs(seen)
    chance = math.exp(law.floor if law.logprob is None else law.logprob)
    drawn = f"the model stops there with probability {chance:.2g}{_same(seen)}"
    cause, text, more = _engine_cleared(seen)
    if cause != "undecided":
        return cause, f"{drawn}; {text}", more
    failed, asked = counts(seen, AS_ASKED)
    if failed < STILL_LEAST and asked >= ENOUGH_ANSWERS:
        told = f"something else is likelier, and it came again in {failed} of {asked} (a rate below"
        told += f" {upper_bound(failed, asked) or 1.0:.0%} with 95 %): an unlucky draw of a law that is the model's own"
        return "sampling", f"{drawn}; {told}", [*more, "a fault that comes with a state of the server may not recur"]
    return "undecided", f"{drawn}, which is ordinary; but {text}", more


def _greedy_stop(seen: Seen, law: Law) -> _Found:
    """Return why a greedy answer stopped early at a token that the model may have taken."""
    exact = ["a reference in fp32 would say on which side the model is"]
    margin = math.inf if law.margin is None else law.margin
    if 0 < law.behind <= NEAR_TIE_NATS:
        text = f"{_place(law)} lies {law.behind:.3f} nats behind another: rounding decides{_same(seen)}"
        return "near-tie (numerics)", text, exact
    if law.behind == 0 and margin <= NEAR_TIE_NATS:
        text = f"{_place(law)} is ahead by {margin:.3f} nats: rounding decides{_same(seen)}"
        return "near-tie (numerics)", text, exact
    if law.behind > 0:
        text = f"{_place(law)} lies {law.behind:.3f} nats behind another: more than rounding usually does"
        return "undecided", f"{text}, and less than would rule it out{_same(seen)}", exact
    return "model", f"the model itself stops there: nothing is likelier{_same(seen)}", []


def _same(seen: Seen) -> str:
    """Return the remark how many repeats gave one answer: what a stop is known by."""
    if seen.failure != "early_stop":
        return ""
    return f"; {seen.identical} of {answers(seen, AS_ASKED)} repeats gave the same answer"


def _rates(seen: Seen) -> list[str]:
    return [
        f"{name}: {_share(seen, name)} are {seen.failure}; {one.distinct} different answers"
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


def _share(seen: Seen, name: str) -> str:
    failed, asked = counts(seen, name)
    return f"{failed} of {asked}"


def _falls(seen: Seen, name: str) -> str:
    return f"fails in {_share(seen, AS_ASKED)} as asked, in {_share(seen, name)} with {name}"


def _corrected(seen: Seen, p: float) -> str:
    return f"p = {p:.2g}: {_P}, corrected for the {len(tested(seen))} conditions tested"


def _needs(seen: Seen) -> list[str]:
    asked = seen.conditions[AS_ASKED].asked
    return [*([f"more repeats than {asked} would narrow the intervals"] if asked < 40 else []), ONE_LOOK]


def onset_of(judgement: Judgement | None, observation: Observation) -> int:
    """Return the token of an answer at which its failure begins, as the classifiers say of it; 0 where they do not."""
    findings = judgement.findings if judgement else ()
    onsets = [one.onset_token for one in findings if one.onset_token is not None]
    return max(0, min(onsets[0], len(observation.token_ids or ()) - 1)) if onsets else 0


def identical_of(trials: Sequence[Trial]) -> int:
    """Return how many repeats gave the most frequent answer; what was not answered gave none."""
    frequencies = Counter(answer_of(trial.observation) for trial in trials if spoke(trial))
    return max(frequencies.values(), default=0)


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
