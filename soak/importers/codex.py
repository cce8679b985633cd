"""
Codex rollouts: JSON Lines of `{timestamp, type, payload}`, or of bare items in the oldest files.

Only `response_item` lines are messages: `event_msg` lines say everything again, but for `token_count`, which tells the
usage of one answer and where it ends. Text and the calls after it are one answer. The system prompt is
`session_meta`'s `base_instructions`. A `compacted` line begins a new context. Reasoning is encrypted: dropped.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from soak.facts import Episode, Message
from soak.importers.assembly import Thread
from soak.importers.entries import Entry, Format, whole
from soak.importers.messages import Read, merged, read_message
from soak.importers.response_items import CALL_ITEMS, OUTPUT_ITEMS, call_of, output_of
from soak.importers.tally import Tally
from soak.importers.values import TEXT_MAX, count, instant, listing, mapping, mappings, name_of, text

_ITEMS = ("message", "reasoning", *CALL_ITEMS, *OUTPUT_ITEMS)


def recognises(value: Any) -> bool:
    """Return whether `value` is the first line of a rollout."""
    if not isinstance(value, dict):
        return False
    if value.get("type") in ("session_meta", "response_item", "turn_context") and isinstance(
        value.get("payload"), dict
    ):
        return True
    return "instructions" in value and "timestamp" in value and text(value.get("id")) is not None


def read(entries: Iterable[Entry], name: str, tally: Tally) -> Iterator[Episode]:
    """Yield the episode of a rollout."""
    rollout = _Rollout(tally)
    for entry in whole(entries):
        rollout.add(entry.value)
    episode = rollout.finish(name)
    if episode is not None:
        yield episode


FORMAT = Format(name="codex", recognises=recognises, read=read)


class _Rollout:
    """The lines of a rollout, becoming messages."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._thread = Thread()
        self._reads: list[Read] = []
        self._system: Read | None = None
        self._growing = False
        self._last: Read | None = None
        self._id: str | None = None
        self._meta: dict[str, Any] = {}
        self._copied_to = -1

    def add(self, line: Any) -> None:
        """Take one line."""
        if not isinstance(line, dict):
            self._tally.drop("a line that is not an object")
            return
        kind, payload = line.get("type"), line.get("payload")
        if kind in _ITEMS and payload is None:
            self._item(line, line)
        elif kind == "response_item":
            self._item(mapping(payload), line)
        elif kind == "session_meta" or (kind is None and "instructions" in line):
            self._session(mapping(payload) or line)
        elif kind == "turn_context":
            self._meta.setdefault("request", {}).update(_settings(mapping(payload)))
        elif kind == "compacted":
            self._compact(mapping(payload))
        else:
            self._event(kind, mapping(payload))

    def finish(self, name: str) -> Episode | None:
        """Return the episode."""
        self._thread.extend(self._reads)
        return self._thread.finish(id_=self._id or name, tools=(), meta=self._meta, tally=self._tally)

    def _session(self, payload: dict[str, Any]) -> None:
        """Take the session's head: its id and system prompt."""
        self._id = self._id or name_of(payload, "id", "session_id")
        version = text(payload.get("cli_version"))
        if version is not None:
            self._meta["agent_version"] = version
        start = count(payload.get("subagent_history_start_ordinal"))
        if start is not None:
            self._copied_to = start
        base = payload.get("base_instructions", payload.get("instructions"))
        prompt = text(base.get("text") if isinstance(base, dict) else base, TEXT_MAX)
        if prompt is not None and self._system is None:
            self._system = Read(message=Message(role="system", content=prompt))
            self._reads.insert(0, self._system)

    def _event(self, kind: Any, payload: dict[str, Any]) -> None:
        """Take a line that is no message: usage, which ends an answer, or what says again what items say."""
        if payload.get("type") == "token_count":
            usage = mapping(mapping(payload.get("info")).get("last_token_usage"))
            if self._last is not None:
                self._last.completion_tokens = count(usage.get("output_tokens"))
                self._last.prompt_tokens = count(usage.get("input_tokens"))
            self._growing, self._last = False, None
        elif kind != "event_msg":
            self._tally.drop(f"a line of the type {str(kind)[:40]!r}")

    def _item(self, item: dict[str, Any], line: dict[str, Any]) -> None:
        kind = item.get("type")
        ordinal = count(line.get("ordinal"))
        copied = ordinal is not None and ordinal < self._copied_to
        if kind == "message" and item.get("role") == "assistant":
            self._answer({"content": item.get("content")}, line, copied)
        elif kind in CALL_ITEMS:
            self._answer({"tool_calls": [call_of(item)]}, line, copied)
        elif kind == "message":
            self._say(item, line)
        elif kind in OUTPUT_ITEMS:
            output = {"role": "tool", "tool_call_id": item.get("call_id"), "content": output_of(item.get("output"))}
            self._say(output, line)
        elif kind == "reasoning":
            self._reason(item)
        else:
            self._tally.drop(f"an item of the type {str(kind)[:40]!r}")

    def _reason(self, item: dict[str, Any]) -> None:
        if not any(text(part.get("text"), 1) for part in mappings(item.get("summary"))):
            self._tally.drop("encrypted reasoning")

    def _say(self, raw: dict[str, Any], line: dict[str, Any]) -> None:
        self._growing = False
        message = read_message(raw, len(self._reads), self._tally)
        if message is not None:
            self._reads.append(Read(message=message, at_s=instant(line.get("timestamp"))))

    def _answer(self, part: dict[str, Any], line: dict[str, Any], copied: bool) -> None:
        """Take text or a call of an answer: of the one that is growing, or of a new one."""
        message = read_message({"role": "assistant", **part}, len(self._reads), self._tally)
        if message is None:
            return
        at_s = instant(line.get("timestamp"))
        if self._growing and self._reads:
            self._last = self._reads[-1]
            self._last.message = merged(self._last.message, message)
            self._last.at_s = at_s
            return
        self._last = Read(message=message, at_s=at_s, is_call=not copied)
        self._reads.append(self._last)
        self._growing = True

    def _compact(self, payload: dict[str, Any]) -> None:
        """Begin a new context with what a compaction left."""
        self._thread.extend(self._reads, ends=False)
        self._tally.note("the history was compacted: what follows was asked without what stood before")
        self._reads = [] if self._system is None else [self._system]
        self._growing = False
        for item in mappings(payload.get("replacement_history")):
            self._item(item, {"ordinal": -1})
        summary = text(payload.get("message"), TEXT_MAX)
        if summary is not None and not listing(payload.get("replacement_history")):
            self._reads.append(Read(message=Message(role="user", content=summary)))


def _settings(payload: dict[str, Any]) -> dict[str, Any]:
    found = {"model": text(payload.get("model")), "reasoning_effort": text(payload.get("effort"))}
    return {name: value for name, value in found.items() if value}
