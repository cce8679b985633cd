"""
Messages read from a foreign file → an episode: results joined to their calls, tools, turns, meta.

Servers refuse a tool result without a call and a call without its result, so neither stays in a prefix: a result
whose call is unknown becomes user text, and a call that was passed over gets a result that says so. Both are counted.

A conversation is a `Thread` of contexts, each all that a model call saw. Mostly each context extends the one before
it. Where it does not (a status line gone again, old results left out, a summary in place of what was before), the
messages form a tree, and what two contexts have in common is stored once.
"""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec

from soak.facts import Episode, Message, Turn, characters, encode, make_episode, text_of
from soak.importers.messages import Read
from soak.importers.tally import Tally

MESSAGES_MAX = 20_000
NODES_MAX = 60_000
WORK_MAX = 10_000_000
NO_RESULT = "[no result was recorded for this call]"
STRAY = "Tool result:\n"
TAIL_MAX = 3
_ID_MAX = 120
_BY_PLACE = "a result without a call id, joined to its call by place"
_ORPHAN = "a result without a call, turned into user text"
_PASSED_OVER = "a call without a result, answered by a placeholder"
_SAME_ID = "two calls of one answer with the same id"


def assemble(
    reads: Sequence[Read], *, id_: str, tools: tuple[dict[str, Any], ...], meta: dict[str, Any], tally: Tally
) -> Episode | None:
    """Return the episode of one conversation; None, counted, where no model call is in it."""
    thread = Thread()
    thread.extend(reads)
    return thread.finish(id_=id_, tools=tools, meta=meta, tally=tally)


class _Node:
    """A message of the tree in the making; it stays as it was when added, though its read may grow later."""

    __slots__ = ("again", "message", "parent", "read", "tail")

    def __init__(self, read: Read, parent: int | None, again: bool) -> None:
        self.read = read
        self.message = read.message
        self.parent = parent
        self.again = again
        self.tail = False


class _Call:
    """A turn in the making."""

    __slots__ = ("answer", "prefix", "read", "wait_s")

    def __init__(self, prefix: int, answer: int | None, read: Read | None, wait_s: float | None) -> None:
        self.prefix = prefix
        self.answer = answer
        self.read = read
        self.wait_s = wait_s


