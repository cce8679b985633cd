"""
Requests of Anthropic's Messages API → messages and tools of a chat, as a server that has chat templates makes them.

`system` is a system message, each `tool_result` a tool message, `tool_use` a call, `thinking` reasoning. Claude Code
begins `system` with a line for its bill that differs in every request: it is no part of the prompt (vLLM leaves it out
too). What has no place in a chat is kept as a content part that is only its type.
"""

from typing import Any

from soak.facts import Message, ToolCall
from soak.importers.messages import content_of, read_message
from soak.importers.requests import tools_of
from soak.importers.tally import Tally
from soak.importers.values import as_json, mapping, mappings, text
from soak.proxy.plain import with_content
from soak.proxy.unreadable import UnreadableAskError

_BILL = "x-anthropic-billing-header"


def messages_in(value: dict[str, Any], tally: Tally, most: int) -> list[Message]:
    """Return all that the model sees; raises `UnreadableAskError` where there are no messages."""
    given = value.get("messages")
    if not isinstance(given, list) or not given:
        raise UnreadableAskError("the body has no messages")
    if len(given) > most:
        raise UnreadableAskError(f"the body has more than {most} messages")
    messages = _system(value.get("system"), tally)
    before = len(messages)
    for raw in given:
        messages += _read(mapping(raw), len(messages), tally)
    if len(messages) == before:
        raise UnreadableAskError("none of its messages can be read")
    return messages


def tools_in(value: dict[str, Any], tally: Tally) -> tuple[dict[str, Any], ...]:
    """Return the tools, as a chat has them."""
    return tools_of([_tool(tool) for tool in mappings(value.get("tools"))], None, tally)


def _tool(tool: dict[str, Any]) -> dict[str, Any]:
    names = {"name": "name", "description": "description", "input_schema": "parameters"}
    return {"type": "function", "function": {names[key]: tool[key] for key in names if tool.get(key) is not None}}


def _system(given: Any, tally: Tally) -> list[Message]:
    blocks = [{"type": "text", "text": given}] if isinstance(given, str) else mappings(given)
    kept = [block for block in blocks if not str(block.get("text")).startswith(_BILL)]
    content, _ = content_of(kept, tally, marked=True)
    return [with_content(Message(role="system"), content)] if content else []


def _read(raw: dict[str, Any], index: int, tally: Tally) -> list[Message]:
    """Return the messages in one of the API's: results of calls, and what else was said."""
    content = raw.get("content")
    blocks = mappings(content) if isinstance(content, list) else [{"type": "text", "text": content}]
    if raw.get("role") == "assistant":
        return [_answer(blocks, index, tally)]
    results = [_result(block, tally) for block in blocks if block.get("type") == "tool_result"]
    others = [block for block in blocks if block.get("type") != "tool_result"]
    if results and not others:
        return results
    message = read_message({"role": raw.get("role"), "content": None}, index, tally)
    said, _ = content_of(others, tally, marked=True)
    return results if message is None else [*results, with_content(message, said)]


def _result(block: dict[str, Any], tally: Tally) -> Message:
    content, _ = content_of(block.get("content"), tally, marked=True)
    return with_content(Message(role="tool", tool_call_id=text(block.get("tool_use_id"))), content)


def _answer(blocks: list[dict[str, Any]], index: int, tally: Tally) -> Message:
    calls = [block for block in blocks if block.get("type") == "tool_use"]
    content, thoughts = content_of(
        [block for block in blocks if block.get("type") not in ("tool_use", "redacted_thinking")], tally, marked=True
    )
    for block in blocks:
        if block.get("type") == "redacted_thinking":
            tally.drop("encrypted reasoning")
    answer = Message(
        role="assistant",
        reasoning=thoughts or None,
        tool_calls=tuple(_call(block, f"call_{index}_{k}") for k, block in enumerate(calls)),
    )
    return with_content(answer, content or (None if calls else ""))


def _call(block: dict[str, Any], stand_in: str) -> ToolCall:
    arguments = as_json(mapping(block.get("input")))
    return ToolCall(id=text(block.get("id")) or stand_in, name=text(block.get("name")) or "", arguments=arguments)
