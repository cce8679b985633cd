"""
OpenHands SDK (V1) events: a folder of `event-*.json`, JSON Lines, or a `history` of them in an `output.jsonl`.

Actions with one `llm_response_id` are one answer. Observations, errors and rejections are results of the call whose
id they carry; a segment may begin with results whose calls lie before it. State updates are dropped and counted; a
condensation begins a new context without what was forgotten.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from soak.facts import Episode, Message, ToolCall
from soak.importers.assembly import Thread
from soak.importers.entries import Entry, Format, whole
from soak.importers.messages import Read, read_message
from soak.importers.tally import Tally
from soak.importers.values import TEXT_MAX, chosen, instant, listing, mapping, mappings, name_of, text

_SETTINGS = ("model", "temperature", "top_p", "top_k", "max_output_tokens", "reasoning_effort", "native_tool_calling")


def recognises(value: Any) -> bool:
    """Return whether `value` is an event, a list of them, an instance with a history of them, or a saved state."""
    if isinstance(value, dict) and (_is_event(value) or _is_state(value)):
        return True
    events = value if isinstance(value, list) else listing(mapping(value).get("history"))
    return any(_is_event(item) for item in events[:3])


def read(entries: Iterable[Entry], name: str, tally: Tally) -> Iterator[Episode]:
    """Yield the episode of the events of a source; an instance with a history is an episode of its own."""
    events = _Events(tally)
    for entry in whole(entries):
        value = entry.value
        if isinstance(value, dict) and isinstance(value.get("history"), list):
            own = _Events(tally)
            own.add_all(value["history"])
            yield from own.finish(name_of(value, "instance_id") or entry.name)
        else:
            events.add_all(value if isinstance(value, list) else [value])
    if events.seen:
        yield from events.finish(name)


FORMAT = Format(name="openhands-v1", recognises=recognises, read=read, per_folder=True)


def _is_event(item: Any) -> bool:
    kind = item.get("kind") if isinstance(item, dict) else None
    return isinstance(kind, str) and (kind.endswith("Event") or kind in ("Condensation", "UserRejectObservation"))


def _is_state(item: dict[str, Any]) -> bool:
    return isinstance(mapping(item.get("agent")).get("llm"), dict)


class _Events:
    """The events of one conversation, becoming messages."""

    def __init__(self, tally: Tally) -> None:
        self.seen = False
        self._tally = tally
        self._thread = Thread()
        self._reads: list[tuple[Any, Read]] = []
        self._last: str | None = None
        self._tools: list[dict[str, Any]] = []
        self._request: dict[str, Any] = {}

    def add_all(self, events: list[Any]) -> None:
        """Take some events."""
        for event in events:
            self.seen = True
            if isinstance(event, dict):
                self._add(event, str(event.get("kind")))
            else:
                self._tally.drop("an event that is not an object")

    def finish(self, id_: str) -> Iterator[Episode]:
        """Yield the episode, if there is one."""
        self._thread.extend([read for _, read in self._reads])
        meta = {"request": self._request} if self._request else {}
        episode = self._thread.finish(id_=id_, tools=tuple(self._tools), meta=meta, tally=self._tally)
        if episode is not None:
            yield episode

    def _add(self, event: dict[str, Any], kind: str) -> None:
        if kind == "ActionEvent":
            self._action(event)
            return
        if kind == "SystemPromptEvent":
            self._tools = [tool for raw in mappings(event.get("tools")) for tool in _tool(raw)]
            self._say(event, {"role": "system", "content": _text_of(event.get("system_prompt"))})
        elif kind == "MessageEvent":
            message = mapping(event.get("llm_message"))
            more = [part for part in listing(event.get("extended_content")) if part]
            content = message.get("content")
            self._say(event, {**message, "content": [*listing(content), *more] if more else content})
        elif kind in ("ObservationEvent", "AgentErrorEvent", "UserRejectObservation"):
            self._say(event, {"role": "tool", "content": _outcome(event), "tool_call_id": event.get("tool_call_id")})
        elif kind == "Condensation":
            self._condense(event)
        elif _is_state(event):
            self._request = chosen(mapping(mapping(event["agent"])["llm"]), *_SETTINGS)
        else:
            self._tally.drop(f"an event that is no message ({kind[:40]})")

    def _say(self, event: dict[str, Any], raw: dict[str, Any]) -> None:
        self._last = None
        message = read_message(raw, len(self._reads), self._tally)
        if message is not None:
            self._reads.append((event.get("id"), Read(message=message, at_s=instant(event.get("timestamp")))))

    def _action(self, event: dict[str, Any]) -> None:
        """Take an action: a call of a new answer, or one more of the answer before it."""
        response = text(event.get("llm_response_id"))
        call = mapping(event.get("tool_call"))
        inner = mapping(call.get("function")) or call
        raw = {
            "id": text(event.get("tool_call_id")) or call.get("id"),
            "name": text(inner.get("name")) or event.get("tool_name"),
            "arguments": inner.get("arguments"),
        }
        answer = {
            "role": "assistant",
            "content": listing(event.get("thought")) or None,
            "reasoning_content": event.get("reasoning_content"),
            "tool_calls": [raw] if raw["name"] else [],
        }
        if response is not None and response == self._last and self._reads:
            self._join(read_message(answer, len(self._reads), self._tally))
        else:
            self._say(event, answer)
        self._last = response

    def _join(self, more: Message | None) -> None:
        """Add the calls of another action of the same answer to it."""
        read = self._reads[-1][1]
        calls: tuple[ToolCall, ...] = () if more is None else more.tool_calls
        old = read.message
        read.message = Message(
            role="assistant", content=old.content, reasoning=old.reasoning, tool_calls=old.tool_calls + calls
        )

    def _condense(self, event: dict[str, Any]) -> None:
        """Begin a new context without the events that were forgotten, with their summary if there is one."""
        self._thread.extend([read for _, read in self._reads], ends=False)
        forgotten = {id_ for id_ in listing(event.get("forgotten_event_ids")) if isinstance(id_, str)}
        kept = [(id_, read) for id_, read in self._reads if not (isinstance(id_, str) and id_ in forgotten)]
        self._tally.note("the history was condensed: what follows was asked without what was forgotten")
        summary = text(event.get("summary"), TEXT_MAX)
        if summary is not None:
            offset = event.get("summary_offset")
            at = offset if isinstance(offset, int) and 0 <= offset <= len(kept) else len(kept)
            kept.insert(at, (None, Read(message=Message(role="user", content=summary))))
        self._reads = kept


def _text_of(value: Any) -> Any:
    """Return the text in a text part, or what stands there."""
    return value.get("text") if isinstance(value, dict) else value


def _outcome(event: dict[str, Any]) -> Any:
    """Return what came of a call: the observation's content, the error, or the reason of a rejection."""
    observation = mapping(event.get("observation"))
    found = observation.get("content", observation.get("output"))
    if found is None:
        found = text(event.get("error"), TEXT_MAX) or text(event.get("rejection_reason"), TEXT_MAX)
    return found


def _tool(raw: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the schema of a tool as OpenAI has it."""
    if isinstance(raw.get("function"), dict):
        yield raw
    elif text(raw.get("name")) or text(raw.get("title")):
        parameters = mapping(raw.get("parameters")) or mapping(raw.get("inputSchema"))
        name = text(raw.get("name")) or text(raw.get("title"))
        described = {"description": raw["description"]} if isinstance(raw.get("description"), str) else {}
        yield {"type": "function", "function": {"name": name, **described, "parameters": parameters}}