class Thread:
    """One conversation, context by context."""

    def __init__(self) -> None:
        self._nodes: list[_Node] = []
        self._calls: list[_Call] = []
        self._path: list[int] = []
        self._open: _Call | None = None
        self._tail = 0
        self._work = 0
        self._too_long = False

    @property
    def size(self) -> int:
        """Return how many messages the last context has, its answer included."""
        return len(self._path)

    def extend(
        self, reads: Sequence[Read], *, asked: Read | None = None, wait_s: float | None = None, ends: bool = True
    ) -> None:
        """
        Add a context: all messages of one request, or a whole conversation.

        Each answer in it that is new is a turn. If it ends on another message, that is a turn too whose answer is not
        known (yet), unless `ends` is False; `asked` tells the usage of that answer, `wait_s` the pause before it.
        """
        self._work += len(reads)
        if len(reads) > MESSAGES_MAX or len(self._nodes) > NODES_MAX or self._work > WORK_MAX:
            self._too_long = True
            return
        joined = _join(reads)
        shared = self._shared(joined)
        known = set() if self._left(joined, shared) else self._beyond(shared)
        before, path = len(self._path), self._path[:shared]
        for read in joined[shared:]:
            path.append(self._add(read, path, before, known))
        self._path = path
        self._ask(ends, asked, wait_s)

    def finish(
        self, *, id_: str, tools: tuple[dict[str, Any], ...], meta: dict[str, Any], tally: Tally
    ) -> Episode | None:
        """Return the episode; None, counted, where no model call is in it or it is too long to be one."""
        if self._open is not None and self._tail:
            self._mark_tail(self._path[-self._tail :])
        self._count(tally)
        reason = self._refused()
        if reason is not None:
            tally.dropped[reason] += 1
            tally.dropped_characters += sum(characters(node.message) for node in self._nodes)
            return None
        messages = [node.message for node in self._nodes]
        if not tools:
            tools = infer_tools(messages)
            if tools:
                meta = {**meta, "tools_inferred": True}
                tally.note(f"no tool schemas: {len(tools)} inferred from the calls of {id_}")
        return make_episode(
            id_,
            messages,
            parents=[node.parent for node in self._nodes],
            turns=self._turns(),
            tools=tools,
            meta={**meta, **self._answers()},
        )

    def _shared(self, joined: list[Read]) -> int:
        """Return how many messages the new context begins with that the last one began with too."""
        limit = min(len(joined), len(self._path))
        for i in range(limit):
            if self._nodes[self._path[i]].message != joined[i].message:
                return i
        return limit

    def _left(self, joined: list[Read], shared: int) -> bool:
        """Return whether the conversation goes on from before the end of the last request; mark what it left."""
        gone = self._path[shared:]
        if not gone or shared >= len(joined) or joined[shared].message.role != "assistant" or self._open is None:
            return False
        if len(gone) > TAIL_MAX or any(self._nodes[i].message.role == "assistant" for i in gone):
            return False
        self._mark_tail(gone)
        self._tail = len(gone)
        return True

    def _beyond(self, shared: int) -> set[bytes]:
        """Return the messages that the last context has and the new one may have again in another place."""
        return {encode(self._nodes[i].message) for i in self._path[shared:]}

    def _mark_tail(self, indices: Sequence[int]) -> None:
        for i in indices:
            self._nodes[i].tail = True

    def _add(self, read: Read, path: list[int], before: int, known: set[bytes]) -> int:
        """Add one message after `path` and the turn that it answers; return its index. `before`: messages last time."""
        again = bool(known) and encode(read.message) in known
        parent = path[-1] if path else None
        if read.message.role == "assistant" and not again and parent is not None:
            again = self._take(read, parent, len(path), before)
        self._nodes.append(_Node(read, parent, again))
        return len(self._nodes) - 1

    def _take(self, read: Read, parent: int, place: int, before: int) -> bool:
        """Make an answer that is about to be added the answer of its turn; return whether it was added elsewhere."""
        index = len(self._nodes)
        asked = self._open
        if asked is None:
            if read.is_call:
                self._calls.append(_Call(parent, index, read, self._wait_s(parent)))
            return False
        if self._is_before(parent, asked.prefix):
            self._answer(asked, index, read)
            return False
        if before - TAIL_MAX <= place <= before:
            self._nodes.append(_Node(read, asked.prefix, False))
            self._answer(asked, index, read)
            return True
        self._open = None
        return self._take(read, parent, place, before)

    def _is_before(self, index: int, end: int) -> bool:
        """Return whether message `index` is `end` or one of the few messages before it."""
        at: int | None = end
        for _ in range(TAIL_MAX + 1):
            if at is None or at == index:
                break
            at = self._nodes[at].parent
        return at == index

    def _answer(self, call: _Call, index: int, read: Read) -> None:
        """Give the open turn its answer, and the answer what the request knew of it."""
        known = call.read
        if known is not None:
            read.completion_tokens = read.completion_tokens or known.completion_tokens
            read.prompt_tokens = read.prompt_tokens or known.prompt_tokens
            read.finish_reason = read.finish_reason or known.finish_reason
            read.at_s = read.at_s or known.at_s
        call.answer, call.read = index, read
        self._open = None

    def _ask(self, ends: bool, asked: Read | None, wait_s: float | None) -> None:
        """Open a turn at the end of the context, unless it ends on an answer or nothing was asked."""
        self._open = None
        if not ends or not self._path or self._nodes[self._path[-1]].message.role not in ("user", "tool"):
            return
        if wait_s is None:
            wait_s = self._wait_s(self._path[-1])
        self._open = _Call(self._path[-1], None, asked, wait_s)
        self._calls.append(self._open)

    def _wait_s(self, end: int) -> float | None:
        """Return the time between the answer before message `end` and that message, where the file tells both."""
        end_s = self._nodes[end].read.at_s
        at: int | None = end
        while end_s is not None and at is not None:
            read = self._nodes[at].read
            if read.message.role == "assistant":
                start_s = read.at_s
                return round(end_s - start_s, 3) if start_s is not None and 0 <= end_s - start_s < 86_400 else None
            at = self._nodes[at].parent
        return None

    def _refused(self) -> str | None:
        if self._too_long or len(self._nodes) > NODES_MAX:
            return f"a conversation of more than {MESSAGES_MAX} messages"
        return None if self._calls else "a conversation without a model call"

    def _count(self, tally: Tally) -> None:
        """Count what was found, each message once, and what was mended and added."""
        for node in self._nodes:
            message = node.message
            for reason in node.read.repairs:
                tally.repair(reason)
            if node.again or node.read.invented:
                tally.added_characters += characters(message)
            elif node.tail:
                tally.tail(message)
            else:
                stood = node.read.stood or message
                tally.find(stood)
                tally.added_characters += characters(message) - characters(stood)

    def _turns(self) -> list[Turn]:
        return [
            Turn(
                index=k,
                prefix=call.prefix,
                answer=call.answer,
                wait_s=call.wait_s if k else None,
                completion_tokens=None if call.read is None else call.read.completion_tokens,
            )
            for k, call in enumerate(self._calls)
        ]

    def _answers(self) -> dict[str, Any]:
        """Return what is known of the answers beside their text: one entry a turn."""
        reads = [call.read for call in self._calls]
        told: dict[str, list[Any]] = {
            "finish_reasons": [None if read is None else read.finish_reason for read in reads],
            "prompt_tokens": [None if read is None else read.prompt_tokens for read in reads],
        }
        return {name: values for name, values in told.items() if any(value is not None for value in values)}


