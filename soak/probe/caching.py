"""
Cache probes: the same question with what the cache holds and cold, held against the noise of cold answers. Pure.

A hit changes the shapes a prompt is computed in, and so its numerics: rounding alone moves log probabilities by a few
tenths of a nat and may turn a near-tie. A stale or foreign block moves the whole distribution. So the measure is the
probability mass that moved (`nearness.apart`), the bar three times the worst of cold against cold and never below
`MASS_FAULT`.
"""

from collections.abc import Sequence
from dataclasses import replace

import msgspec

from soak.facts import CacheFound, CacheProbe, Case, Message, Observation, Trial
from soak.probe.nearness import apart
from soak.stats import upper_bound

MASS_FAULT = 0.25
"""
The least moved mass that is called a fault. Rounding in bf16 moved single log probabilities by up to 1.6 nats between
prefill and decode of one model, its 99th percentile was 0.29: at most 0.15 of the mass of a two-way tie.
"""
FLOOR_FACTOR = 3.0
MOST_MASS = 1.0
"""All the probability there is: a bar above it is met by nothing, so that no probe could have shown a fault."""
ONE_CONVERSATION = 1
"""What all probes of a case count as: they share its blocks, so that one more is no further draw."""
ANSWER_TOKENS = 24
TOP = 20

_FILLER = ("Look", "at", "the", "next", "file", "and", "say", "what", "it", "does", "before", "we", "go", "on", "with")


def probing(case: Case) -> Case:
    """Return the case asked so that answers can be held against each other: greedily, short, with log probabilities."""
    sampling = replace(case.sampling, temperature=0.0, top_p=None, top_k=None, min_p=None, max_tokens=ANSWER_TOKENS)
    return msgspec.structs.replace(case, sampling=sampling, logprobs=TOP, seed=None)


def prefixes_of(case: Case, most: int) -> list[Case]:
    """
    Return up to `most` beginnings of a case at which a model answers, evenly spread, the whole case last.

    They share its first blocks, as the conversations of one agent do.
    """
    ends = [at for at in range(1, len(case.messages)) if case.messages[at - 1].role in ("user", "tool")]
    ends = [at for at in ends if case.messages[at].role == "assistant"] + [len(case.messages)]
    step = max(1.0, len(ends) / most)
    chosen = sorted({ends[len(ends) - 1 - round(number * step)] for number in range(most) if number * step < len(ends)})
    return [beginning(case, end) for end in chosen]


def beginning(case: Case, messages: int) -> Case:
    """Return the case with its first messages only; what was answered to the whole prefix is left out."""
    if messages == len(case.messages):
        return case
    name = f"{case.name} up to message {messages}"
    return msgspec.structs.replace(
        case, name=name, messages=case.messages[:messages], reference=None, reference_tokens=None, observation=None
    )


def branch(case: Case, number: int) -> Case:
    """Return a conversation that shares the case's whole prompt and goes on in its own way, each a word longer."""
    words = " ".join(_FILLER[at % len(_FILLER)] for at in range(3 + number))
    said = (Message(role="assistant", content="Yes."), Message(role="user", content=f"{words} ({number})."))
    return msgspec.structs.replace(
        case,
        name=f"{case.name} branch {number}",
        messages=(*case.messages, *said),
        reference=None,
        reference_tokens=None,
    )


def floor_of(cold: Sequence[Sequence[Trial]]) -> tuple[float | None, int]:
    """Return the largest mass by which cold answers to one question lie apart (None: not told), and the pairs."""
    masses = []
    for answers in cold:
        for at, one in enumerate(answers):
            masses += [apart(one.observation, other.observation).mass for other in answers[at + 1 :]]
    known = [mass for mass in masses if mass is not None]
    return max(known, default=None), len(known)


def bar_of(floor: float | None) -> float:
    """Return the mass from which a probe is a fault."""
    return max(MASS_FAULT, FLOOR_FACTOR * (floor or 0.0))


