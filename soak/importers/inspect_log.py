"""
Inspect AI logs: `.eval` archives (version 2, and 3 with its pool of messages) and the same as one JSON document.

Each model event holds the exact input, tools and settings of one call, so the contexts are built from them; a sample's
`messages` are only its final state, and complete the conversation they end. Calls made by scorers are left out and
counted. `attachment://` strings are put back. An archive whose members are zstd is refused by name.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from soak.facts import Episode
from soak.importers.entries import Entry, Format
from soak.importers.reading import UnreadableError
from soak.importers.requests import Conversations, Request, asked_of
from soak.importers.tally import Tally
from soak.importers.values import as_json, chosen, instant, listing, mapping, mappings, name_of, text

ATTACHED_MAX = 64 << 20
_ATTACHMENT = "attachment://"
_SETTINGS = ("temperature", "top_p", "top_k", "max_tokens", "seed", "stop_seqs", "reasoning_effort")


def recognises(value: Any) -> bool:
    """Return whether `value` is a log or the header of one."""
    return isinstance(value, dict) and isinstance(value.get("eval"), dict) and ("plan" in value or "version" in value)


def read(entries: Iterable[Entry], name: str, tally: Tally) -> Iterator[Episode]:
    """Yield an episode for each conversation of each sample."""
    header: dict[str, Any] = {}
    for entry in entries:
        value = mapping(entry.value)
        if isinstance(value.get("eval"), dict):
            header = value
            for sample in mappings(value.get("samples")):
                yield from _sample(sample, header, name, entry, tally)
        else:
            yield from _sample(value, header, name, entry, tally)
    if header and not header.get("samples"):
        status = text(header.get("status"))
        tally.note(f"the log's status is {status or 'not told'}")


FORMAT = Format(name="inspect", recognises=recognises, read=read)


def _sample(sample: dict[str, Any], header: dict[str, Any], name: str, entry: Entry, tally: Tally) -> Iterator[Episode]:
    attachments = _Attachments(mapping(sample.get("attachments")), entry.place)
    pool = [_message(raw, attachments) for raw in mappings(sample.get("message_pool"))]
    final = [_message(raw, attachments) for raw in mappings(sample.get("messages"))]
    id_ = f"{name}.{name_of(sample, 'id') or 'sample'}.{name_of(sample, 'epoch') or '1'}"
    meta = {"task": text(mapping(header.get("eval")).get("task"))}
    conversations = Conversations(tally)
    for event in _calls(sample, tally):
        request = _request(event, pool, attachments, id_, {k: v for k, v in meta.items() if v})
        if request is None:
            tally.drop("a model call without its input")
        else:
            yield from conversations.add(request)
    if final:
        yield from conversations.add(_final(final, conversations, id_, meta, entry))
    yield from conversations.finish()


def _final(
    final: list[dict[str, Any]], conversations: Conversations, id_: str, meta: dict[str, Any], entry: Entry
) -> Request:
    """Return the sample's last state as one more request, which goes on with the conversation that it ends."""
    tools = conversations.tools_for(final)
    return Request(messages=final, tools=tools, meta={k: v for k, v in meta.items() if v}, id=id_, size=entry.size)


def _calls(sample: dict[str, Any], tally: Tally) -> Iterator[dict[str, Any]]:
    """Yield the model events that are no scorer's."""
    scorers: set[Any] = set()
    depth = 0
    for event in mappings(sample.get("events")):
        kind = event.get("event")
        if kind == "span_begin" and (str(event.get("type")).startswith("scorer") or event.get("parent_id") in scorers):
            scorers.add(text(event.get("id")))
        elif kind == "step" and (depth or event.get("type") == "scorer"):
            depth = max(depth + (1 if event.get("action") == "begin" else -1), 0)
        elif kind == "model":
            if depth or text(event.get("span_id")) in scorers - {None}:
                tally.drop("a model call by a scorer")
            else:
                yield event


def _request(
    event: dict[str, Any], pool: list[dict[str, Any]], attachments: "_Attachments", id_: str, meta: dict[str, Any]
) -> Request | None:
    messages = [_message(raw, attachments) for raw in mappings(event.get("input"))]
    if not messages:
        messages = [message for span in listing(event.get("input_refs")) for message in _cut(pool, span)]
    if not messages:
        return None
    output = mapping(event.get("output"))
    choice = next(iter(mappings(output.get("choices"))), {})
    answer = _message(mapping(choice.get("message")), attachments) if choice else None
    asked = asked_of(mapping(output.get("usage")), choice.get("stop_reason"))
    asked.at_s = instant(event.get("completed")) or instant(event.get("timestamp"))
    model = text(event.get("model"))
    request = {**({"model": model} if model else {}), **chosen(mapping(event.get("config")), *_SETTINGS)}
    return Request(
        messages=messages,
        answer=answer,
        asked=asked,
        tools=tuple(_tool(raw, attachments) for raw in mappings(event.get("tools")) if text(raw.get("name"))),
        meta={**meta, "request": request} if request else meta,
        id=id_,
    )


def _cut(pool: list[dict[str, Any]], span: Any) -> list[dict[str, Any]]:
    """Return the messages of the pool from the first index of `span` to before the second."""
    start, end = (span[0], span[1]) if isinstance(span, list) and len(span) == 2 else (0, 0)
    return pool[start:end] if isinstance(start, int) and isinstance(end, int) and 0 <= start <= end else []


class _Attachments:
    """Long strings that a sample holds once and names elsewhere."""

    def __init__(self, by_hash: dict[str, Any], place: str) -> None:
        self._by_hash = by_hash
        self._place = place
        self._total = 0

    def resolve(self, value: Any) -> Any:
        """Return `value` with the strings put back; raises `UnreadableError` where they grow beyond bounds."""
        if isinstance(value, str):
            return self._string(value) if value.startswith(_ATTACHMENT) else value
        if isinstance(value, dict):
            return {key: self.resolve(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.resolve(item) for item in value]
        return value

    def _string(self, value: str) -> str:
        found = self._by_hash.get(value.removeprefix(_ATTACHMENT))
        if not isinstance(found, str):
            return value
        self._total += len(found)
        if self._total > ATTACHED_MAX * 16:
            raise UnreadableError(self._place, "its attachments are named so often that they grow beyond bounds")
        return found


def _message(raw: dict[str, Any], attachments: _Attachments) -> dict[str, Any]:
    """Return a message of Inspect's as OpenAI has it."""
    message: dict[str, Any] = {"role": raw.get("role"), "content": attachments.resolve(raw.get("content"))}
    calls = mappings(raw.get("tool_calls"))
    if calls:
        message["tool_calls"] = [_call(call, attachments) for call in calls]
    if raw.get("role") == "tool":
        message["tool_call_id"] = raw.get("tool_call_id")
        error = text(mapping(raw.get("error")).get("message"), 1 << 20)
        if not message["content"] and error:
            message["content"] = error
    return message


def _call(call: dict[str, Any], attachments: _Attachments) -> dict[str, Any]:
    arguments = attachments.resolve(call.get("arguments"))
    return {
        "id": call.get("id"),
        "name": call.get("function"),
        "arguments": arguments if isinstance(arguments, str) else as_json(mapping(arguments)),
    }


def _tool(raw: dict[str, Any], attachments: _Attachments) -> dict[str, Any]:
    described = attachments.resolve({name: raw[name] for name in ("description", "parameters") if name in raw})
    return {"type": "function", "function": {"name": raw["name"], **described}}