def safe_id(name: str) -> str:
    """Return an id fit for a turn key and an HTTP header, as near to `name` as can be."""
    return re.sub(r"[^A-Za-z0-9_.@+=-]+", "-", name).strip(".@+=-")[:_ID_MAX] or "episode"


def infer_tools(messages: Sequence[Message]) -> tuple[dict[str, Any], ...]:
    """Return a permissive schema for each tool called in `messages`: its name and the arguments seen."""
    seen: dict[str, dict[str, Any]] = {}
    for message in messages:
        for call in message.tool_calls:
            seen.setdefault(call.name, {}).update(_properties(call.arguments))
    return tuple(
        {
            "type": "function",
            "function": {"name": name, "parameters": {"type": "object", "properties": properties}},
        }
        for name, properties in seen.items()
    )


def _properties(arguments: str) -> dict[str, Any]:
    """Return the type of each argument in a JSON object; nothing where the text is none."""
    try:
        value = msgspec.json.decode(arguments.encode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return {}
    kinds = {str: "string", bool: "boolean", int: "integer", float: "number", list: "array", dict: "object"}
    if not isinstance(value, dict):
        return {}
    return {name: {"type": kinds[type(item)]} if type(item) in kinds else {} for name, item in value.items()}


def _join(reads: Sequence[Read]) -> list[Read]:
    """Return the messages with every result after its call and every call answered, except those of the last answer."""
    joined: list[Read] = []
    strays: list[Read] = []
    waiting: dict[str, str] = {}
    for read in reads:
        message = read.message
        if message.role == "tool":
            result = _result(read, waiting)
            (joined if result.message.role == "tool" else strays).append(result)
            continue
        if waiting or strays:
            joined += _placeholders(waiting) + strays
            strays = []
        waiting = {}
        if message.tool_calls:
            read = _distinct(read)
            waiting = {call.id: call.name for call in read.message.tool_calls}
        joined.append(read)
    if strays or (joined and joined[-1].message.role == "tool"):
        joined += _placeholders(waiting) + strays
    return joined


def _placeholders(waiting: dict[str, str]) -> list[Read]:
    """Return a result for each call still waiting for one."""
    results = [Message(role="tool", content=NO_RESULT, tool_call_id=id_) for id_ in waiting]
    return [Read(message=result, invented=True, repairs=(_PASSED_OVER,)) for result in results]


def _result(read: Read, waiting: dict[str, str]) -> Read:
    """
    Return a tool result joined to the call it answers; one that answers none becomes user text.

    Such strays go after the results that do have their calls, since nothing may stand between a call and its results.
    """
    message = read.message
    if message.tool_call_id in waiting:
        del waiting[message.tool_call_id or ""]
        return read
    by_name = next((id_ for id_, name in waiting.items() if message.name in (None, name)), None)
    if message.tool_call_id is None and by_name is not None:
        del waiting[by_name]
        mended = msgspec.structs.replace(message, tool_call_id=by_name)
        return msgspec.structs.replace(read, message=mended, repairs=(*read.repairs, _BY_PLACE))
    stray = Message(role="user", content=STRAY + text_of(message.content))
    return msgspec.structs.replace(read, message=stray, stood=message, repairs=(*read.repairs, _ORPHAN))


def _distinct(read: Read) -> Read:
    """Return an answer whose calls have different ids."""
    numbers = Counter(call.id for call in read.message.tool_calls)
    if len(numbers) == len(read.message.tool_calls):
        return read
    seen: set[str] = set()
    calls = []
    repairs = list(read.repairs)
    for k, call in enumerate(read.message.tool_calls):
        if call.id in seen:
            repairs.append(_SAME_ID)
            call = msgspec.structs.replace(call, id=f"{call.id}_{k}")
        seen.add(call.id)
        calls.append(call)
    message = msgspec.structs.replace(read.message, tool_calls=tuple(calls))
    return msgspec.structs.replace(read, message=message, repairs=tuple(repairs))