def probe_of(kind: str, case: Case, warm: Observation, cold: Observation, bar: float) -> CacheProbe:
    """Return what one question came to, asked warm and cold."""
    distance = apart(warm, cold)
    usage = warm.usage
    verdict = _verdict(distance.mass, bar, same=distance.same_text and distance.same_tokens is not False)
    return CacheProbe(
        kind=kind,
        case=case.name,
        messages=len(case.messages),
        verdict=verdict,
        apart=distance,
        cached_tokens=usage.cached if usage else None,
        prompt_tokens=usage.prompt if usage else None,
        text=_sentence(verdict, distance.mass, distance.mass_at, usage.cached if usage else None),
    )


def _verdict(mass: float | None, bar: float, *, same: bool) -> str:
    if mass is not None and mass >= bar:
        return "fault"
    if same:
        return "same"
    return "untold" if mass is None else "numerics"


def _sentence(verdict: str, mass: float | None, at: int | None, cached: int | None) -> str:
    hit = "" if cached is None else f" ({cached} tokens from the cache)"
    if mass is None:
        return f"{'the same answer' if verdict == 'same' else 'another answer, and no log probabilities'}{hit}"
    return f"{mass:.3f} of the probability moved, at the most at token {at} of the answer{hit}"


def cache_found(
    case: Case, probes: Sequence[CacheProbe], cold: Sequence[Sequence[Trial]], *, confirmed: bool, requests: int
) -> CacheFound:
    """
    Return what all probes come to; `confirmed`: a probe that stood alone as a fault failed again when it was repeated.

    Probes that met no cache (where the server tells) show nothing and do not count.
    """
    floor, pairs = floor_of(cold)
    bar = bar_of(floor)
    hits = [probe for probe in probes if probe.cached_tokens != 0]
    faults = [probe for probe in hits if probe.verdict == "fault"]
    result = _result(hits, faults, bar, confirmed=confirmed)
    bound = upper_bound(0, ONE_CONVERSATION) if hits and not faults else None
    return CacheFound(
        case=case.name,
        result=result,
        text=_text(result, hits, faults, bar, bound),
        probes=tuple(probes),
        hits=len(hits),
        floor=floor,
        floor_pairs=pairs,
        bar=bar,
        bound=bound,
        conversations=ONE_CONVERSATION,
        shortest=min((probe.messages for probe in faults), default=None) if result == "cache fault" else None,
        requests=requests,
    )


def _result(hits: Sequence[CacheProbe], faults: Sequence[CacheProbe], bar: float, *, confirmed: bool) -> str:
    if len(faults) > 1 or (faults and confirmed):
        return "cache fault"
    if faults or not hits or bar > MOST_MASS or any(probe.verdict == "untold" for probe in hits):
        return "undecided"
    return "numerics" if any(probe.verdict == "numerics" for probe in hits) else "nothing found"


def _text(
    result: str, hits: Sequence[CacheProbe], faults: Sequence[CacheProbe], bar: float, bound: float | None
) -> str:
    if result == "cache fault":
        worst = max(faults, key=lambda probe: probe.apart.mass or 0.0)
        short = min(faults, key=lambda probe: probe.messages)
        return (
            f"cache fault: {len(faults)} of {len(hits)} probes that met the cache answer from another distribution than"
            f" cold; the worst: {worst.text}; the shortest that fails has {short.messages} messages"
        )
    if result == "undecided":
        return _undecided(hits, faults, bar)
    probes = f"{len(hits)} probes of one conversation"
    below = "" if bound is None else f"; of other conversations less than {bound:.0%} fail so, with 95 %"
    apart_ones = sum(probe.verdict == "numerics" for probe in hits)
    if result == "numerics":
        return f"no fault found in {probes}: {apart_ones} answers differ, by no more than rounding does{below}"
    return f"nothing found in {probes}: every answer from the cache is the cold one{below}"


def _undecided(hits: Sequence[CacheProbe], faults: Sequence[CacheProbe], bar: float) -> str:
    if not hits:
        return "undecided: no probe met the cache; is prefix caching on, and the prompt longer than a block?"
    if faults:
        return f"undecided: one of {len(hits)} probes lay beyond {bar:.2f}, and did not when it was repeated"
    if bar > MOST_MASS:
        return "undecided: cold answers lie so far apart from one another that no fault could be told from their noise"
    untold = sum(probe.verdict == "untold" for probe in hits)
    return f"undecided: {untold} of {len(hits)} answers differ, and without log probabilities noise looks the same"
