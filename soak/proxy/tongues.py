"""What the answers of each API say, in the words of a chat completion: one event in, one event out."""

from typing import Any, Protocol

import msgspec

from soak.client.events import CallDelta, ChatEvent, Choice, Delta, FunctionDelta, decode_event
from soak.importers.values import mapping

PLACES_MAX = 1024
_WORD_CHARS = 200
_NAME_CHARS = 1000


class Tongue(Protocol):
    """
    Reads one answer. `done`: its end was said. `aside`: an item of a kind that is not judged was in it, by its type.

    Both methods return the event and whether it was clean JSON; they raise `NotAnEventError`.
    """

    done: bool
    aside: str | None

    def streamed(self, data: bytes) -> tuple[ChatEvent, bool]:
        """Return what the data of one server-sent event says."""
        ...

    def whole(self, data: bytes) -> tuple[ChatEvent, bool]:
        """Return what an answer that is not streamed says."""
        ...


class ChatTongue:
    """Chat completions, and completions; their streams end with a marker that the stream itself knows."""

    done = False
    aside: str | None = None

    def streamed(self, data: bytes) -> tuple[ChatEvent, bool]:
        """Return the event, the text of a completion in the place of a delta."""
        event, clean_json = decode_event(data)
        for choice in event.choices or ():
            if choice.delta is None:
                choice.delta = _delta_of(choice)
        return event, clean_json

    whole = streamed


def _delta_of(choice: Choice) -> Delta | None:
    if isinstance(choice.text, str):
        return Delta(content=choice.text)
    if choice.message is None:
        return None
    return msgspec.convert(choice.message, Delta)


def said(
    delta: Delta | None = None,
    *,
    finish: str | None = None,
    stop: str | None = None,
    head: Any = None,
    usage: Any = None,
) -> ChatEvent:
    """Return an event with `delta` and a finish reason; `head` has the id and model of the answer."""
    choices = [] if delta is None and finish is None else [Choice(delta=delta, finish_reason=finish, stop_reason=stop)]
    known = mapping(head)
    return ChatEvent(id=word(known.get("id")), model=word(known.get("model")), choices=choices, usage=usage)


def piece_of_call(index: int, *, id_: Any = None, name: Any = None, arguments: str | None = None) -> CallDelta:
    """Return a piece of the call number `index`."""
    function = FunctionDelta(name=word(name, _NAME_CHARS), arguments=arguments)
    return CallDelta(index=index, id=word(id_), function=function)


def word(value: Any, limit: int = _WORD_CHARS) -> str | None:
    """Return `value` if it is text, cut to `limit` characters, else None."""
    return value[:limit] if isinstance(value, str) else None


def words(value: Any) -> str:
    """Return `value` if it is text, else ''."""
    return value if isinstance(value, str) else ""


def kept_count(value: Any) -> int | None:
    """Return `value` if it is a count of tokens that can be true, else None."""
    known = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53
    return value if known else None
