"""
Answers of Anthropic's Messages API, streamed or whole, in the words of a chat completion.

A call without arguments has the input `{}`, also where a server sends no piece of it. Usage is that of `message_delta`,
with what `message_start` said of the prompt; the prompt is what was read anew, read from the cache and written to it.
Blocks of tools that the server runs itself, and hidden thoughts, are not judged: `aside` names the first.
"""

from typing import Any

import msgspec

from soak.client.events import CallDelta, ChatEvent, Delta, decode_as
from soak.importers.values import as_json, mapping, mappings
from soak.proxy.tongues import PLACES_MAX, kept_count, piece_of_call, said, word, words

_FINISH = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
}
_PROMPT = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")


class _Event(msgspec.Struct):
    """What is read of an event."""

    type: str = ""
    message: Any = None
    content_block: Any = None
    delta: Any = None
    index: Any = None
    usage: Any = None
    error: Any = None


class _Call(msgspec.Struct):
    """A call whose block is open: its number, the input its head had, and whether a piece of it came."""

    index: int
    input: Any
    begun: bool = False


_events = msgspec.json.Decoder(_Event)
_answers = msgspec.json.Decoder(dict[str, Any])


class MessagesTongue:
    """One answer; see `tongues.Tongue`."""

    def __init__(self) -> None:
        self.done = False
        self.aside: str | None = None
        self._open: dict[int, _Call] = {}
        self._calls = 0
        self._usage: dict[str, Any] = {}

    def streamed(self, data: bytes) -> tuple[ChatEvent, bool]:
        """Return what the data of one server-sent event says."""
        event, clean_json = decode_as(data, _events)
        return self._heard(event), clean_json

    def whole(self, data: bytes) -> tuple[ChatEvent, bool]:
        """Return what an answer that is not streamed says."""
        answer, clean_json = decode_as(data, _answers)
        if "content" not in answer:
            return ChatEvent(error=answer.get("error")), clean_json
        self.done = True
        delta = self._delta(answer["content"])
        return self._finished(answer, answer.get("usage"), delta=delta, head=answer), clean_json

    def _heard(self, event: _Event) -> ChatEvent:
        kind = event.type
        if kind == "content_block_delta":
            return self._piece(event)
        if kind == "content_block_start":
            return self._start(event)
        if kind == "content_block_stop":
            return self._stop(event)
        if kind == "message_start":
            head = mapping(event.message)
            self._usage.update(_counts(head.get("usage")))
            return said(head=head)
        if kind == "message_delta":
            return self._finished(mapping(event.delta), event.usage)
        self.done = self.done or kind == "message_stop"
        return self._other(event)

    def _other(self, event: _Event) -> ChatEvent:
        if event.error is not None or event.type == "error":
            return ChatEvent(error=event.error or "the server sent an error without words")
        return said() if event.type else ChatEvent()  # an event without a type is an odd one

    def _piece(self, event: _Event) -> ChatEvent:
        delta = mapping(event.delta)
        kind = delta.get("type")
        if kind == "text_delta":
            return said(Delta(content=words(delta.get("text"))))
        if kind == "thinking_delta":
            return said(Delta(reasoning_content=words(delta.get("thinking"))))
        call = self._open.get(_index(event))
        piece = words(delta.get("partial_json"))
        if kind != "input_json_delta" or call is None or not piece:
            return said()
        call.begun = True
        return _with(piece_of_call(call.index, arguments=piece))

    def _start(self, event: _Event) -> ChatEvent:
        block = mapping(event.content_block)
        if block.get("type") != "tool_use":
            return said(self._delta([block]))
        index = self._next_call()
        if len(self._open) < PLACES_MAX:
            self._open[_index(event)] = _Call(index, block.get("input"))
        return _with(piece_of_call(index, id_=block.get("id"), name=block.get("name")))

    def _stop(self, event: _Event) -> ChatEvent:
        """Take the end of a block: a call of which no piece came has the input that its head had."""
        call = self._open.pop(_index(event), None)
        if call is None or call.begun:
            return said()
        return _with(piece_of_call(call.index, arguments=as_json(mapping(call.input))))

    def _next_call(self) -> int:
        self._calls += 1
        return min(self._calls - 1, PLACES_MAX)

    def _delta(self, blocks: Any) -> Delta:
        """Return all that these blocks say."""
        delta = Delta(content="", reasoning_content="", tool_calls=[])
        content, thoughts = [], []
        calls: list[CallDelta] = []
        for block in mappings(blocks):
            kind = block.get("type")
            if kind == "text":
                content.append(words(block.get("text")))
            elif kind == "thinking":
                thoughts.append(words(block.get("thinking")))
            elif kind == "tool_use":
                arguments = as_json(mapping(block.get("input")))
                index = self._next_call()
                calls.append(piece_of_call(index, id_=block.get("id"), name=block.get("name"), arguments=arguments))
            else:
                self.aside = self.aside or word(kind, 60) or "a block without a type"
        delta.content, delta.reasoning_content, delta.tool_calls = "".join(content), "".join(thoughts), calls
        return delta

    def _finished(
        self, said_of_it: dict[str, Any], usage: Any, *, delta: Delta | None = None, head: Any = None
    ) -> ChatEvent:
        """Return the event with the stop reason, if one is given, and the usage."""
        self._usage.update(_counts(usage))
        reason = word(said_of_it.get("stop_reason"))
        finish = _FINISH.get(reason, reason) if reason else None
        counts = _usage(self._usage) if usage is not None else None
        return said(delta, finish=finish, stop=word(said_of_it.get("stop_sequence")), head=head, usage=counts)


def _with(call: CallDelta) -> ChatEvent:
    return said(Delta(tool_calls=[call]))


def _index(event: _Event) -> int:
    return kept_count(event.index) or 0


def _counts(usage: Any) -> dict[str, Any]:
    """Return the counts in a usage object; what is not said does not overwrite what was said before."""
    given = {name: kept_count(mapping(usage).get(name)) for name in (*_PROMPT, "output_tokens")}
    return {name: value for name, value in given.items() if value is not None}


def _usage(counts: dict[str, Any]) -> dict[str, Any]:
    """Return token counts in the words of a chat completion."""
    prompt = [counts[name] for name in _PROMPT if name in counts]
    return {
        "prompt_tokens": sum(prompt) if prompt else None,
        "completion_tokens": counts.get("output_tokens"),
        "prompt_tokens_details": {"cached_tokens": counts.get("cache_read_input_tokens")},
    }
