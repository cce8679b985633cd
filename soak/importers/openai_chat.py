"""
OpenAI chat: `{"messages": [...], "tools": [...]}` a line (fine-tuning form), whole request bodies, or bare lists.

Accepted, alone in a file, in a list, or one a line: a fine-tuning record, a request body (with model and sampling), a
request wrapped as `body` (Batch), `payload` (AIPerf) or `request`, a bare list of messages, rows of vLLM's multi-turn
benchmark. `messages` may be a JSON string. Requests that repeat the history of the one before are one conversation.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from soak.facts import Episode
from soak.importers.entries import Entry, Format
from soak.importers.requests import PARAMETERS, Conversations, Request, tools_of
from soak.importers.tally import Tally
from soak.importers.values import embedded, listing, mapping, name_of, text

_ROLES = ("system", "developer", "user", "assistant", "tool", "function")
_KEYS = ("conversation_id", "session_id", "trace_id")
_IDS = ("id", "custom_id", *_KEYS, "instance_id", "traj_id", "task_id")


def recognises(value: Any) -> bool:
    """Return whether `value`, the first JSON value of a file, is a conversation or a list of them."""
    if isinstance(value, dict):
        return bool(messages_in(body_of(value)))
    if not isinstance(value, list) or not value:
        return False
    return is_conversation(value) or (not isinstance(value[0], list) and recognises(value[0])) or _is_list(value[0])


def read(entries: Iterable[Entry], _name: str, tally: Tally) -> Iterator[Episode]:
    """Yield the episodes in a file's JSON values; what is none is counted."""
    conversations = Conversations(tally)
    for entry in entries:
        value = entry.value
        several = isinstance(value, list) and not is_conversation(value)
        for i, item in enumerate(value if several else [value]):
            name = f"{entry.name}-{i + 1:03d}" if several else entry.name
            request = _request(item, name, entry, tally)
            if request is not None:
                yield from conversations.add(request)
    yield from conversations.finish()


FORMAT = Format(name="openai-chat", recognises=recognises, read=read)


def body_of(value: dict[str, Any]) -> dict[str, Any]:
    """Return the request inside its wrapper."""
    for name in ("body", "payload", "request"):
        inner = value.get(name)
        if isinstance(inner, dict) and "messages" in inner:
            return inner
    return value


def messages_in(body: dict[str, Any]) -> list[Any]:
    """Return the messages of a request; none where it has none."""
    return listing(embedded(body.get("messages")))


def is_conversation(value: list[Any]) -> bool:
    """Return whether `value` is a bare list of messages."""
    return bool(value) and isinstance(value[0], dict) and value[0].get("role") in _ROLES and "messages" not in value[0]


def _is_list(value: Any) -> bool:
    return isinstance(value, list) and is_conversation(value)


def _request(value: Any, name: str, entry: Entry, tally: Tally) -> Request | None:
    outer = mapping(value)
    body = body_of(outer) if outer else {"messages": value}
    messages = messages_in(body)
    if not messages:
        tally.drop("an entry that is no conversation")
        return None
    meta: dict[str, Any] = {} if entry.number is None else {"line": entry.number}
    return Request(
        messages=messages,
        tools=tools_of(body.get("tools"), body.get("functions"), tally),
        meta={**meta, **_meta(body, outer)},
        id=name_of(outer, *_IDS) or name_of(body, *_IDS) or name,
        key=name_of(outer, *_KEYS) or name_of(body, *_KEYS),
        size=entry.size,
    )


def _meta(body: dict[str, Any], outer: dict[str, Any]) -> dict[str, Any]:
    """Return what the file says of how it was asked, and of its licence."""
    meta: dict[str, Any] = {}
    parameters = {name: body[name] for name in PARAMETERS if body.get(name) is not None}
    if parameters:
        meta["request"] = parameters
    licence = text(outer.get("licence")) or text(outer.get("license"))
    if licence is not None:
        meta["licence"] = licence
    return meta
