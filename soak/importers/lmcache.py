"""
LMCache's agentic rows: `{timestamp, input, output, session_id}`, one request a row.

`input` is the messages of the request, or a text: then it is the whole prompt where it begins with the one before it
in its session, else what the user said next.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from soak.facts import Episode
from soak.importers.entries import Entry, Format
from soak.importers.requests import Conversations, Request, tools_of
from soak.importers.tally import Tally
from soak.importers.values import embedded, instant, listing, mapping, mappings, name_of, text

_SESSIONS_MAX = 256
_TEXT_MAX = 1 << 30


def recognises(value: Any) -> bool:
    """Return whether `value` is such a row."""
    return isinstance(value, dict) and {"input", "output", "session_id"} <= value.keys() and "messages" not in value


def read(entries: Iterable[Entry], _name: str, tally: Tally) -> Iterator[Episode]:
    """Yield an episode for each session."""
    conversations = Conversations(tally)
    spoken: dict[str, list[Any]] = {}
    for entry in entries:
        row = mapping(entry.value)
        messages = _messages(row, spoken)
        answer = _answer(row.get("output"))
        if not messages:
            tally.drop("a row without input")
            continue
        session = name_of(row, "session_id") or entry.name
        spoken[session] = messages if answer is None else [*messages, answer]
        if len(spoken) > _SESSIONS_MAX:
            spoken.pop(next(iter(spoken)))
        yield from conversations.add(
            Request(
                messages=messages,
                answer=answer,
                tools=tools_of(embedded(row.get("tools")), None, tally),
                id=session,
                key=session,
                at_s=instant(row.get("timestamp")),
                size=entry.size,
            )
        )
    yield from conversations.finish()


FORMAT = Format(name="lmcache", recognises=recognises, read=read)


def _messages(row: dict[str, Any], spoken: dict[str, list[Any]]) -> list[Any]:
    """Return the messages of a row's request."""
    given = embedded(row.get("input"))
    if isinstance(given, list):
        return mappings(given)
    said = text(row.get("input"), _TEXT_MAX)
    if said is None:
        return []
    before = spoken.get(str(row.get("session_id")), [])
    last = mapping(before[0]).get("content") if len(before) <= 2 and before else None
    if isinstance(last, str) and said.startswith(last):
        return [{"role": "user", "content": said}]
    return [*before, {"role": "user", "content": said}]


def _answer(output: Any) -> dict[str, Any] | None:
    """Return the answer of a row: a text, a message, or the last of a list of messages."""
    found = embedded(output)
    if isinstance(found, list):
        found = next(iter(reversed(listing(found))), None)
    if isinstance(found, dict) and ("content" in found or "tool_calls" in found):
        return {**found, "role": "assistant"}
    said = text(output, _TEXT_MAX)
    return None if said is None else {"role": "assistant", "content": said}
