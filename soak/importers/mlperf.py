"""
MLPerf Endpoints agentic data: flat JSON Lines, one message a row, the rows of a `conversation_id` together.

Rows have a rising `turn`, and may have `system`, `tools`, `tool_calls`, `tool_results`, `reasoning_content` and
`delay_seconds` (the pause before the row, which becomes the wait before the turn after it).
"""

from collections.abc import Iterable, Iterator
from typing import Any

from soak.facts import Episode
from soak.importers.assembly import assemble
from soak.importers.entries import CONVERSATION_BYTES_MAX, Entry, Format
from soak.importers.messages import Read, read_message
from soak.importers.reading import UnreadableError
from soak.importers.requests import tools_of
from soak.importers.tally import Tally
from soak.importers.values import embedded, listing, mapping, mappings, name_of, number, text


def recognises(value: Any) -> bool:
    """Return whether `value` is such a row."""
    return isinstance(value, dict) and {"conversation_id", "turn", "role"} <= value.keys() and "messages" not in value


def read(entries: Iterable[Entry], _name: str, tally: Tally) -> Iterator[Episode]:
    """Yield an episode for each run of rows of one conversation."""
    rows = _Rows("", tally)
    for entry in entries:
        id_ = name_of(mapping(entry.value), "conversation_id")
        if id_ is None:
            tally.drop("a row without a conversation")
            continue
        if id_ != rows.id:
            yield from rows.finish()
            rows = _Rows(id_, tally)
        rows.add(mapping(entry.value), entry)
    yield from rows.finish()


FORMAT = Format(name="mlperf-endpoints", recognises=recognises, read=read)


class _Rows:
    """The rows of one conversation, becoming messages."""

    def __init__(self, id_: str, tally: Tally) -> None:
        self.id = id_
        self._tally = tally
        self._reads: list[Read] = []
        self._tools: tuple[dict[str, Any], ...] = ()
        self._system: str | None = None
        self._clock_s = 0.0
        self._size = 0

    def add(self, row: dict[str, Any], entry: Entry) -> None:
        """Take one row; raises `UnreadableError` where the conversation is too large."""
        self._size += entry.size
        if self._size > CONVERSATION_BYTES_MAX:
            raise UnreadableError(entry.place, f"one conversation of more than {CONVERSATION_BYTES_MAX >> 20} MiB")
        self._clock_s += number(row.get("delay_seconds")) or 0.0
        self._tools = self._tools or tools_of(embedded(row.get("tools")), None, self._tally)
        system = text(row.get("system"), 1 << 30)
        if system is not None and system != self._system:
            self._system = system
            self._say({"role": "system", "content": system})
        results = mappings(embedded(row.get("tool_results")))
        for result in results:
            content = result.get("content", result.get("output"))
            self._say({"role": "tool", "tool_call_id": name_of(result, "tool_call_id", "id"), "content": content})
        if row.get("role") != "tool" or not results:
            calls = listing(embedded(row.get("tool_calls")))
            self._say({**row, "tool_calls": calls})

    def finish(self) -> Iterator[Episode]:
        """Yield the episode, if there is one."""
        if self._reads:
            episode = assemble(self._reads, id_=self.id, tools=self._tools, meta={}, tally=self._tally)
            if episode is not None:
                yield episode

    def _say(self, raw: dict[str, Any]) -> None:
        message = read_message(raw, len(self._reads), self._tally)
        if message is not None:
            self._reads.append(Read(message=message, at_s=self._clock_s))
