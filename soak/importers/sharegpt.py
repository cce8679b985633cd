"""
ShareGPT: `[{id, conversations: [{from: human|gpt|system|function_call|observation, value}]}]`, or a line each.

Conversations may begin with an answer, repeat a role or be empty. A `function_call`'s value is JSON of one call; its
`observation` is joined to it by place. vLLM's generator spec (`filetype: generate_conversations`) holds no text.
"""

from collections.abc import Iterator
from typing import Any

from soak.facts import Episode
from soak.importers.assembly import assemble
from soak.importers.entries import Format, each
from soak.importers.messages import Read, read_message
from soak.importers.reading import UnreadableError
from soak.importers.requests import tools_of
from soak.importers.tally import Tally
from soak.importers.values import embedded, listing, mapping, mappings, name_of

_ROLES = {
    "human": "user",
    "user": "user",
    "gpt": "assistant",
    "chatgpt": "assistant",
    "bing": "assistant",
    "bard": "assistant",
    "assistant": "assistant",
    "system": "system",
    "observation": "tool",
    "tool": "tool",
}


def recognises(value: Any) -> bool:
    """Return whether `value` is a conversation, a list of them, or vLLM's spec of some."""
    if isinstance(value, dict) and value.get("filetype") == "generate_conversations":
        return True
    items = value[:20] if isinstance(value, list) else [value]
    return any(any("from" in one for one in mappings(mapping(item).get("conversations"))[:1]) for item in items)


def _conversations(value: Any, name: str, tally: Tally) -> Iterator[Episode]:
    if isinstance(value, dict) and value.get("filetype") == "generate_conversations":
        raise UnreadableError(name, "it is a spec to generate conversations from, and holds none")
    items = value if isinstance(value, list) else [value]
    for i, item in enumerate(items):
        said = listing(mapping(item).get("conversations"))
        if not said:
            tally.drop("an entry that is no conversation, or an empty one")
            continue
        reads = [read for k, one in enumerate(said) for read in _read(one, k, tally)]
        id_ = name_of(item, "id") or (name if len(items) == 1 else f"{name}-{i + 1:03d}")
        tools = tools_of(embedded(item.get("tools")), None, tally)
        episode = assemble(reads, id_=id_, tools=tools, meta={}, tally=tally)
        if episode is not None:
            yield episode


read = each(_conversations)
FORMAT = Format(name="sharegpt", recognises=recognises, read=read)


def _read(raw: Any, index: int, tally: Tally) -> Iterator[Read]:
    item = mapping(raw)
    speaker = str(item.get("from"))
    if speaker == "function_call":
        call = mapping(embedded(item.get("value")))
        made: dict[str, Any] = {"role": "assistant", "tool_calls": [call]}
    else:
        made = {"role": _ROLES.get(speaker, speaker), "content": item.get("value")}
    message = read_message(made, index, tally)
    if message is not None:
        yield Read(message=message)
