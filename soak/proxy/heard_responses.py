"""
Answers of OpenAI's Responses API, streamed (`response.…` events) or whole, in the words of a chat completion.

Text is taken from the deltas; what a server says only at an item's end (`….done`) or only in the last event is taken
from there, once. Reasoning comes as its text or as a summary: whichever comes first is heard. A custom tool's input is
the one field `input` of a call's arguments, as vLLM shows it to the model. Items of tools that the server runs itself
are not judged: `aside` names the first. vLLM says `response.completed` also of an answer whose status is `incomplete`.
"""

import json
from collections.abc import Sequence
from typing import Any

import msgspec

from soak.client.events import CallDelta, ChatEvent, Delta, decode_as
from soak.importers.values import as_json, mapping, mappings
from soak.proxy.tongues import PLACES_MAX, kept_count, piece_of_call, said, word, words

# Calls that the client is to make, though the tool is not its own: the field of the item that has their arguments.
OWN_CALLS = {
    "local_shell_call": ("local_shell", "action"),
    "shell_call": ("shell", "action"),
    "apply_patch_call": ("apply_patch", "operation"),
    "computer_call": ("computer", "action"),
}
_TEXTS = {
    "response.output_text.delta": "content",
    "response.refusal.delta": "refusal",
    "response.reasoning_text.delta": "reasoning_content",
    "response.reasoning_summary_text.delta": "reasoning_content",
}
_ENDS = ("response.completed", "response.incomplete", "response.failed", "response.cancelled")
_INCOMPLETE = {"max_output_tokens": "length", "content_filter": "content_filter"}


class _Event(msgspec.Struct):
    """What is read of an event, or (`object`, `output`, `status`) of a response that is not streamed."""

    type: str = ""
    response: Any = None
    item: Any = None
    delta: Any = None
    arguments: Any = None
    input: Any = None
    output_index: Any = None
    item_id: Any = None
    error: Any = None
    message: Any = None
    object: Any = None


_events = msgspec.json.Decoder(_Event)
_responses = msgspec.json.Decoder(dict[str, Any])
_Place = int | str


