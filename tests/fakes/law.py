"""
A fake model with a law: the next token depends on the last one only, and every probability is known.

Its answers are words drawn from that law as the request says (temperature, top_k, top_p), seeded by the request, always
up to max_tokens. `corrupt` of them are drawn evenly from all words instead, as a broken engine would. It scores given
tokens (`prompt_logprobs`) and tells the ids of a prompt, as vLLM does.
"""

import hashlib
import json
import math
import random
from collections.abc import Sequence
from functools import cache
from itertools import pairwise, product
from string import ascii_lowercase
from typing import Any

from fakes.answers import Answer, token_id
from fakes.faults import Ask, make, stream
from fakes.script import Script

VOCABULARY = 16_010
MOST_LOGPROBS = 64
_WORDS = 200
_STEEPNESS = 0.4
_REST = 1e-9  # the probability of each token that is no word, and the least of a word


@cache
def words() -> dict[int, str]:
    """Return the words by id, each with a space before it."""
    found: dict[int, str] = {}
    for letters in product(ascii_lowercase, repeat=3):
        piece = " " + "".join(letters)
        found.setdefault(token_id(piece), piece)
        if len(found) == _WORDS:
            break
    return found


@cache
def law_after(last: int) -> tuple[tuple[int, float], ...]:
    """Return (id, log probability) of all words after a token, the likeliest first."""
    order = sorted(words())
    random.Random(last).shuffle(order)
    weights = [math.exp(-_STEEPNESS * rank) + _REST for rank in range(_WORDS)]
    whole = sum(weights) + _REST * (VOCABULARY - _WORDS)
    return tuple((word, math.log(weight / whole)) for word, weight in zip(order, weights, strict=True))


def truncated(last: int, temperature: float, top_k: int, top_p: float) -> tuple[list[int], list[float]]:
    """Return the words that may be drawn and their weights."""
    law = law_after(last)[: 1 if temperature == 0 else top_k if top_k > 0 else None]
    weights = [math.exp((logprob - law[0][1]) / (temperature or 1.0)) for _, logprob in law]
    whole, above, size = sum(weights), 0.0, 0
    while size < len(weights) and above < top_p * whole:
        above += weights[size]
        size += 1
    return [word for word, _ in law[:size]], weights[:size]


class Law:
    """The model behind a fake server; `corrupt` is the share of its tokens that are wrong."""

    def __init__(self, corrupt: float = 0.0, most_logprobs: int = MOST_LOGPROBS) -> None:
        self.corrupt = corrupt
        self.most_logprobs = most_logprobs

    def policy(self, ask: Ask) -> Script:
        """Answer a seeded request from the law; anything else well."""
        body = ask.body
        if "seed" not in body:
            return make("none", ask)
        last = self.prompt_ids(body, ask.style.prompt_tokens)[-1]
        pieces = []
        for _ in range(ask.max_tokens):
            last = self._next(last, body, ask.rng)
            pieces.append(words()[last])
        return stream(Answer(content="".join(pieces), finish="length"), ask)

    def _next(self, last: int, body: dict[str, Any], rng: random.Random) -> int:
        if rng.random() < self.corrupt:
            return rng.choice(sorted(words()))
        settings = [body.get(name, off) for name, off in (("temperature", 1.0), ("top_k", 0), ("top_p", 1.0))]
        return rng.choices(*truncated(last, *settings))[0]

    def prompt_ids(self, body: dict[str, Any], count: int) -> list[int]:
        """Return so many ids that stand for the messages and tools of a request."""
        told = json.dumps([body.get("messages"), body.get("tools")], sort_keys=True)
        rng = random.Random(hashlib.sha256(told.encode()).hexdigest())
        return [rng.randrange(10, VOCABULARY) for _ in range(count)]

    def door(self, path: str, body: dict[str, Any], context_tokens: int) -> tuple[int, Any] | None:
        """Return status and JSON for the doors that a law opens; None for any other."""
        if path == "/detokenize":
            return 200, {"prompt": "".join(words().get(one, "?") for one in body.get("tokens", ()))}
        if path != "/v1/completions":
            return None
        if body.get("logit_bias"):
            return _refused(f"token_id(s) in logit_bias contain out-of-vocab token ids. Vocabulary size: {VOCABULARY}")
        wanted, prompt = body.get("prompt_logprobs") or 0, body["prompt"]
        if wanted > self.most_logprobs:
            return _refused(f"Requested prompt logprobs of {wanted}, which is greater than max: {self.most_logprobs}")
        if len(prompt) + body.get("max_tokens", 1) > context_tokens:
            return _refused(f"maximum context length is {context_tokens} tokens")
        choice = {"index": 0, "text": "", "finish_reason": "length", "prompt_logprobs": rows(prompt, wanted)}
        return 200, {"object": "text_completion", "choices": [choice]}


def rows(ids: Sequence[int], top: int) -> list[dict[str, Any] | None]:
    """Return prompt_logprobs as vLLM gives them: none for the first token, `top` and the given token for the others."""
    return [None, *(_row(before, given, top) for before, given in pairwise(ids))]


def _row(before: int, given: int, top: int) -> dict[str, Any]:
    law = law_after(before)
    listed = {word: (logprob, rank) for rank, (word, logprob) in enumerate(law, start=1)}
    shown = [word for word, _ in law[:top]]
    least = (law[-1][1], _WORDS + 1)
    return {
        str(one): {"logprob": listed.get(one, least)[0], "rank": listed.get(one, least)[1], "decoded_token": "?"}
        for one in dict.fromkeys((*shown, given))
    }


def _refused(message: str) -> tuple[int, Any]:
    return 400, {"error": {"message": message, "type": "BadRequestError", "param": None, "code": 400}}
