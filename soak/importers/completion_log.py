"""
OpenHands completion logs (`log_completions`): one JSON file a request, the whole history and the response in each.

The best there is: exact prompts. With mocked tool calling `raw_messages` and `raw_response` are what was on the wire,
so they are taken. The files of a folder are merged into conversations by what their histories have in common.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from soak.facts import Episode
from soak.importers.entries import Entry, Format
from soak.importers.requests import PARAMETERS, Conversations, Request, answer_of, tools_of
from soak.importers.tally import Tally
from soak.importers.values import chosen, embedded, instant, listing, mapping, text


def recognises(value: Any) -> bool:
    """Return whether `value` is such a log."""
    return isinstance(value, dict) and "latency_sec" in value and "response" in value and _messages(value) != []


def read(entries: Iterable[Entry], _name: str, tally: Tally) -> Iterator[Episode]:
    """Yield an episode for each conversation among the requests."""
    conversations = Conversations(tally)
    for entry in entries:
        value = mapping(entry.value)
        messages = _messages(value)
        if not messages:
            tally.drop("an entry that is no request")
            continue
        yield from conversations.add(_request(value, messages, entry, tally))
    yield from conversations.finish()


FORMAT = Format(name="openhands-completions", recognises=recognises, read=read, per_folder=True)


def _messages(value: dict[str, Any]) -> list[Any]:
    return listing(embedded(value.get("raw_messages"))) or listing(embedded(value.get("messages")))


def _request(value: dict[str, Any], messages: list[Any], entry: Entry, tally: Tally) -> Request:
    mocked = bool(listing(embedded(value.get("raw_messages"))))
    response = mapping(value.get("raw_response")) if mocked else {}
    answer, asked = answer_of(response or mapping(value.get("response")))
    kwargs = mapping(value.get("kwargs"))
    model = text(mapping(value.get("response")).get("model"))
    request = {**({"model": model} if model else {}), **chosen(kwargs, *PARAMETERS)}
    if asked is not None:
        asked.at_s = instant(value.get("timestamp"))
    return Request(
        messages=messages,
        answer=answer,
        asked=asked,
        tools=() if mocked else tools_of(value.get("tools") or kwargs.get("tools"), None, tally),
        meta={"request": request} if request else {},
        id=entry.name,
        size=entry.size,
    )
