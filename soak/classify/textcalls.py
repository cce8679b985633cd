"""Tool calls that a model without a tool template writes into its text (tool mode `text`)."""

import json
import re
from typing import Any

from soak.classify.markup import without_thinking
from soak.facts import ToolCall

_MAX_CHARS = 400_000
_MAX_CALLS = 64
_CALL = re.compile(r"<tool_call>\s*(.*?)\s*(?:</tool_call>|(?=<tool_call>)|\Z)", re.DOTALL)


def calls_in_text(content: str) -> tuple[ToolCall, ...]:
    """
    Return the calls written as `<tool_call>{"name": …, "arguments": …}</tool_call>`, at most 64, in order.

    What does not parse is no call, for nothing could be run; neither is a call inside a think block. A closing tag may
    be missing. `id` is `text-N`.
    """
    if "<tool_call>" not in content:
        return ()
    said, _ = without_thinking(content[:_MAX_CHARS])
    found = (
        _read(block.group(1), number) for number, block in zip(range(_MAX_CALLS), _CALL.finditer(said), strict=False)
    )
    return tuple(call for call in found if call is not None)


def _read(block: str, number: int) -> ToolCall | None:
    try:
        value, _ = json.JSONDecoder().raw_decode(block)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict) or not isinstance(value.get("name"), str) or not value["name"]:
        return None
    return ToolCall(id=f"text-{number}", name=value["name"], arguments=_arguments(value))


def _arguments(value: dict[str, Any]) -> str:
    arguments = value.get("arguments", value.get("parameters", {}))
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
