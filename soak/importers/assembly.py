"""
Messages read from a foreign file → an episode: results joined to their calls, tools, turns, meta.

Servers refuse a tool result without a call and a call without its result, so neither stays in a prefix: a result
whose call is unknown becomes user text, and a call that was passed over gets a result that says so. Both are counted.
"""

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from soak.facts import Episode, Message, Turn, make_episode, text_of
from soak.importers.messages import Read, text
from soak.importers.tally import Tally

MESSAGES_MAX = 20_000
NO_RESULT = "[no result was recorded for this call]"
_ID_MAX = 120


def assemble(
    reads: Sequence[Read], *, id_: str, tools: tuple[dict[str, Any], ...], meta: dict[str, Any], tally: Tally
) -> Episode | None:
    """Return the episode of one conversation; None, counted, where no model call is in it."""
    if len(reads) > MESSAGES_MAX:
        tally.drop(f"a conversation of more than {MESSAGES_MAX} messages")
        return None
    joined = _join(reads, tally)
    turns = _turns(joined)
    if not turns:
        tally.drop("a conversation without a model call")
        return None
    messages = [read.message for read in joined]
    if not tools:
        tools = infer_tools(messages)
        if tools:
            meta = {**meta, "tools_inferred": True}
            tally.note(f"no tool schemas: {len(tools)} inferred from the calls of {id_}")
    return make_episode(id_, messages, turns=turns, tools=tools, meta=meta)


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


def _join(reads: Sequence[Read], tally: Tally) -> list[Read]:
    """Return the messages with every result after its call and every call answered, except those of the last answer."""
    joined: list[Read] = []
    strays: list[Read] = []
    waiting: dict[str, str] = {}
    for read in reads:
        if read.message.role == "tool":
            message = _result(read.message, waiting, tally)
            (joined if message.role == "tool" else strays).append(msgspec.structs.replace(read, message=message))
            continue
        joined += _placeholders(waiting, tally) + strays
        strays.clear()
        message = _distinct(read.message, tally)
        waiting = {call.id: call.name for call in message.tool_calls}
        joined.append(msgspec.structs.replace(read, message=message))
    if strays or (joined and joined[-1].message.role == "tool"):
        joined += _placeholders(waiting, tally) + strays
    return joined


def _placeholders(waiting: dict[str, str], tally: Tally) -> list[Read]:
    """Return a result for each call still waiting for one."""
    if waiting:
        tally.repair("a call without a result, answered by a placeholder", len(waiting))
    return [Read(message=Message(role="tool", content=NO_RESULT, tool_call_id=id_)) for id_ in waiting]


def _result(message: Message, waiting: dict[str, str], tally: Tally) -> Message:
    """
    Return a tool result joined to the call it answers; one that answers none becomes user text.

    Such strays go after the results that do have their calls, since nothing may stand between a call and its results.
    """
    if message.tool_call_id in waiting:
        del waiting[message.tool_call_id or ""]
        return message
    by_name = next((id_ for id_, name in waiting.items() if message.name in (None, name)), None)
    if message.tool_call_id is None and by_name is not None:
        tally.repair("a result without a call id, joined to its call by place")
        del waiting[by_name]
        return msgspec.structs.replace(message, tool_call_id=by_name)
    tally.repair("a result without a call, turned into user text")
    return Message(role="user", content=f"Tool result:\n{text_of(message.content)}")


def _distinct(message: Message, tally: Tally) -> Message:
    """Return an answer whose calls have different ids."""
    seen: set[str] = set()
    calls = []
    for k, call in enumerate(message.tool_calls):
        if call.id in seen:
            tally.repair("two calls of one answer with the same id")
            call = msgspec.structs.replace(call, id=f"{call.id}_{k}")
        seen.add(call.id)
        calls.append(call)
    return msgspec.structs.replace(message, tool_calls=tuple(calls))


def _turns(reads: Sequence[Read]) -> list[Turn]:
    """Return a turn for each answer that follows something, and one without answer if the file ends before it."""
    turns: list[Turn] = []
    for i, read in enumerate(reads):
        if read.message.role == "assistant" and i:
            turns.append(
                Turn(
                    index=len(turns),
                    prefix=i - 1,
                    answer=i,
                    wait_s=_wait_s(reads, i) if turns else None,
                    completion_tokens=read.completion_tokens,
                )
            )
    if reads and reads[-1].message.role in ("user", "tool"):
        turns.append(Turn(index=len(turns), prefix=len(reads) - 1))
    return turns


def _wait_s(reads: Sequence[Read], i: int) -> float | None:
    """Return the time between the answer before message `i` and the message before it, where the file tells both."""
    end_s = reads[i - 1].at_s
    start_s = next((reads[k].at_s for k in range(i - 1, -1, -1) if reads[k].message.role == "assistant"), None)
    if start_s is None or end_s is None or not 0 <= end_s - start_s < 86_400:
        return None
    return round(end_s - start_s, 3)


def name_of(value: dict[str, Any], *keys: str) -> str | None:
    """Return the first of these entries that can name a conversation: text or a whole number."""
    for key in keys:
        found = value.get(key)
        if isinstance(found, int) and not isinstance(found, bool):
            return str(found)
        if text(found):
            return str(found)
    return None
