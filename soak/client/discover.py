"""What a target is and can do, found out by asking it before the run."""

from difflib import get_close_matches
from typing import Any

from soak.client.desk import Desk, NoAnswer, Reply
from soak.client.events import ChatEvent, NotAnEventError, decode_event
from soak.client.refusal import excerpt
from soak.client.sse import EventTooLargeError, SseParser
from soak.errors import TargetError
from soak.facts import Capabilities

_HELLO = [{"role": "user", "content": "Say hello."}]
_TOOL = {
    "type": "function",
    "function": {
        "name": "soak_probe",
        "description": "Tells whether tool schemas reach the prompt.",
        "parameters": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
    },
}
_REFUSALS = frozenset({400, 404, 422, 501})
_OWNERS = {"vllm": "vllm", "sglang": "sglang", "llamacpp": "llama.cpp", "tensorrt_llm": "tensorrt-llm"}
_SHOWN_MODELS = 20
_KEPT_MODELS = 1000
_COMPARED_MODELS = 10_000
_CONTEXT_NAMES = ("max_model_len", "context_length", "context_window", "max_context_length")


async def discover(desk: Desk) -> Capabilities:
    """
    Return what the target is and can do; `speculation_on` and `prefix_cache_on` stay None (the metrics say that).

    Asks for the models, the version, the metrics page, one token of a stream (twice to four times where fields are
    refused), one answer with a tool, and two token counts. Raises `TargetError` if it cannot be reached, wants a key,
    is not OpenAI-compatible, or does not say or have the model, and `UsageError` if a limit of our own machine
    is in the way.
    """
    cards = _cards(desk, await desk.get_api("/models"))
    model = _chosen(desk, tuple(cards))
    card = cards.get(model, {})
    engine, version = await _engine(desk, card)
    fields, event = await _stream_fields(desk, model)
    native_tools, counts, notes = await _tools(desk, model)
    return Capabilities(
        model=model,
        models=tuple(cards)[:_KEPT_MODELS],
        engine=engine,
        version=version,
        context_tokens=await _context(desk, card, engine),
        metrics=await desk.metrics() is not None,
        token_ids="return_token_ids" in fields and any(_has_ids(one) for one in event),
        logprobs="logprobs" in fields and any(_has_logprobs(one) for one in event),
        native_tools=native_tools,
        counts_tokens=counts,
        cached_tokens=_says_cached(event),
        notes=notes,
    )


async def survey(desk: Desk) -> Capabilities:
    """
    Return what the target says of itself without being made to generate anything: models, version, metrics page.

    The model is the one given, else the only one listed, else "unknown". A target that wants a key we do not have, or
    lists no models, is surveyed as far as it lets us. Raises `TargetError` if it cannot be reached.
    """
    reply = await desk.get_api("/models")
    cards = _cards(desk, reply) if reply.status is None or reply.ok else {}
    listed = next(iter(cards)) if len(cards) == 1 else "unknown"
    model = desk.target.model or listed
    engine, version = await _engine(desk, cards.get(model, {}))
    return Capabilities(
        model=model,
        models=tuple(cards)[:_KEPT_MODELS],
        engine=engine,
        version=version,
        context_tokens=await _context(desk, cards.get(model, {}), engine),
        metrics=await desk.metrics() is not None,
        native_tools=True,
        notes=("asked nothing that makes it generate: what it can do beyond its own word is not known",),
    )


def _cards(desk: Desk, reply: Reply) -> dict[str, dict[str, Any]]:
    """Return the models listed, name to card."""
    where = f"{desk.target.api_url}/models"
    if reply.ours is not None:
        raise reply.ours
    if reply.status is None:
        raise TargetError(
            f"cannot reach {desk.target}",
            why=reply.error or "no answer",
            hint="is the server up, and are host and port right?",
        )
    if reply.status in (401, 403):
        raise _needs_key(desk, reply)
    value = reply.json()
    data = value.get("data") if isinstance(value, dict) else None
    if not reply.ok or not isinstance(data, list):
        kind = excerpt(desk.target.scrub(reply.headers.get("content-type", "no content type")), 100)
        raise TargetError(
            f"{desk.target} is not an OpenAI-compatible server",
            why=f"{where} answered {reply.status} ({kind}): {_shown(desk, reply)}",
            hint="give the base URL under which /v1/models and /v1/chat/completions live",
        )
    cards = [card for card in data if isinstance(card, dict) and isinstance(card.get("id"), str)]
    return {card["id"][:300]: card for card in cards}


def _chosen(desk: Desk, models: tuple[str, ...]) -> str:
    given = desk.target.model
    if given is not None and models and given not in models:
        raise _not_listed(desk, given, models)
    if given is not None:
        return given
    if len(models) == 1:
        return models[0]
    listed = ", ".join(models[:_SHOWN_MODELS]) + (", …" if len(models) > _SHOWN_MODELS else "")
    raise TargetError(
        f"which model of {desk.target} shall be used?",
        why=f"it lists {len(models)}: {listed}" if models else "it lists none",
        hint="say which with --model",
    )


def _not_listed(desk: Desk, given: str, models: tuple[str, ...]) -> TargetError:
    near = get_close_matches(given[:300], models[:_COMPARED_MODELS], n=5, cutoff=0.5) or models[:_SHOWN_MODELS]
    more = ", …" if len(near) < len(models) else ""
    return TargetError(
        f"{desk.target} has no model {given[:300]!r}",
        why=f"it lists {len(models)}: {', '.join(near)}{more}",
        hint="give one of the listed names with --model",
    )


