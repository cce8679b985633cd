"""Plausible agent answers, and their form as server-sent events of an OpenAI-compatible server."""

import json
import random
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

PIECE = re.compile(r"\s*[A-Za-z_]+|\s*\d{1,3}|\s*[^\sA-Za-z_\d]|\s+")


def pieces(text: str) -> list[str]:
    """Return `text` cut into the fake model's tokens; joined they give `text` again."""
    return PIECE.findall(text)


def token_id(piece: str) -> int:
    """Return the id of one token: the same piece has the same id in every answer."""
    return 10 + zlib.crc32(piece.encode("utf-8", "replace")) % 16000


@dataclass(frozen=True, slots=True)
class Call:
    """One tool call of an answer."""

    name: str
    arguments: str
    id: str = "call_1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """All that the fake model says in one turn; `finish` None means that the stream ends without saying why."""

    content: str = ""
    reasoning: str = ""
    calls: tuple[Call, ...] = ()
    refusal: str = ""
    finish: str | None = "stop"
    stop_reason: str | int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """How an answer goes on the wire; without `finish_apart` the finish reason comes with the last text, as in vLLM."""

    tokens_per_chunk: int = 2
    reasoning_field: str = "reasoning_content"
    role_first: bool = True
    usage: bool = True
    done: bool = True
    finish_apart: bool = True
    newline: bytes = b"\n"
    comments: bool = False
    token_ids: bool = False
    logprobs: int | None = None
    prompt_tokens: int = 100
    cached_tokens: int | None = None
    drafts_of: int | None = None
    model: str = "fake-model"
    id: str = "chatcmpl-fake"
    created: int = 1_700_000_000
    extra_usage_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Sse:
    """One event's bytes and the number of tokens in it."""

    data: bytes
    tokens: int = 0


def sse(payload: Any, newline: bytes = b"\n") -> bytes:
    """Return one event with `payload` (bytes as they are, else as JSON) as its data."""
    data = payload if isinstance(payload, bytes) else json.dumps(payload, separators=(",", ":")).encode()
    return b"data: " + data + newline + newline


def events(answer: Answer, style: Style = Style()) -> list[Sse]:
    """Return the events of `answer`: role, text, finish reason, usage and end marker, as `style` says."""
    return list(_events(answer, style))


def _events(answer: Answer, style: Style) -> Iterator[Sse]:
    if style.role_first:
        yield _chunk(style, {"role": "assistant", "content": ""})
    deltas = list(_deltas(answer, style))
    apart = style.finish_apart or not deltas
    for number, (delta, group) in enumerate(deltas):
        if style.comments:
            yield Sse(b": keep-alive" + style.newline + style.newline)
        last = not apart and number == len(deltas) - 1
        yield _chunk(style, delta, group, *((answer.finish, answer.stop_reason) if last else ()))
    if apart and answer.finish is not None:
        yield _chunk(style, {}, finish=answer.finish, stop_reason=answer.stop_reason)
    total = sum(len(group) for _, group in deltas)
    if style.usage:
        yield Sse(sse(_usage(answer, style, total), style.newline))
    if style.done:
        yield Sse(sse(b"[DONE]", style.newline))


def token_count(answer: Answer) -> int:
    """Return the number of tokens in `answer`."""
    texts = [answer.reasoning, answer.content, answer.refusal, *(call.arguments for call in answer.calls)]
    return sum(len(pieces(text)) for text in texts) + len(answer.calls)


def _groups(text: str, size: int) -> Iterator[list[str]]:
    tokens = pieces(text)
    for i in range(0, len(tokens), size):
        yield tokens[i : i + size]


def _deltas(answer: Answer, style: Style) -> Iterator[tuple[dict[str, Any], list[str]]]:
    for name, text in (
        (style.reasoning_field, answer.reasoning),
        ("content", answer.content),
        ("refusal", answer.refusal),
    ):
        for group in _groups(text, style.tokens_per_chunk):
            yield {name: "".join(group)}, group
    yield from _call_deltas(answer.calls, style)


def _call_deltas(calls: Sequence[Call], style: Style) -> Iterator[tuple[dict[str, Any], list[str]]]:
    """Heads first, then argument pieces of all calls in turns: parallel calls interleave."""
    for index, call in enumerate(calls):
        function = {"name": call.name, "arguments": ""}
        yield (
            {"tool_calls": [{"index": index, "id": call.id, "type": "function", "function": function}]},
            [call.name],
        )
    streams = {index: list(_groups(call.arguments, style.tokens_per_chunk)) for index, call in enumerate(calls)}
    for turn in range(max(map(len, streams.values()), default=0)):
        for index, groups in streams.items():
            if turn < len(groups):
                group = groups[turn]
                yield {"tool_calls": [{"index": index, "function": {"arguments": "".join(group)}}]}, group


