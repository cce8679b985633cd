"""
The body of a request: pure, so that the same turn is the same request in every run.

Two modes. *native*: OpenAI messages, tools and tool calls as they are. *text*, for models without a tool template:
everything becomes plain system, user and assistant messages, in the form Qwen and Hermes models were trained on:

- tool schemas stand at the end of the system prompt, one JSON object a line between `<tools>` and `</tools>`;
- a call is `<tool_call>{"name": …, "arguments": …}</tool_call>` after the assistant's text, arguments verbatim;
- a result is `<tool_response>…</tool_response>` in a user message;
- a system message after the first place becomes a user message, and neighbours of one role are merged.

Reasoning is never sent again. A salt stands in square brackets at the head of the system prompt.
"""

import json
from collections.abc import Sequence
from typing import Any, Literal

from soak.errors import UsageError
from soak.facts import Capabilities, Message, Sampling, clean, encode, text_of

Mode = Literal["native", "text"]
_OURS = frozenset({"messages", "stream", "stream_options", "n"})
_TOOLS_HEAD = (
    "# Tools\n\nYou may call functions. Their signatures are between <tools> and </tools>, one JSON object a line. "
    'To call one, answer with its name and arguments: <tool_call>\n{"name": ..., "arguments": ...}\n</tool_call>'
)


def compose(
    messages: Sequence[Message],
    tools: Sequence[dict[str, Any]],
    *,
    mode: Mode,
    model: str,
    sampling: Sampling,
    max_tokens: int,
    seed: int | None,
    salt: str | None = None,
    capabilities: Capabilities | None = None,
    logprobs: int | None = None,
    extra_body: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """
    Return the JSON of POST /chat/completions for one turn.

    Asks for token ids and log probabilities only where `capabilities` say that the server has them. `extra_body` is
    merged last. Raises `UsageError` if it would replace messages, the stream or the number of answers.
    """
    body: dict[str, Any] = {"model": model, "messages": _messages(messages, tools, mode, salt)}
    if mode == "native" and tools:
        body["tools"] = list(tools)
    body.update(_sampling_fields(sampling), max_tokens=max_tokens)
    if seed is not None:
        body["seed"] = seed
    body.update(stream=True, stream_options={"include_usage": True})
    if capabilities is not None and capabilities.token_ids:
        body["return_token_ids"] = True
    if logprobs is not None and capabilities is not None and capabilities.logprobs:
        body.update(logprobs=True, top_logprobs=logprobs)
    body.update(_checked(extra_body or {}))
    return body


def _sampling_fields(sampling: Sampling) -> dict[str, Any]:
    names = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty", "presence_penalty", "frequency_penalty")
    fields = {name: getattr(sampling, name) for name in names if getattr(sampling, name) is not None}
    return fields if sampling.stop is None else {**fields, "stop": list(sampling.stop)}


def _checked(extra_body: dict[str, Any]) -> dict[str, Any]:
    taken = sorted(_OURS & extra_body.keys())
    if taken:
        raise UsageError(
            f"extra_body may not set {', '.join(taken)}",
            why="soak reads one streamed answer to the recorded messages, and nothing else",
            hint="remove it from extra_body",
        )
    return extra_body


def _messages(
    messages: Sequence[Message], tools: Sequence[dict[str, Any]], mode: Mode, salt: str | None
) -> list[dict[str, Any]]:
    plain = [_native(message) for message in messages] if mode == "native" else _as_text(messages, tools)
    return _salted(plain, salt) if salt else plain


def _native(message: Message) -> dict[str, Any]:
    sent: dict[str, Any] = {"role": message.role, "content": _cleaned(message.content)}
    if message.content is None and not message.tool_calls:
        sent["content"] = ""
    if message.name is not None:
        sent["name"] = message.name
    if message.tool_calls:
        sent["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": clean(call.arguments)}}
            for call in message.tool_calls
        ]
    if message.tool_call_id is not None:
        sent["tool_call_id"] = message.tool_call_id
    return sent


def _cleaned(content: str | list[dict[str, Any]] | None) -> str | list[dict[str, Any]] | None:
    return clean(content) if isinstance(content, str) else content


def _salted(messages: list[dict[str, Any]], salt: str) -> list[dict[str, Any]]:
    """Put the salt before everything else the model reads, so that no cached prefix fits."""
    if not messages or messages[0]["role"] not in ("system", "developer"):
        return [{"role": "system", "content": salt}, *messages]
    first = messages[0]
    content: Any = first["content"]
    if isinstance(content, list):
        content = [{"type": "text", "text": salt + "\n"}, *content]
    else:
        content = f"{salt}\n{content or ''}"
    return [{**first, "content": content}, *messages[1:]]


def _as_text(messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    merged: list[tuple[str, list[str]]] = []
    for role, text in _rendered(messages, tools):
        if merged and merged[-1][0] == role:
            merged[-1][1].append(text)
        else:
            merged.append((role, [text]))
    return [{"role": role, "content": "\n\n".join(filter(None, texts))} for role, texts in merged]


def _rendered(messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> list[tuple[str, str]]:
    turns = [_spoken(message, first=i == 0) for i, message in enumerate(messages)]
    if not tools:
        return turns
    schemas = _tools_text(tools)
    if turns and turns[0][0] == "system":
        return [("system", f"{turns[0][1]}\n\n{schemas}".strip()), *turns[1:]]
    return [("system", schemas), *turns]


def _spoken(message: Message, *, first: bool) -> tuple[str, str]:
    text = clean(text_of(message.content))
    if message.role == "tool":
        return "user", f"<tool_response>\n{text}\n</tool_response>"
    if message.role == "assistant":
        calls = (_call_text(call.name, clean(call.arguments)) for call in message.tool_calls)
        return "assistant", "\n".join(filter(None, (text, *calls)))
    if message.role in ("system", "developer"):
        return ("system" if first else "user"), text
    return "user", text


def _call_text(name: str, arguments: str) -> str:
    return f'<tool_call>\n{{"name": {json.dumps(name)}, "arguments": {arguments or "{}"}}}\n</tool_call>'


def _tools_text(tools: Sequence[dict[str, Any]]) -> str:
    lines = (encode(tool.get("function", tool)).decode() for tool in tools)
    return f"{_TOOLS_HEAD}\n\n<tools>\n" + "\n".join(lines) + "\n</tools>"
