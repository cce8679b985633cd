"""Policies: which script a request gets. What a seeded policy does depends on the request, never on arrival order."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import cycle

from fakes.answers import Answer, events, prose
from fakes.faults import CLASS_FAULTS, HARMLESS, WIRE_FAULTS, Ask, make
from fakes.script import End, Head, Script, Send, Wait, burst

Policy = Callable[[Ask], Script]

DEFAULT_RATES: dict[str, float] = {
    **dict.fromkeys(CLASS_FAULTS, 0.02),
    **dict.fromkeys(WIRE_FAULTS, 0.01),
    **dict.fromkeys(HARMLESS, 0.01),
}


def seeded_policy(
    seed: int,
    rates: Mapping[str, float] | None = None,
    *,
    first_chunk_s: float = 0.0,
    gap_s: float = 0.0,
    answer_tokens: int = 60,
) -> Policy:
    """
    Return a policy that gives each request the fault which its messages and seed, hashed with `seed`, fall on.

    `rates[name]` is the share of requests with that fault (see `FAULTS`); the rest is answered well. Requests that
    carry no `seed` are probes: they are always answered well and have no ground truth.
    """
    table = dict(DEFAULT_RATES if rates is None else rates)
    if sum(table.values()) > 1:
        raise ValueError("the rates sum to more than 1")

    def policy(ask: Ask) -> Script:
        ask = replace(ask, first_chunk_s=first_chunk_s, gap_s=gap_s, answer_tokens=answer_tokens)
        if "seed" not in ask.body:
            return replace(make("none", ask), truth=None)
        return make(pick(table, random.Random(f"{seed}:{ask.rng.random()}").random()), ask)

    return policy


def pick(rates: Mapping[str, float], point: float) -> str:
    """Return the fault whose share of [0, 1) holds `point`; "none" beyond all of them."""
    for name, rate in rates.items():
        if point < rate:
            return name
        point -= rate
    return "none"


def one(name: str) -> Policy:
    """Return a policy that gives every request the fault `name`."""
    return lambda ask: make(name, ask)


def in_order(scripts: Sequence[Script]) -> Policy:
    """Return a policy that hands out these scripts in order of arrival, over and over."""
    endless = cycle(scripts)
    return lambda ask: next(endless)


def pre_encoded(chunks: int, gap_s: float = 0.0) -> Policy:
    """
    Return a policy for benchmarks: ready bytes, the same good answer of `chunks` chunks for all.

    The whole answer is sent at once, or, with `gap_s`, an event every `gap_s` seconds.
    """

    @cache
    def script(token_ids: bool) -> Script:
        ask = Ask(body={}, rng=random.Random(1))
        answer = Answer(content=prose(ask.rng, chunks * 3))
        items = events(answer, replace(ask.style, token_ids=token_ids))[: chunks + 1]
        tokens = sum(item.tokens for item in items)
        usage = Answer(content=" x" * tokens)
        tail = events(usage, replace(ask.style, role_first=False, prompt_tokens=1000))[-3:]
        data = [item.data for item in (*items, *tail)]
        if not gap_s:
            return Script([Head(), burst(data, tokens), End()], finish="stop")
        paced = [step for event in data for step in (Send(event, 2), Wait(gap_s))]
        return Script([Head(), *paced, End()], finish="stop")

    return lambda ask: script(ask.style.token_ids)