def _chunk(
    style: Style,
    delta: dict[str, Any],
    group: Sequence[str] = (),
    finish: str | None = None,
    stop_reason: str | int | None = None,
) -> Sse:
    choice: dict[str, Any] = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    if stop_reason is not None or finish is not None:
        choice["stop_reason"] = stop_reason
    if style.token_ids:
        choice["token_ids"] = [token_id(piece) for piece in group]
    if style.logprobs is not None and group:
        choice["logprobs"] = {"content": [_logprob(piece, style.logprobs) for piece in group]}
    return Sse(sse({**_head(style), "choices": [choice]}, style.newline), len(group))


def _logprob(piece: str, top: int) -> dict[str, Any]:
    alternatives = [{"token": piece, "logprob": -0.1}, {"token": " other", "logprob": -2.5}][:top]
    return {"token": piece, "logprob": -0.1, "bytes": list(piece.encode()), "top_logprobs": alternatives}


def _head(style: Style) -> dict[str, Any]:
    return {"id": style.id, "object": "chat.completion.chunk", "created": style.created, "model": style.model}


def usage_of(answer: Answer, style: Style, completion: int | None = None) -> dict[str, Any]:
    """Return the usage object of `answer`, as vLLM words it."""
    completion = (token_count(answer) if completion is None else completion) + style.extra_usage_tokens
    usage: dict[str, Any] = {
        "prompt_tokens": style.prompt_tokens,
        "total_tokens": style.prompt_tokens + completion,
        "completion_tokens": completion,
    }
    if style.cached_tokens is not None:
        usage["prompt_tokens_details"] = {"cached_tokens": style.cached_tokens}
    if answer.reasoning:
        usage["completion_tokens_details"] = {"reasoning_tokens": len(pieces(answer.reasoning))}
    return usage


def _usage(answer: Answer, style: Style, completion: int) -> dict[str, Any]:
    told = {} if style.drafts_of is None else {"metrics": drafts_told(completion, style.drafts_of)}
    return {**_head(style), "choices": [], "usage": usage_of(answer, style, completion), **told}


def drafts_told(completion: int, depth: int) -> dict[str, Any]:
    """Return what vLLM tells of the drafts of one answer where it is asked to: 1.2 tokens of each are accepted."""
    steps = completion * 10 // 22
    accepted = min(completion - steps, steps * depth)
    each, more = divmod(accepted, steps) if steps else (0, 0)
    histogram = [0] * (depth + 1)
    histogram[each] = steps - more
    if more:
        histogram[each + 1] = more
    counts = {"num_spec_steps": steps, "num_draft_tokens": steps * depth, "num_accepted_draft_tokens": accepted}
    return {"speculative_decoding": {**counts, "acceptance_histogram": histogram, "num_spec_tokens": depth}}


def whole(answer: Answer, style: Style) -> dict[str, Any]:
    """Return `answer` as the JSON of a request that did not ask for a stream."""
    message: dict[str, Any] = {"role": "assistant", "content": answer.content or None}
    if answer.reasoning:
        message[style.reasoning_field] = answer.reasoning
    if answer.calls:
        message["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in answer.calls
        ]
    choice = {"index": 0, "message": message, "finish_reason": answer.finish, "stop_reason": answer.stop_reason}
    head = {**_head(style), "object": "chat.completion"}
    return {**head, "choices": [choice], "usage": usage_of(answer, style)}


def limited(answer: Answer, max_tokens: int) -> Answer:
    """Return what is left of `answer` within `max_tokens`, its finish reason then being "length"."""
    if token_count(answer) <= max_tokens:
        return answer
    left = max_tokens

    def take(text: str) -> str:
        nonlocal left
        kept = pieces(text)[: max(left, 0)]
        left -= len(kept)
        return "".join(kept)

    reasoning, content = take(answer.reasoning), take(answer.content)
    calls = []
    for call in answer.calls:
        if left > 0:
            left -= 1
            calls.append(replace(call, arguments=take(call.arguments)))
    return replace(answer, reasoning=reasoning, content=content, calls=tuple(calls), finish="length")


def _words(text: str) -> list[str]:
    return text.split()


_VERBS = _words("check read compare trace adjust rename inspect guard move split cover reproduce narrow restore tidy")
_NOUNS = _words(
    "parser cache loader handler schema router cursor buffer session fixture import path default argument header index "
    "query timeout branch record config encoder queue signal token window lock counter registry adapter"
)
_ADJECTIVES = _words(
    "stale missing wrong nested optional empty shared early late duplicate local hidden partial strict"
)
_OPENINGS = (
    "Now I want to {v} the {n} in {f}, because the {a} {m} shows up there.",
    "The failing test points at line {i} of {f}; its {n} never sees the {a} {m}.",
    "Before changing {f} I should {v} how the {n} gets its {m}.",
    "Output above says the {n} returned {i} entries while {j} were expected, so the {a} {m} is suspect.",
    "It looks like {f} keeps a {a} {n} and only {v}s it when the {m} is set.",
    "One more thing: {v} whether {g} still depends on the {a} {n}.",
    "With {i} callers of that {n}, the safest step is to {v} {g} first.",
    "I ruled out the {m}; the {a} {n} around line {j} remains.",
    "A small patch in {f} should {v} the {n} without touching {g}.",
    "My reading: {g} passes a {a} {m} down, and the {n} then {v}s nothing.",
    "Next step, {v} the {m} that {f} builds from the {n}.",
    "That explains the {a} {n} we saw with {i} items but not with {j}.",
)


