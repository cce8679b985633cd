"""
What a model makes of given tokens: the law of the next one, and teacher-forced scores. Untimed; vLLM's API.

`POST /tokenize` gives the token ids of a chat request's prompt. `POST /v1/completions` takes them as its prompt, with
`logprobs` for the next token, or `prompt_logprobs` for every token of the prompt.
"""

import math
import re
from collections.abc import Sequence
from typing import Any

import msgspec

from soak.client.desk import Desk, Reply
from soak.client.refusal import excerpt
from soak.errors import TargetError

SCORE_LIMIT_S = 600.0
_COUNT_LIMIT_S = 60.0
_SCORE_LIMIT_BYTES = 512 * 2**20
_VOCABULARY = re.compile(r"[Vv]ocab(?:ulary)?[ _]size:? ([0-9]{2,9})")
_COUNTED = ("model", "messages", "tools", "chat_template_kwargs")
_ID = "token_id:"


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
    reply = await desk.post("/tokenize", {**asked, "add_generation_prompt": True}, _COUNT_LIMIT_S)
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
    except (KeyError, IndexError, TypeError, AttributeError, ValueError):
        raise _unable(desk, reply, "the log probabilities of a completion") from None


async def scores(desk: Desk, model: str, ids: Sequence[int], first: int, top: int = 20) -> tuple[Row, ...]:
    """
    Return what the model makes of the tokens from `ids[first]` on, each after all before it.

    `first` is at least 1: nothing stands before the first token. Send it to a server without prefix caching, which
    may leave out or keep stale rows of cached tokens. Raises `TargetError` where the server does not give them.
    """
    asked = {"model": model, "prompt": list(ids), "max_tokens": 1, "temperature": 0.0, "prompt_logprobs": top}
    reply = await desk.post_api("/completions", asked, SCORE_LIMIT_S, _SCORE_LIMIT_BYTES)
    try:
        rows = _SCORED.decode(reply.body).choices[0].prompt_logprobs if reply.ok else None
        if rows is None or len(rows) != len(ids):
            raise TypeError
        return tuple(_row(_ENTRIES.decode(row), token) for row, token in zip(rows[first:], ids[first:], strict=True))
    except (KeyError, IndexError, TypeError, ValueError, RecursionError):
        raise _unable(desk, reply, "the log probabilities of a prompt") from None


async def vocabulary_of(desk: Desk, model: str) -> int | None:
    """
    Return the width of the model's logits, None where the server does not tell.

    Asked by a bias on a token that no model has, which vLLM refuses with the size of the vocabulary.
    """
    asked = {"model": model, "prompt": [1], "max_tokens": 1, "logit_bias": {str(10**9): 1.0}}
    reply = await desk.post_api("/completions", asked)
    found = None if reply.ok else _VOCABULARY.search(reply.body[:4000].decode("utf-8", "replace"))
    return int(found[1]) if found else None


async def token_text(desk: Desk, model: str, token: int) -> str | None:
    """Return the text of a token, None where the server does not tell."""
    reply = await desk.post("/detokenize", {"model": model, "tokens": [token]})
    value = reply.json() if reply.ok else None
    text = value.get("prompt") if isinstance(value, dict) else None
    return text if isinstance(text, str) else None


class _Entry(msgspec.Struct, gc=False):
    logprob: float
    rank: int | None = None


class _Choice(msgspec.Struct):
    prompt_logprobs: list[msgspec.Raw] | None = None


class _Scored(msgspec.Struct):
    choices: list[_Choice]


_SCORED = msgspec.json.Decoder(_Scored)
_ENTRIES = msgspec.json.Decoder(dict[int, _Entry])


def _row(named: dict[int, _Entry], token: int) -> Row:
    """Return one place of `prompt_logprobs`: a dictionary by token id, whose ranks count from 1."""
    own = named[token]
    if own.rank is None:
        raise ValueError("no rank")
    shares = ((one, entry.logprob) for one, entry in named.items())
    return Row(top=_ranked(shares), token=token, logprob=own.logprob, rank=own.rank - 1)


def _ranked(shares: Any) -> tuple[tuple[int, float], ...]:
    ranked = sorted(shares, key=lambda one: (-one[1], one[0]))
    if not ranked or any(math.isnan(share) for _, share in ranked):
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
