"""
Claude Code sessions: JSON Lines, an internal format without a specification (seen 2.1.11 to 2.1.16 and later).

Only `user` and `assistant` lines are messages. One reply of the model is several lines with one `message.id`, one a
block; parallel calls hang off each other, so replies are put together by id, not by `parentUuid`. A resumed session
writes what was before once more, with new uuids but the same message and tool ids, and keeps only one call of each
parallel group: what is known already is not taken again, so the session as it was first sent stays. User messages
on a branch that was left before any answer are dropped; where answers were rolled back, a new context begins. Lines
of side agents (`isSidechain`) are conversations of their own. `<synthetic>` replies were written by the program, not by
a model. A compaction's summary replaces what stood before it. System prompt and tools are not in the file.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from soak.facts import Episode, Message, encode
from soak.importers.assembly import Thread
from soak.importers.entries import Entry, Format, whole
from soak.importers.messages import Read, merged, read_message
from soak.importers.tally import Tally
from soak.importers.values import TEXT_MAX, as_json, count, instant, mapping, mappings, name_of, text

_COPY = "text written again by a resumed session"
_LEFT = "a user message on a branch that was left"
_SYNTHETIC = "a reply the program wrote, not a model"
_STEPS_MAX = 2_000_000
_WALK_MAX = 20_000


def recognises(value: Any) -> bool:
    """Return whether `value` is a line of such a session."""
    if not isinstance(value, dict) or "role" in value or not isinstance(value.get("type"), str):
        return False
    return bool({"sessionId", "parentUuid", "leafUuid"} & value.keys()) or (
        value["type"] in ("file-history-snapshot", "summary") and "payload" not in value
    )


def read(entries: Iterable[Entry], name: str, tally: Tally) -> Iterator[Episode]:
    """Yield the episode of a session, and one for each side agent whose lines are in its file."""
    sessions: dict[str, _Session] = {}
    chains: dict[str, str] = {}
    for entry in whole(entries):
        line = entry.value
        if not isinstance(line, dict):
            tally.drop("a line that is not an object")
            continue
        key = _agent(line, chains)
        if key not in sessions:
            sessions[key] = _Session(tally)
        sessions[key].add(line)
    if sessions:
        tally.note("the file has neither system prompt nor tool schemas")
    for key, session in sessions.items():
        yield from session.finish(name, key)


FORMAT = Format(name="claude-code", recognises=recognises, read=read)


def _agent(line: dict[str, Any], chains: dict[str, str]) -> str:
    """Return which conversation of the file a line belongs to: '' for the session, else the side agent's id."""
    if not line.get("isSidechain"):
        return ""
    own, parent = line.get("uuid"), line.get("parentUuid")
    found = name_of(line, "agentId") or (chains.get(parent) if isinstance(parent, str) else None)
    found = found or (own if isinstance(own, str) and own else "sidechain")
    if isinstance(own, str):
        chains[own] = found
    return found


class _Item:
    """A message of the conversation as it grows; `key` is its reply's id or its line's uuid."""

    __slots__ = ("key", "read")

    def __init__(self, key: str, read: Read) -> None:
        self.key = key
        self.read = read

    @property
    def role(self) -> str:
        """Return who speaks."""
        return self.read.message.role


