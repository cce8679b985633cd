"""
What a trusted server makes of the tokens of an answer: its law at a place, and which tokens cannot be drawn from it.

Pure. A law is read from a row of log probabilities before temperature and truncation.
"""

import math

from soak.client import Row
from soak.errors import TargetError
from soak.facts import Case, Law, Sampling
from soak.probe.conditions import greedy

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
_SUM_MAX = 1.01
"""What rounding may make of probabilities that add up to 1."""
_TIE_NATS = 1e-3
"""Tokens no farther apart than this may be ranked either way."""
_LEAST_BEST = -math.log(2**24)
"""The likeliest token has at least its share of all tokens, of which no model has more than 2^24."""


def law_of(row: Row, position: int) -> Law:
    """Return what a trusted server makes of one token of an answer; raises `TargetError` for a row that is no law."""
    assert row.token is not None, "the row is of a given token"
    if (flaw := _flaw(row)) is not None:
        raise TargetError(
            "the scorer does not give log probabilities",
            why=f"at token {position} {flaw}",
            hint="name with --plain a server whose prompt_logprobs are those of the model",
        )
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


def _flaw(row: Row) -> str | None:
    """Return why a row cannot hold the model's log probabilities, None where it can."""
    shares = [share for _, share in row.top if math.isfinite(share)]
    mass = sum(math.exp(min(0.0, share)) for share in shares)
    if mass > _SUM_MAX:
        return f"the probabilities listed add up to {mass:.2f}"
    if max(shares, default=-math.inf) < _LEAST_BEST:
        return "none of those listed is as likely as the likeliest of all tokens must be"
    own = -math.inf if row.logprob is None else row.logprob
    likelier = sum(share > own + _TIE_NATS for share in shares)
    if row.rank is not None and likelier > row.rank:
        return f"{likelier} likelier ones are listed than the token of rank {row.rank + 1}"
    return None


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
