"""
Tool calls that a model without a tool template writes into its text (tool mode `text`).

A call is `<tool_call>{"name": …, "arguments": …}</tool_call>`, the closing tag may be missing. Fenced code, code spans
and think blocks hold no calls: there the tag is only spoken of.
"""

import json
import re
from typing import Any, NamedTuple

from soak.classify.markup import without_code, without_thinking
from soak.facts import Finding, ToolCall

_MAX_CHARS = 400_000
_MAX_CALLS = 64
# No blanks beside the lazy part: a flood of them in a call would be tried at each of its characters again.
_CALL = re.compile(r"<tool_call>(.*?)(</tool_call>|(?=<tool_call>)|\Z)", re.DOTALL)
_EXCERPT_CHARS = 200


class TextCall(NamedTuple):
    """One call block: the call, or None where nothing can be run; its text; whether it was ended by a tag."""

    call: ToolCall | None
    block: str
    ended: bool


def text_calls(content: str) -> tuple[TextCall, ...]:
    """Return the call blocks in the first 400,000 characters of `content`, at most 64, in order; `id` is `text-N`."""
    if "<tool_call>" not in content:
        return ()
    said, _ = without_thinking(content[:_MAX_CHARS])
    bare = without_code(said)
    found = zip(range(_MAX_CALLS), _CALL.finditer(said), strict=False)
    return tuple(
        TextCall(_read(text, number), text, bool(block.group(2)) or block.end() < len(said))
        for number, block in found
        for text in (block.group(1).strip(),)
        if bare.startswith("<tool_call>", block.start())
    )


def calls_in_text(content: str) -> tuple[ToolCall, ...]:
    """Return the calls of `text_calls` that can be run."""
    return tuple(found.call for found in text_calls(content) if found.call is not None)


def broken_calls(content: str) -> list[Finding]:
    """
    Return a finding for the first ended call block that is no call.

    A block without its end is none of them: an answer that stops there is an early stop or ran into its limit.
    """
    for number, found in enumerate(text_calls(content), 1):
        if found.call is None and found.ended:
            text = f"call {number} in the text is not the JSON of a name and arguments, so nothing can be run"
            unit = found.block[:_EXCERPT_CHARS]
            return [Finding(kind="tool_call_unparsable", unit=unit, covered=1.0, confidence=0.95, text=text)]
    return []


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
