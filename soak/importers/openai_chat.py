"""
OpenAI chat: `{"messages": [...], "tools": [...]}` a line (fine-tuning form), whole request bodies, or bare lists.

Accepted, alone in a file, in a list, or one a line: a fine-tuning record, a request body (with model and sampling), a
request wrapped as `body` or `payload` (Batch), a bare list of messages. `messages` may be a JSON string.
"""

from collections.abc import Iterator
from typing import Any

from soak.facts import Episode
from soak.importers.assembly import assemble, name_of
from soak.importers.messages import Read, read_message, text
from soak.importers.reading import UnreadableError, parse_json
from soak.importers.tally import Tally

NAME = "openai-chat"

_ROLES = ("system", "developer", "user", "assistant", "tool", "function")
_IDS = ("id", "custom_id", "conversation_id", "session_id", "trace_id", "instance_id", "traj_id", "task_id")
_PARAMETERS = (
    "model",
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "presence_penalty",
    "frequency_penalty",
    "repetition_penalty",
    "max_tokens",
    "max_completion_tokens",
    "stop",
    "seed",
    "tool_choice",
    "parallel_tool_calls",
    "reasoning_effort",
)


def recognises(value: Any) -> bool:
    """Return whether `value`, the first JSON value of a file, is a conversation or a list of them."""
    if isinstance(value, dict):
        return _messages(_body(value)) is not None
    if not isinstance(value, list) or not value:
        return False
    return _is_conversation(value) or recognises(value[0])


def read(value: Any, name: str, tally: Tally) -> Iterator[Episode]:
    """Yield the episodes in one JSON value; what is none is counted. `name` is the id where the value has no own."""
    if isinstance(value, list) and not _is_conversation(value):
        for i, item in enumerate(value):
            yield from _one(item, f"{name}-{i + 1:03d}", tally)
    else:
        yield from _one(value, name, tally)


def _one(value: Any, name: str, tally: Tally) -> Iterator[Episode]:
    body = _body(value) if isinstance(value, dict) else {"messages": value}
    messages = _messages(body)
    if messages is None:
        tally.drop("an entry that is no conversation")
        return
    outer = value if isinstance(value, dict) else {}
    own = name_of(outer, *_IDS) or name_of(body, *_IDS)
    read_all = (read_message(raw, i, tally) for i, raw in enumerate(messages))
    episode = assemble(
        [Read(message=message) for message in read_all if message is not None],
        id_=own or name,
        tools=_tools(body, tally),
        meta=_meta(body, outer),
        tally=tally,
    )
    if episode is not None:
        yield episode


def _body(value: dict[str, Any]) -> dict[str, Any]:
    """Return the request inside its wrapper."""
    for name in ("body", "payload", "request"):
        inner = value.get(name)
        if isinstance(inner, dict) and "messages" in inner:
            return inner
    return value


def _messages(body: dict[str, Any]) -> list[Any] | None:
    """Return the messages of a request; None where it has none."""
    messages = body.get("messages")
    if isinstance(messages, str):
        try:
            messages, _ = parse_json(messages.encode("utf-8", "replace"), "messages")
        except UnreadableError:
            return None
    return messages if isinstance(messages, list) and messages else None


def _is_conversation(value: list[Any]) -> bool:
    """Return whether `value` is a bare list of messages."""
    return bool(value) and isinstance(value[0], dict) and value[0].get("role") in _ROLES


def _tools(body: dict[str, Any], tally: Tally) -> tuple[dict[str, Any], ...]:
    """Return the tool schemas; legacy `functions` are wrapped, entries without a name dropped."""
    given = body.get("tools")
    tools = given if isinstance(given, list) else []
    functions = body.get("functions")
    if not tools and isinstance(functions, list) and functions:
        tally.repair("legacy functions taken as tools")
        tools = [{"type": "function", "function": function} for function in functions]
    kept = [tool for tool in tools if _is_tool(tool)]
    for _ in range(len(tools) - len(kept)):
        tally.drop("a tool schema without a name")
    return tuple(kept)


def _is_tool(tool: Any) -> bool:
    function = tool.get("function", tool.get("custom")) if isinstance(tool, dict) else None
    return isinstance(function, dict) and text(function.get("name")) is not None


def _meta(body: dict[str, Any], outer: dict[str, Any]) -> dict[str, Any]:
    """Return what the file says of how it was asked, and of its licence."""
    meta: dict[str, Any] = {}
    parameters = {name: body[name] for name in _PARAMETERS if body.get(name) is not None}
    if parameters:
        meta["request"] = parameters
    for name in ("licence", "license"):
        licence = text(outer.get(name))
        if licence is not None:
            meta["licence"] = licence
    return meta