def sentence(rng: random.Random) -> str:
    """Return one sentence such as an agent at work would write."""
    words = {
        "v": rng.choice(_VERBS),
        "n": rng.choice(_NOUNS),
        "m": rng.choice(_NOUNS),
        "a": rng.choice(_ADJECTIVES),
        "f": file_name(rng),
        "g": file_name(rng),
        "i": rng.randint(2, 990),
        "j": rng.randint(2, 990),
    }
    return rng.choice(_OPENINGS).format(**words)


def file_name(rng: random.Random) -> str:
    """Return a path such as `src/parser_cache.py`."""
    folder = rng.choice(("src", "lib", "tests", "app", "core", "tools"))
    return f"{folder}/{rng.choice(_NOUNS)}_{rng.choice(_NOUNS)}{rng.randint(1, 60)}.py"


def prose(rng: random.Random, tokens: int) -> str:
    """Return varied text of at least `tokens` tokens, ending with a full stop."""
    text, count = [], 0
    while count < tokens:
        text.append(sentence(rng))
        count += len(pieces(text[-1])) + 1
    return " ".join(text)


def command(rng: random.Random) -> str:
    """Return a shell command such as an agent would run."""
    return rng.choice(
        (
            f"grep -n '{rng.choice(_NOUNS)}' {file_name(rng)} | head -{rng.randint(5, 60)}",
            f"sed -n '{rng.randint(1, 80)},{rng.randint(81, 200)}p' {file_name(rng)}",
            f"python -m pytest {file_name(rng)} -q -k {rng.choice(_NOUNS)}",
            f"find . -name '*{rng.choice(_NOUNS)}*.py' -newer {file_name(rng)}",
            f"git diff --stat HEAD~{rng.randint(1, 9)} -- {file_name(rng)}",
        )
    )


def arguments_for(tool: dict[str, Any], rng: random.Random) -> str:
    """Return JSON arguments that fit the tool's schema: all required properties, of the right type."""
    schema = tool.get("function", tool).get("parameters") or {}
    properties = schema.get("properties") or {}
    wanted = schema.get("required") or list(properties)[:1]
    return json.dumps({name: _value(name, properties.get(name) or {}, rng) for name in wanted})


def _value(name: str, schema: dict[str, Any], rng: random.Random) -> Any:
    if schema.get("enum"):
        return rng.choice(schema["enum"])
    kind = schema.get("type", "string")
    if kind in ("integer", "number"):
        return rng.randint(1, 200)
    if kind == "boolean":
        return rng.random() < 0.5
    if kind == "array":
        return [_value(name, schema.get("items") or {}, rng)]
    if kind == "object":
        inner = schema.get("properties") or {}
        return {key: _value(key, inner.get(key) or {}, rng) for key in schema.get("required") or ()}
    return file_name(rng) if "path" in name or "file" in name else command(rng)


def text_call(rng: random.Random) -> str:
    """Return a tool call written out as text, as models without a tool template are asked to."""
    call = {"name": "bash", "arguments": {"command": command(rng)}}
    return f"<tool_call>\n{json.dumps(call)}\n</tool_call>"


def tools_of(body: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the tools offered in a request."""
    tools = body.get("tools")
    return [tool for tool in tools if isinstance(tool, dict)] if isinstance(tools, list) else []


def ordinary(body: dict[str, Any], rng: random.Random, *, tokens: int = 60) -> Answer:
    """Return a good answer: some text, sometimes reasoning, and calls of the request's tools with valid arguments."""
    reasoning = prose(rng, tokens // 2) if rng.random() < 0.3 else ""
    content = prose(rng, rng.randint(max(tokens // 2, 8), max(tokens * 2, 16)))
    tools = tools_of(body)
    if not tools:
        speaks_calls = "<tool_call>" in json.dumps(body.get("messages", [])[:1])
        return Answer(reasoning=reasoning, content=content + ("\n" + text_call(rng) if speaks_calls else ""))
    count = 2 if rng.random() < 0.15 else 1
    return Answer(
        reasoning=reasoning, content=content, calls=tuple(_call(tools, rng) for _ in range(count)), finish="tool_calls"
    )


def _call(tools: list[dict[str, Any]], rng: random.Random) -> Call:
    weights = [3 if tool.get("function", tool).get("name") == "bash" else 1 for tool in tools]
    tool = rng.choices(tools, weights)[0]
    name = tool.get("function", tool).get("name", "bash")
    return Call(name, arguments_for(tool, rng), f"call_{rng.getrandbits(48):012x}")
