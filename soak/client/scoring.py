"""
What a model makes of given tokens: the law of the next one, and teacher-forced scores. Untimed; vLLM's API.

`POST /tokenize` gives the token ids of a chat request's prompt. `POST /v1/completions` takes them as its prompt, with
`logprobs` for the next token, or `prompt_logprobs` for every token of the prompt.
"""

import math
from collections.abc import Sequence
from typing import Any

import msgspec

from soak.client.desk import Desk, Reply
from soak.client.refusal import excerpt
from soak.errors import TargetError

SCORE_LIMIT_S = 600.0
_COUNTED = ("model", "messages", "tools", "chat_template_kwargs")
_ID = "token_id:"
_NO_LAW = (LookupError, TypeError, AttributeError, ValueError, OverflowError)
_ROUNDING = 1e-3
"""How far above 0 rounding may bring a log probability; what is farther above is none."""


class Row(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """
    What the model makes of one place: its likeliest tokens as (id, log probability), the likeliest first.

    For a token that was given: its id, log probability and rank (0: none is likelier).
    """

    top: tuple[tuple[int, float], ...]
    token: int | None = None
    logprob: float | None = None
    rank: int | None = None


async def prompt_ids(desk: Desk, body: dict[str, Any]) -> tuple[int, ...]:
    """Return the token ids that a chat request's prompt becomes; raises `TargetError` where the server cannot say."""
    asked = {name: body[name] for name in _COUNTED if name in body}
    reply = await desk.post("/tokenize", {**asked, "add_generation_prompt": True})
    value = reply.json() if reply.ok else None
    tokens = value.get("tokens") if isinstance(value, dict) else None
    if not isinstance(tokens, list) or not all(isinstance(one, int) and one >= 0 for one in tokens):
        raise _unable(desk, reply, "the tokens of a prompt")
    return tuple(tokens)


async def next_law(desk: Desk, model: str, ids: Sequence[int], top: int = 20) -> Row:
    """
    Return the law of the token after `ids`, before temperature and truncation, as far as the `top` likeliest go.

    Raises `TargetError` where the server does not give it.
    """
    asked = {
        "model": model,
        "prompt": list(ids),
        "max_tokens": 1,
        "temperature": 0.0,
        "logprobs": top,
        "return_tokens_as_token_ids": True,
    }
    reply = await desk.post_api("/completions", asked, SCORE_LIMIT_S)
    try:
        named = reply.json()["choices"][0]["logprobs"]["top_logprobs"][0] if reply.ok else {}
        return Row(top=_ranked((int(token.removeprefix(_ID)), float(share)) for token, share in named.items()))
    except _NO_LAW:
        raise _unable(desk, reply, "the log probabilities of a completion") from None


async def scores(desk: Desk, model: str, ids: Sequence[int], first: int, top: int = 20) -> tuple[Row, ...]:
    """
    Return what the model makes of the tokens from `ids[first]` on, each after all before it.

    `first` is at least 1: nothing stands before the first token. Send it to a server without prefix caching, which
    may leave out or keep stale rows of cached tokens. Raises `TargetError` where the server does not give them.
    """
    asked = {"model": model, "prompt": list(ids), "max_tokens": 1, "temperature": 0.0, "prompt_logprobs": top}
    reply = await desk.post_api("/completions", asked, SCORE_LIMIT_S)
    try:
        rows = reply.json()["choices"][0]["prompt_logprobs"] if reply.ok else None
        if not isinstance(rows, list) or len(rows) != len(ids):
            raise TypeError
        return tuple(_row(row, token) for row, token in zip(rows[first:], ids[first:], strict=True))
    except _NO_LAW:
        raise _unable(desk, reply, "the log probabilities of a prompt") from None


def _row(named: dict[str, dict[str, Any]], token: int) -> Row:
    """Return one place of `prompt_logprobs`: a dictionary by token id, whose ranks count from 1."""
    own = named[str(token)]
    shares = ((int(one), float(entry["logprob"])) for one, entry in named.items())
    rank = int(own["rank"])
    if rank < 1:
        raise ValueError("no rank")
    return Row(top=_ranked(shares), token=token, logprob=float(own["logprob"]), rank=rank - 1)


def _ranked(shares: Any) -> tuple[tuple[int, float], ...]:
    ranked = sorted(shares, key=lambda one: (-one[1], one[0]))
    if not ranked or any(math.isnan(share) or share > _ROUNDING for _, share in ranked):
        raise ValueError("no law")
    return tuple(ranked)


def _unable(desk: Desk, reply: Reply, what: str) -> TargetError:
    why = (
        reply.error
        or f"HTTP {reply.status}: {excerpt(desk.target.scrub(reply.body[:2000].decode('utf-8', 'replace')))}"
    )
    return TargetError(
        f"{desk.target} does not give {what}",
        why=why if not reply.ok else "its answer does not hold them",
        hint="scoring needs vLLM's /tokenize and /v1/completions, or --plain with a server that has them",
    )