class ResponsesTongue:
    """One answer; see `tongues.Tongue`."""

    def __init__(self) -> None:
        self.done = False
        self.aside: str | None = None
        self._calls: dict[_Place, int] = {}
        self._custom: set[int] = set()  # custom calls whose input has begun
        self._told: set[_Place] = set()  # items of which something was heard
        self._reasoned: str | None = None

    def streamed(self, data: bytes) -> tuple[ChatEvent, bool]:
        """Return what the data of one server-sent event says."""
        event, clean_json = decode_as(data, _events)
        return self._heard(event), clean_json

    def whole(self, data: bytes) -> tuple[ChatEvent, bool]:
        """Return what a response that is not streamed says."""
        response, clean_json = decode_as(data, _responses)
        if "output" not in response:
            return ChatEvent(error=response.get("error")), clean_json
        return self._ended(response), clean_json

    def _heard(self, event: _Event) -> ChatEvent:
        kind = event.type
        if kind in _TEXTS:
            return self._text(event)
        if kind == "response.function_call_arguments.delta":
            return self._arguments(event, words(event.delta))
        if kind == "response.custom_tool_call_input.delta":
            return self._input(event, words(event.delta))
        if kind == "response.function_call_arguments.done":
            return self._late(event, words(event.arguments))
        if kind == "response.output_item.added":
            return self._added(event)
        if kind == "response.output_item.done":
            return self._item_done(event)
        if kind in _ENDS:
            return self._ended(mapping(event.response))
        return self._other(event)

    def _other(self, event: _Event) -> ChatEvent:
        """Take what is no part of the answer: its head, a failure, and what we do not know."""
        if event.error is not None or event.type == "error":
            return ChatEvent(error=event.error or event.message or "the server sent an error without words")
        if not event.type:
            return ChatEvent()  # an odd event
        return said(head=event.response)

    # -- items -------------------------------------------------------------------------------------------------

    def _text(self, event: _Event) -> ChatEvent:
        field = _TEXTS[event.type]
        if field == "reasoning_content":
            self._reasoned = self._reasoned or event.type
            if event.type != self._reasoned:
                return said()
        self._tell(_place(event))
        delta = Delta()
        setattr(delta, field, words(event.delta))
        return said(delta)

    def _added(self, event: _Event) -> ChatEvent:
        """Take the head of an item; only that of a call says anything."""
        item = mapping(event.item)
        if item.get("type") not in ("function_call", "custom_tool_call"):
            return said()
        return _with(piece_of_call(self._call(_place(event)), id_=_call_id(item), name=item.get("name")))

    def _arguments(self, event: _Event, text: str) -> ChatEvent:
        place = _place(event)
        self._tell(place)
        return _with(piece_of_call(self._call(place), arguments=text))

    def _late(self, event: _Event, text: str) -> ChatEvent:
        """Take arguments that may not have come piece by piece."""
        return said() if self._knows(_place(event)) else self._arguments(event, text)

    def _input(self, event: _Event, text: str) -> ChatEvent:
        """Take a piece of a custom call's input."""
        index = self._call(_place(event))
        opening = "" if index in self._custom else '{"input": "'
        if len(self._custom) < PLACES_MAX:
            self._custom.add(index)
        return self._arguments(event, opening + json.dumps(text, ensure_ascii=False)[1:-1])

    def _item_done(self, event: _Event) -> ChatEvent:
        """Take the end of an item, and all of it where nothing was heard of it."""
        item, place = mapping(event.item), _place(event)
        if self._knows(place):
            if item.get("type") == "custom_tool_call" and self._call(place) in self._custom:
                return self._arguments(event, '"}')
            return said()
        self._tell(place)
        return said(self._delta([item], place))

    def _delta(self, output: Sequence[Any], place: _Place | None = None) -> Delta:
        """Return all that these items say; `place` is that of the one item there is, None for a whole answer."""
        content, refusal, thoughts = [], [], []
        calls: list[CallDelta] = []
        for position, item in enumerate(mappings(output)):
            kind = item.get("type")
            if kind == "message":
                parts = mappings(item.get("content"))
                content += [words(part.get("text")) for part in parts if part.get("type") != "refusal"]
                refusal += [words(part.get("refusal")) for part in parts if part.get("type") == "refusal"]
            elif kind == "reasoning":
                thoughts += reasoning_of(item)
            elif (call := call_in(item)) is not None:
                name, arguments = call
                index = self._call(position if place is None else place)
                calls.append(piece_of_call(index, id_=_call_id(item), name=name, arguments=arguments))
            else:
                self.aside = self.aside or word(kind, 60) or "an item without a type"
        return Delta(
            content="".join(content), reasoning_content="".join(thoughts), refusal="".join(refusal), tool_calls=calls
        )

    # -- the end -----------------------------------------------------------------------------------------------

    def _ended(self, response: dict[str, Any]) -> ChatEvent:
        if response.get("status") == "failed" or (response.get("error") and response.get("status") != "incomplete"):
            return ChatEvent(error=response.get("error") or "the response failed")
        if response.get("status") in ("queued", "in_progress"):
            return said(head=response)
        heard = bool(self._told or self._calls)
        delta = Delta() if heard else self._delta(response.get("output") or [])
        self.done = True
        return said(delta, finish=self._finish(response), head=response, usage=_usage(response.get("usage")))

    def _finish(self, response: dict[str, Any]) -> str:
        status = response.get("status")
        if status == "incomplete":
            reason = word(mapping(response.get("incomplete_details")).get("reason")) or "length"
            return _INCOMPLETE.get(reason, reason)
        if status == "cancelled":
            return "abort"
        return "tool_calls" if self._calls else "stop"

    # -- what was heard before ---------------------------------------------------------------------------------

    def _call(self, place: _Place) -> int:
        """Return the number of the call at `place`; those above the limit share one that is not kept."""
        if place in self._calls or len(self._calls) < PLACES_MAX:
            return self._calls.setdefault(place, len(self._calls))
        return PLACES_MAX

    def _tell(self, place: _Place) -> None:
        if len(self._told) < PLACES_MAX:
            self._told.add(place)

    def _knows(self, place: _Place) -> bool:
        return place in self._told or len(self._told) >= PLACES_MAX


def _with(call: CallDelta) -> ChatEvent:
    return said(Delta(tool_calls=[call]))


def _place(event: _Event) -> _Place:
    """Return which item an event speaks of: by its index, or by its id where a server leaves out indices."""
    index = kept_count(event.output_index)
    if index is not None:
        return index
    return word(event.item_id) or word(mapping(event.item).get("id")) or 0


def _call_id(item: dict[str, Any]) -> str | None:
    return word(item.get("call_id")) or word(item.get("id"))


def call_in(item: dict[str, Any]) -> tuple[str, str] | None:
    """Return name and arguments of the call that the client is asked to make by an item, None where it is none."""
    kind = words(item.get("type"))
    if kind == "function_call":
        arguments = item.get("arguments")
        return words(item.get("name")), arguments if isinstance(arguments, str) else as_json(mapping(arguments))
    if kind == "custom_tool_call":
        return words(item.get("name")), json.dumps({"input": words(item.get("input"))}, ensure_ascii=False)
    if kind not in OWN_CALLS:
        return None
    name, field = OWN_CALLS[kind]
    given = item.get(field, item.get(field + "s"))
    return name, as_json(given if isinstance(given, dict) else {field + "s": given})


def reasoning_of(item: dict[str, Any]) -> list[str]:
    """Return the texts of a reasoning item, or those of its summary; none where it is encrypted."""
    texts = [words(part.get("text")) for part in mappings(item.get("content"))]
    return texts or [words(part.get("text")) for part in mappings(item.get("summary"))]


def _usage(value: Any) -> dict[str, Any] | None:
    """Return token counts in the words of a chat completion."""
    if not isinstance(value, dict):
        return None
    return {
        "prompt_tokens": value.get("input_tokens"),
        "completion_tokens": value.get("output_tokens"),
        "prompt_tokens_details": value.get("input_tokens_details"),
        "completion_tokens_details": value.get("output_tokens_details"),
    }
