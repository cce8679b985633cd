"""
Tool calls that a model without a tool template writes into its text (tool mode `text`).

A call is `<tool_call>{"name": …, "arguments": …}</tool_call>`, the closing tag may be missing. Fenced code, code spans
and think blocks hold no calls: there the tag is only spoken of; nor do the strings of another call.
"""

import json
from typing import Any, NamedTuple

from soak.classify.markup import next_said
from soak.facts import Finding, ToolCall

_MAX_CHARS = 400_000
_MAX_CALLS = 64
_OPEN, _CLOSE = "<tool_call>", "</tool_call>"
_EXCERPT_CHARS = 200
_JSON = json.JSONDecoder()


class TextCall(NamedTuple):
    """One call block: the call, or None where nothing can be run; its text; whether it was ended by a tag."""

    call: ToolCall | None
    block: str
    ended: bool


def text_calls(content: str) -> tuple[TextCall, ...]:
    """Return the call blocks in the first 400,000 characters of `content`, at most 64, in order; `id` is `text-N`."""
    if _OPEN not in content:
        return ()
    text = content[:_MAX_CHARS]
    found: list[TextCall] = []
    at = next_said(text, _OPEN, 0)
    while at >= 0 and len(found) < _MAX_CALLS:
        call, end = _block(text, at + len(_OPEN), len(found) + 1)
        found.append(call)
        at = next_said(text, _OPEN, end)
    return tuple(found)


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


def _block(text: str, begin: int, number: int) -> tuple[TextCall, int]:
    """Return the block that begins there, and where to look on. No tag in a string of its JSON ends it."""
    body = text[begin:].lstrip()
    begin = len(text) - len(body)
    try:
        value, length = _JSON.raw_decode(body)
    except (ValueError, RecursionError):
        value, length = None, 0
    ends = [at for at in (text.find(tag, begin + length) for tag in (_CLOSE, _OPEN)) if at >= 0]
    end = min(ends, default=len(text))
    return TextCall(_call(value, number), text[begin:end].rstrip(), bool(ends)), end


def _call(value: Any, number: int) -> ToolCall | None:
    if not isinstance(value, dict) or not isinstance(value.get("name"), str) or not value["name"]:
        return None
    return ToolCall(id=f"text-{number}", name=value["name"], arguments=_arguments(value))


def _arguments(value: dict[str, Any]) -> str:
    arguments = value.get("arguments", value.get("parameters"))
    if arguments is None:
        return "{}"
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