class _Session:
    """The lines of one conversation, becoming messages."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._thread = Thread()
        self._line: list[_Item] = []
        self._places: dict[str, int] = {}
        self._newest = -1
        self._chain = _Chain()
        self._replies: dict[str, _Item] = {}
        self._blocks: set[bytes] = set()
        self._said: dict[str, str] = {}
        self._copies: set[str] = set()
        self._meta: dict[str, Any] = {}
        self._id: str | None = None

    def add(self, line: dict[str, Any]) -> None:
        """Take one line."""
        uuid = text(line.get("uuid")) or ""
        compact = bool(line.get("isCompactSummary"))
        self._chain.add(uuid, None if compact else line.get("parentUuid") or line.get("logicalParentUuid"))
        self._id = self._id or name_of(line, "sessionId")
        message = line.get("message")
        kind = line.get("type")
        if kind == "assistant" and isinstance(message, dict):
            self._reply(line, message, uuid)
        elif kind == "user" and isinstance(message, dict):
            if compact:
                self._compact()
            self._user(line, message, uuid)
        else:
            self._tally.drop(f"a line that is no message ({str(kind)[:40]})")

    def finish(self, name: str, agent: str) -> Iterator[Episode]:
        """Yield the episode, if there is one."""
        self._thread.extend([item.read for item in self._line])
        own = self._id or name
        if agent:
            self._meta["side_agent"] = agent
            own = f"{own}.{agent}"
        episode = self._thread.finish(id_=own, tools=(), meta=self._meta, tally=self._tally)
        if episode is not None:
            yield episode

    def _reply(self, line: dict[str, Any], message: dict[str, Any], uuid: str) -> None:
        """Take one line of a reply: new blocks go to the reply of its id."""
        if message.get("model") == "<synthetic>":
            self._tally.drop(_SYNTHETIC)
            return
        key = text(message.get("id")) or uuid
        self._chain.name(uuid, key)
        blocks = []
        for block in _blocks(message.get("content")):
            if self._is_new(key, block):
                blocks.append(block)
            elif block.get("type") == "text":
                self._tally.drop_text(_COPY, len(text(block.get("text"), TEXT_MAX) or ""))
        known = self._replies.get(key)
        if not blocks and known is not None:
            self._copies.add(uuid)
            return
        part = read_message(_answer(blocks), len(self._line), self._tally)
        if part is None:
            return
        if known is None:
            self._begin(key, part, line, message, uuid)
        else:
            known.read.message = merged(known.read.message, part)

    def _begin(self, key: str, part: Message, line: dict[str, Any], message: dict[str, Any], uuid: str) -> None:
        """Begin a new reply at the end of what it was an answer to."""
        self._settle(uuid, key)
        usage = mapping(message.get("usage"))
        caches = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
        read = Read(
            message=part,
            finish_reason=text(message.get("stop_reason")),
            prompt_tokens=sum(count(usage.get(name)) or 0 for name in caches) or None,
            at_s=instant(line.get("timestamp")),
        )
        self._newest = self._places[key] = len(self._line)
        self._line.append(_Item(key, read))
        self._replies[key] = self._line[-1]
        model, version = text(message.get("model")), text(line.get("version"))
        if model is not None:
            self._meta.setdefault("request", {}).setdefault("model", model)
        if version is not None:
            self._meta.setdefault("agent_version", version)

    def _is_new(self, key: str, block: dict[str, Any]) -> bool:
        """Return whether a block was not seen yet: a call or result by its id, others by their reply and content."""
        own = name_of(block, "id", "tool_use_id")
        mark = encode([block.get("type"), own] if own else [key, block])
        if mark in self._blocks:
            return False
        self._blocks.add(mark)
        return True

    def _user(self, line: dict[str, Any], message: dict[str, Any], uuid: str) -> None:
        """Take a user line: results of calls, and what else was said."""
        at_s = instant(line.get("timestamp"))
        blocks = _blocks(message.get("content"))
        results = [block for block in blocks if block.get("type") == "tool_result"]
        for block in results:
            if self._is_new("", block):
                raw = {"role": "tool", "tool_call_id": block.get("tool_use_id"), "content": block.get("content")}
                self._say(raw, uuid, at_s)
            else:
                self._copies.add(uuid)
        said = [block for block in blocks if block.get("type") != "tool_result"]
        if not said and results:
            return
        raw = {"role": "user", "content": said if isinstance(message.get("content"), list) else message.get("content")}
        if self._is_copy(said, uuid):
            self._copies.add(uuid)
            dropped = read_message(raw, len(self._line), self._tally)
            self._tally.drop(_COPY, dropped)
            return
        self._remember(said, uuid)
        self._say(raw, uuid, at_s)

    def _say(self, raw: dict[str, Any], uuid: str, at_s: float | None) -> None:
        message = read_message(raw, len(self._line), self._tally)
        if message is not None:
            self._line.append(_Item(uuid, Read(message=message, at_s=at_s)))
            self._chain.name(uuid, uuid)

    def _is_copy(self, said: list[dict[str, Any]], uuid: str) -> bool:
        """Return whether a user line was written before: the same words, at a root or after another copy."""
        words = [_words(block) for block in said]
        if not words or any(word not in self._said for word in words):
            return False
        parent = self._chain.parent(uuid)
        if parent is not None and parent not in self._copies:
            return False
        self._chain.name(uuid, self._said[words[0]])
        return bool(self._line) and (parent is not None or bool(self._replies))

    def _remember(self, said: list[dict[str, Any]], uuid: str) -> None:
        for block in said:
            self._said.setdefault(_words(block), uuid)

    def _compact(self) -> None:
        """Begin a new context: a summary stands in place of what was before."""
        self._thread.extend([item.read for item in self._line], ends=False)
        self._tally.note("the history was compacted: what follows was asked without what stood before")
        self._line = []
        self._places = {}
        self._newest = -1

    def _settle(self, uuid: str, key: str) -> None:
        """Bring the conversation to the point that the reply at `uuid` answers."""
        seen, last = self._chain.before(uuid, key, self._places)
        if last is None:
            return
        place = self._places.get(last, -1)
        newest = self._newest
        if place < newest:
            self._roll_back(place, newest, seen)
            return
        after = self._line[place + 1 :]
        for item in after:
            if item.role == "user" and item.key not in seen:
                self._tally.drop(_LEFT, item.read.message)
        self._line[place + 1 :] = [item for item in after if item.role != "user" or item.key in seen]

    def _roll_back(self, place: int, newest: int, seen: set[str]) -> None:
        """Begin a new context after message `place`: the answers after it, up to `newest`, were taken back."""
        calls = {call.id for call in self._line[place].read.message.tool_calls} if place >= 0 else set()
        later = [item for item in self._line[place + 1 :] if _belongs(item, seen, calls)]
        left = [item for item in self._line[newest + 1 :] if item not in later]
        self._tally.note("answers were rolled back: what follows was asked without them")
        for item in left:
            if item.role == "user":
                self._tally.drop(_LEFT, item.read.message)
        told = [*self._line[: newest + 1], *(item for item in left if item.role != "user")]
        self._thread.extend([item.read for item in told], ends=False)
        self._line[place + 1 :] = later
        self._places = {key: at for key, at in self._places.items() if at <= place}
        self._newest = place


class _Chain:
    """Which line follows which, and what message each line is part of."""

    def __init__(self) -> None:
        self._parents: dict[str, Any] = {}
        self._names: dict[str, str] = {}
        self._steps = 0

    def add(self, uuid: str, parent: Any) -> None:
        """Take a line."""
        if uuid:
            self._parents[uuid] = parent

    def name(self, uuid: str, key: str) -> None:
        """Say which message a line is part of."""
        self._names[uuid] = key

    def parent(self, uuid: str) -> str | None:
        """Return the line before one."""
        found = self._parents.get(uuid)
        return found if isinstance(found, str) else None

    def before(self, uuid: str, key: str, answers: dict[str, int]) -> tuple[set[str], str | None]:
        """
        Return the messages before a line back to the nearest of `answers`, and that answer.

        The answer is "" where the chain begins without one, and None where it is broken or too long to follow.
        """
        seen: set[str] = set()
        at = self._parents.get(uuid)
        for _ in range(_WALK_MAX):
            self._steps += 1
            if at is None:
                return seen, ""
            if self._steps > _STEPS_MAX or not isinstance(at, str) or at not in self._parents:
                break
            name = self._names.get(at)
            if name is not None and name != key:
                seen.add(name)
                if name in answers:
                    return seen, name
            at = self._parents[at]
        return seen, None


def _belongs(item: _Item, seen: set[str], calls: set[str]) -> bool:
    return item.key in seen or (item.role == "tool" and item.read.message.tool_call_id in calls)


def _blocks(content: Any) -> list[dict[str, Any]]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return mappings(content)


def _words(block: dict[str, Any]) -> str:
    """Return what tells a block from others: its text, or all of it."""
    return text(block.get("text"), TEXT_MAX) or encode(block).decode()


def _answer(blocks: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the blocks of a reply in the manner of OpenAI's chat API."""
    calls = [
        {"id": block.get("id"), "name": block.get("name"), "arguments": as_json(mapping(block.get("input")))}
        for block in blocks
        if block.get("type") == "tool_use"
    ]
    others = [block for block in blocks if block.get("type") not in ("tool_use", "redacted_thinking")]
    single = len(others) == 1 and others[0].get("type") == "text"
    return {"role": "assistant", "content": others[0].get("text") if single else others or None, "tool_calls": calls}