def _needs_key(desk: Desk, reply: Reply) -> TargetError:
    given = "the key given is refused" if desk.target.api_key else "no key was given"
    return TargetError(
        f"{desk.target} does not let us in",
        why=f"it answered {reply.status}, and {given}",
        hint="set SOAK_API_KEY to a valid key",
    )


def _shown(desk: Desk, reply: Reply) -> str:
    return excerpt(desk.target.scrub(reply.body[:65536].decode("utf-8", "replace")), 200)


async def _engine(desk: Desk, card: dict[str, Any]) -> tuple[str | None, str | None]:
    """Return the engine's name and version, as far as it tells."""
    value = (await desk.get("/version")).json()
    version = value.get("version") if isinstance(value, dict) else None
    version = version[:100] if isinstance(version, str) else None
    owner = _OWNERS.get(str(card.get("owned_by")).lower())
    if owner is not None or version is not None:
        return owner or "vllm", version
    props = await desk.get("/props")
    if props.headers.get("server") == "llama.cpp":
        return "llama.cpp", _text(props.json(), "build_info")
    info = (await desk.get("/get_server_info")).json()
    return ("sglang", _text(info, "version")) if isinstance(info, dict) else (None, None)


def _text(value: Any, name: str) -> str | None:
    found = value.get(name) if isinstance(value, dict) else None
    return found[:100] if isinstance(found, str) else None


async def _context(desk: Desk, card: dict[str, Any], engine: str | None) -> int | None:
    """Return the model's context length in tokens: what its card says, else what llama.cpp's settings say."""
    for name in _CONTEXT_NAMES:
        if (tokens := _positive(card.get(name))) is not None:
            return tokens
    if engine != "llama.cpp":
        return None
    props = (await desk.get("/props")).json()
    settings = props.get("default_generation_settings") if isinstance(props, dict) else None
    return _positive(settings.get("n_ctx")) if isinstance(settings, dict) else None


def _positive(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 2**40 else None


_IDS = {"return_token_ids": True}
_LOGPROBS = {"logprobs": True, "top_logprobs": 1}


async def _stream_fields(desk: Desk, model: str) -> tuple[set[str], list[ChatEvent]]:
    """Return the extra fields the server takes, and the events of the answer to a request with all of them."""
    plain = {"model": model, "messages": _HELLO, "max_tokens": 1, "stream": True}
    plain["stream_options"] = {"include_usage": True}
    for extra in ({**_IDS, **_LOGPROBS}, _IDS, _LOGPROBS, {}):
        reply = await desk.post_api("/chat/completions", {**plain, **extra})
        if reply.ours is not None:
            raise reply.ours
        if reply.ok:
            return set(extra), _events(desk, reply)
        if reply.status in (401, 403):
            raise _needs_key(desk, reply)
        if reply.status not in (400, 422):
            break
    raise _no_answer(desk, reply, model)


def _no_answer(desk: Desk, reply: Reply, model: str) -> TargetError:
    why = reply.error or f"it answered {reply.status}: {_shown(desk, reply)}"
    return TargetError(
        f"{desk.target} does not answer a chat request for the model {model[:300]!r}",
        why=desk.target.scrub(why),
        hint="look at the server's log",
    )


def _events(desk: Desk, reply: Reply) -> list[ChatEvent]:
    parser = SseParser()
    try:
        found = [*parser.feed(reply.body), *parser.close()]
        events = [decode_event(event.data)[0] for event in found if event.data != b"[DONE]"]
    except (NotAnEventError, EventTooLargeError):
        events = []
    if not any(event.choices for event in events):
        raise TargetError(
            f"{desk.target} does not stream chat completions",
            why=f"a request with stream=true was answered with {_shown(desk, reply)!r}",
            hint="soak needs server-sent events; look for a setting of the server or gateway that buffers them",
        )
    return events


def _has_ids(event: ChatEvent) -> bool:
    return any(choice.token_ids for choice in event.choices or ())


def _has_logprobs(event: ChatEvent) -> bool:
    return any(choice.logprobs is not None and choice.logprobs.content for choice in event.choices or ())


def _says_cached(events: list[ChatEvent]) -> bool | None:
    """Whether usage tells cached tokens: True if it did; engines leave the field out at 0, so absent is unknown."""
    for event in events:
        details = event.usage.get("prompt_tokens_details") if isinstance(event.usage, dict) else None
        if isinstance(details, dict) and details.get("cached_tokens") is not None:
            return True
    return None


async def _tools(desk: Desk, model: str) -> tuple[bool, bool, tuple[str, ...]]:
    """Return whether tools reach the model, whether prompts can be counted, and what to say about it."""
    body = {"model": model, "messages": _HELLO}
    without = await desk.count_tokens(body)
    counts = without is not None
    answer = await desk.ask({**body, "tools": [_TOOL], "max_tokens": 1})
    if isinstance(answer, NoAnswer) and answer.status in _REFUSALS:
        return False, counts, (f"tools are refused: {excerpt(answer.why, 200)}",)
    if isinstance(answer, NoAnswer):  # anything else says nothing of tools, and a wrong guess would hold all run long
        raise TargetError(
            f"{desk.target} did not answer a request with tools",
            why=answer.why,
            hint="try again when it is not overloaded, or say --set tools=text or tools=native",
        )
    if counts and await desk.count_tokens({**body, "tools": [_TOOL]}) == without:
        return False, counts, ("the chat template leaves tools out of the prompt",)
    return True, counts, ()
