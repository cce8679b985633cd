"""
From a request and what came back to what the losslessness test needs to know of it: pure.

How the tokens were drawn is read from the body of the request, which is what the server was told; what it was not told
it takes from its defaults, which vLLM reads from the model's `generation_config.json`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import msgspec
from msgspec.structs import replace as changed

from soak.facts import Case, LeftOut, Mark, Observation, Sampling, SamplingLaw, TurnKey
from soak.facts.rescoring import sampling_law

NEUTRAL: Mapping[str, float] = {
    "temperature": 1.0,
    "top_p": 1.0,
    "top_k": 0,
    "min_p": 0.0,
    "repetition_penalty": 1.0,
}
"""What vLLM takes where neither request nor model says anything: the settings a generation config may change."""

_PENALTIES = ("presence_penalty", "frequency_penalty")
_ALTERING = (
    "logit_bias",
    "allowed_token_ids",
    "bad_words",
    "logits_processors",
    "structured_outputs",
    "structural_tag",
    "guided_json",
    "guided_regex",
    "guided_choice",
    "guided_grammar",
    "use_beam_search",
    "thinking_token_budget",
    "vllm_xargs",
)
_LEAST_TEMPERATURE = 0.01  # vLLM takes this for anything between 0 and it


class Sampled(msgspec.Struct, frozen=True, kw_only=True):
    """
    One answer to be scored: what was asked (`body`), and the ids of the tokens that were drawn.

    `prompt_tokens` is the length of the prompt as the server counted it; None where it did not say.
    """

    key: TurnKey
    body: dict[str, Any]
    ids: tuple[int, ...]
    law: SamplingLaw
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    forced: tuple[tuple[int, int], ...] = ()
    reported: tuple[float, ...] | None = None
    at: float = 0.0

    def marks(self, prompt_tokens: int) -> tuple[Mark, ...]:
        """Return the places of a prompt of this length worth looking near: where what was cached ends."""
        if not self.cached_tokens:
            return ()
        return (Mark(position=self.cached_tokens - prompt_tokens, kind="cache_boundary"),)


def sampled_of(
    key: TurnKey, body: Mapping[str, Any], observation: Observation, defaults: Mapping[str, float] | None
) -> Sampled | str:
    """
    Return what is to be scored of an answer, or why nothing is.

    `defaults` are those of the server (`NEUTRAL`, with what the model's generation config changes); None: not known.
    """
    if observation.token_ids is None:
        return "its token ids were not kept"
    if not observation.token_ids:
        return "no token came"
    if "token_ids_incomplete" in observation.defects:
        return "its token ids are not all there"
    law, usage = law_of_body(body, defaults), observation.usage
    if law.altered:
        return f"its law is not known: {', '.join(law.altered)}"
    return Sampled(
        key=key,
        body=dict(body),
        ids=observation.token_ids,
        law=law,
        prompt_tokens=usage.prompt if usage else None,
        cached_tokens=usage.cached if usage else None,
        forced=_forced(body, len(observation.token_ids)),
        reported=_reported(observation),
        at=observation.started_at,
    )


def law_of_body(body: Mapping[str, Any], defaults: Mapping[str, float] | None) -> SamplingLaw:
    """Return how a request asks for tokens to be drawn; what is not known or cannot be undone is named in `altered`."""
    told = {name: body[name] for name in (*NEUTRAL, *_PENALTIES) if body.get(name) is not None}
    wrong = [name for name, value in told.items() if isinstance(value, bool) or not isinstance(value, int | float)]
    unknown = [name for name in NEUTRAL if name not in told] if defaults is None else []
    settings = {**NEUTRAL, **(defaults or {}), **{name: told[name] for name in told if name not in wrong}}
    if 0 < settings["temperature"] < _LEAST_TEMPERATURE:
        settings["temperature"] = _LEAST_TEMPERATURE
    settings["top_k"] = int(settings["top_k"])
    law = sampling_law(Sampling(**settings))
    reasons = (
        *(f"{name} left to the server" for name in unknown),
        *(f"{name} is no number" for name in wrong),
        *law.altered,
        *_altering(body),
    )
    return changed(law, altered=reasons)


def _altering(body: Mapping[str, Any]) -> Iterable[str]:
    yield from (name for name in _ALTERING if body.get(name))
    format_ = body.get("response_format")
    if format_ and not (isinstance(format_, dict) and format_.get("type") == "text"):
        yield "response_format"
    if body.get("tool_choice") not in (None, "auto", "none"):
        yield "tool_choice"


def _forced(body: Mapping[str, Any], tokens: int) -> tuple[tuple[int, int], ...]:
    """Return the tokens before `min_tokens`: the end of sequence could not be drawn there."""
    least = body.get("min_tokens")
    return ((0, min(least, tokens)),) if isinstance(least, int) and least > 0 else ()


def _reported(observation: Observation) -> tuple[float, ...] | None:
    logprobs = observation.logprobs
    if logprobs is None or observation.token_ids is None or len(logprobs) != len(observation.token_ids):
        return None
    return tuple(one.logprob for one in logprobs)


def pinned(case: Case) -> Case:
    """Return the case asked so that its law is known: every setting it left to the server is sent, switched off."""
    off = {**NEUTRAL, "top_k": -1}
    left = {name: value for name, value in off.items() if getattr(case.sampling, name) is None}
    return changed(case, sampling=replace(case.sampling, **left))  # type: ignore[arg-type]  # top_k is whole


def key_of(case: Case, repeat: int, arm: str) -> TurnKey:
    """Return the key of a fresh answer: conversation and turn as the case's name tells them, and the repeat."""
    parts = case.name.rsplit(":", 3)
    if len(parts) == 4 and parts[1].isdigit():
        return TurnKey(episode=parts[0], turn=int(parts[1]), pass_=repeat, arm=arm)
    return TurnKey(episode=case.name, turn=0, pass_=repeat, arm=arm)


def left_out(reasons: Iterable[tuple[str, int]]) -> tuple[LeftOut, ...]:
    """Return what could not be scored, summed by reason, from (reason, tokens) of each answer."""
    found: dict[str, list[int]] = {}
    for reason, tokens in reasons:
        found.setdefault(reason, []).append(tokens)
    return tuple(LeftOut(tokens=sum(of), outputs=len(of), reason=why) for why, of in sorted(found.items()))
