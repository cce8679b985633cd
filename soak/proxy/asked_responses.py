"""
Requests of OpenAI's Responses API → messages and tools of a chat, as a server that has chat templates makes them.

`instructions` are a system message. Reasoning, text and calls that follow one another are one answer. What has no place
in a chat (what a tool of the server's own did, files) is kept as a content part that is only its type. A history that
the server keeps is taken from the answers that were heard (`previous_response_id`), or the request cannot be judged.
"""

from typing import Any

from soak.facts import Message, ToolCall
from soak.importers.messages import content_of, read_message
from soak.importers.requests import tools_of
from soak.importers.response_items import OUTPUT_ITEMS, output_of
from soak.importers.tally import Tally
from soak.importers.values import mapping, mappings, text
from soak.proxy.heard_responses import OWN_CALLS, call_in, reasoning_of
from soak.proxy.plain import with_content
from soak.proxy.unreadable import UnreadableAskError

_OUTPUTS = (*OUTPUT_ITEMS, "shell_call_output", "apply_patch_call_output", "computer_call_output")
_INPUT = {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}
_ELSEWHERE = ("conversation", "prompt")
_OWN_TOOLS = {name: name for name, _ in OWN_CALLS.values()} | {"computer_use_preview": "computer"}


def instructions_in(value: dict[str, Any]) -> list[Message]:
    """Return the message that stands before all others, and is not carried on to the next response."""
    given = value.get("instructions")
    return [Message(role="system", content=given)] if isinstance(given, str) and given else []


def messages_in(value: dict[str, Any], tally: Tally, most: int) -> list[Message]:
    """Return the messages in `input`; raises `UnreadableAskError` where there are none, or more elsewhere."""
    if value.get("background"):
        raise UnreadableAskError("its answer is fetched later (background)")
    for name in _ELSEWHERE:
        if value.get(name):
            raise UnreadableAskError(f"part of what the model sees is kept by the server ({name})")
    given = value.get("input")
    if isinstance(given, str):
        return [Message(role="user", content=given)]
    if not isinstance(given, list):
        raise UnreadableAskError("the body has no input")
    if len(given) > most:
        raise UnreadableAskError(f"the body has more than {most} items")
    items = _Items(tally)
    for item in given:
        items.add(item)
    return items.finish()


def tools_in(value: dict[str, Any], tally: Tally) -> tuple[dict[str, Any], ...]:
    """Return the tools that the client is to run, as a chat has them; a custom tool is a function of one `input`."""
    tools: list[Any] = []
    for tool in mappings(value.get("tools")):
        inner = mappings(tool.get("tools")) if tool.get("type") == "namespace" else [tool]
        tools += [_tool(one, tally) for one in inner]
    return tools_of([tool for tool in tools if tool is not None], None, tally)


def _tool(tool: dict[str, Any], tally: Tally) -> dict[str, Any] | None:
    kind = tool.get("type")
    if kind == "function":
        return tool
    if kind == "custom":
        return {"type": "function", "name": tool.get("name"), "parameters": _INPUT} | (
            {"description": tool["description"]} if text(tool.get("description"), 1) else {}
        )
    if isinstance(kind, str) and kind in _OWN_TOOLS:
        return {"type": "function", "name": _OWN_TOOLS[kind]}
    tally.drop(f"a tool that the server runs ({str(kind)[:40]})")
    return None


class _Items:
    """Items, becoming messages."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._messages: list[Message] = []
        self._parts: list[Any] = []
        self._thoughts: list[str] = []
        self._calls: list[ToolCall] = []

    def add(self, item: Any) -> None:
        """Take one item."""
        given = mapping(item)
        kind = given.get("type") or ("message" if "role" in given else None)
        if kind == "item_reference":
            raise UnreadableAskError("it refers to an item that the server keeps")
        if kind == "message" and given.get("role") == "assistant":
            content = given.get("content")
            self._parts += content if isinstance(content, list) else [{"type": "text", "text": content or ""}]
        elif kind == "reasoning":
            self._reason(given)
        elif kind == "message":
            self._say({"role": given.get("role"), "content": given.get("content")})
        elif kind in _OUTPUTS:
            self._say({"role": "tool", "tool_call_id": given.get("call_id"), "content": output_of(given.get("output"))})
        else:
            self._act(given, kind)

    def finish(self) -> list[Message]:
        """Return the messages."""
        self._flush()
        if not self._messages:
            raise UnreadableAskError("none of its items can be read")
        return self._messages

    def _reason(self, item: dict[str, Any]) -> None:
        thoughts = [thought for thought in reasoning_of(item) if thought]
        self._thoughts += thoughts
        if not thoughts and item.get("encrypted_content"):
            self._tally.drop("encrypted reasoning")

    def _act(self, item: dict[str, Any], kind: Any) -> None:
        """Take a call; what a tool of the server's own did is kept as a part of the answer that is only its type."""
        call = call_in(item)
        if call is None:
            self._parts.append({"type": str(kind)[:40]})
            return
        name, arguments = call
        id_ = text(item.get("call_id")) or text(item.get("id")) or f"call_{len(self._messages)}_{len(self._calls)}"
        self._calls.append(ToolCall(id=id_, name=name, arguments=arguments))

    def _say(self, raw: dict[str, Any]) -> None:
        """Take a message that is not the model's."""
        self._flush()
        content, _ = content_of(raw.pop("content"), self._tally, marked=True)
        message = read_message({**raw, "content": None}, len(self._messages), self._tally)
        if message is not None:
            self._messages.append(with_content(message, content))

    def _flush(self) -> None:
        """End the answer that was growing, if one was."""
        if not (self._parts or self._thoughts or self._calls):
            return
        parts = [_refused(part) for part in self._parts]
        content, _ = content_of(parts, self._tally, marked=True) if parts else (None, "")
        answer = Message(role="assistant", reasoning="\n".join(self._thoughts) or None, tool_calls=tuple(self._calls))
        self._messages.append(with_content(answer, content))
        self._parts, self._thoughts, self._calls = [], [], []


def _refused(part: Any) -> Any:
    """Return a refusal, which has its text in a field of its own, as text."""
    refusal = mapping(part).get("refusal")
    return {"type": "text", "text": refusal} if isinstance(refusal, str) else part
