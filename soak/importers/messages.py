"""
One message in the manner of OpenAI's chat API → `Message`, with whatever its writers did to it.

Kept verbatim: text, null and empty content, text and image parts, arguments that do not parse. Mended and counted:
arguments given as an object, legacy function calls, missing ids, content of other types. Nothing raises.
"""

from typing import Any, get_args

import msgspec

from soak.facts import Message, ToolCall, encode
from soak.facts.episode import Content, Role
from soak.importers.tally import Tally

_ROLES: tuple[str, ...] = get_args(Role)
_OTHER_ROLES: dict[str, Role] = {"function": "tool", "human": "user", "ai": "assistant", "gpt": "assistant"}
_TEXT_PARTS = ("text", "input_text", "output_text")
_REASONING_PARTS = ("thinking", "reasoning")
_IMAGE_PARTS = ("image_url", "input_image", "image")
_ID_MAX = 256


class Read(msgspec.Struct, kw_only=True):
    """A message with what its file says of the reply it was: usage, time, finish reason."""

    message: Message
    completion_tokens: int | None = None
    prompt_tokens: int | None = None
    finish_reason: str | None = None
    at_s: float | None = None


def read_message(raw: Any, index: int, tally: Tally) -> Message | None:
    """Return the message in `raw`, the one with this `index` in its conversation; None, counted, if it is none."""
    if not isinstance(raw, dict):
        tally.drop("a message that is not an object")
        return None
    role = _role(raw.get("role"), tally)
    if role is None:
        return None
    content, thoughts = _content(raw.get("content"), tally)
    if role != "assistant":
        call = (text(raw.get("tool_call_id")) or text(raw.get("call_id"))) if role == "tool" else None
        return Message(role=role, content=content, name=text(raw.get("name")), tool_call_id=call)
    if not content and isinstance(raw.get("refusal"), str) and raw["refusal"]:
        content = raw["refusal"]
        tally.repair("a refusal taken as content")
    return Message(
        role=role,
        content=content,
        reasoning=_reasoning(raw) or thoughts or None,
        tool_calls=_calls(raw, index, tally),
    )


def text(value: Any, limit: int = _ID_MAX) -> str | None:
    """Return `value` if it is text that is not empty, cut to `limit` characters; else None."""
    return value[:limit] if isinstance(value, str) and value else None


def count(value: Any) -> int | None:
    """Return `value` if it is a whole number of tokens, else None."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53 else None


def _role(value: Any, tally: Tally) -> Role | None:
    for role in get_args(Role):
        if value == role:
            return role  # type: ignore[no-any-return]
    if isinstance(value, str) and value in _OTHER_ROLES:
        tally.repair(f"role {value} taken as {_OTHER_ROLES[value]}")
        return _OTHER_ROLES[value]
    tally.drop(f"a message with the role {str(value)[:40]!r}")
    return None


def _reasoning(raw: dict[str, Any]) -> str:
    return next((raw[name] for name in ("reasoning_content", "reasoning", "thinking") if text(raw.get(name))), "")


def _content(value: Any, tally: Tally) -> tuple[Content, str]:
    """Return the content and the reasoning that stood among its parts."""
    if value is None or isinstance(value, str):
        return value, ""
    if isinstance(value, list):
        return _parts(value, tally)
    tally.repair("content that is neither text nor a list, written as JSON")
    return encode(value).decode(), ""


def _parts(value: list[Any], tally: Tally) -> tuple[Content, str]:
    parts: list[dict[str, Any]] = []
    thoughts: list[str] = []
    for part in value:
        kind = part.get("type") if isinstance(part, dict) else None
        if isinstance(part, str):
            parts.append({"type": "text", "text": part})
            tally.repair("a content part given as plain text")
        elif kind in _TEXT_PARTS and isinstance(part.get("text"), str):
            parts.append({"type": "text", "text": part["text"]})
        elif kind in _REASONING_PARTS:
            thoughts.append(
                next((part[name] for name in ("thinking", "reasoning", "text") if text(part.get(name))), "")
            )
        elif kind in _IMAGE_PARTS:
            parts.append(part)
            tally.images += 1
        else:
            tally.drop(f"a content part of type {str(kind)[:40]!r}")
    if not parts:
        return "", "\n".join(thoughts)
    return parts, "\n".join(thoughts)


def _calls(raw: dict[str, Any], index: int, tally: Tally) -> tuple[ToolCall, ...]:
    """Return the tool calls of an answer; the legacy single function call becomes one."""
    given = raw.get("tool_calls")
    calls = list(given) if isinstance(given, list) else []
    if isinstance(raw.get("function_call"), dict) and not calls:
        tally.repair("a legacy function call")
        calls = [{"id": f"call_{index}_0", "function": raw["function_call"]}]
    read = (_call(call, f"call_{index}_{k}", tally) for k, call in enumerate(calls))
    return tuple(call for call in read if call is not None)


def _call(raw: Any, stand_in: str, tally: Tally) -> ToolCall | None:
    inner = raw if isinstance(raw, dict) else {}
    for wrapper in ("function", "custom"):
        if isinstance(inner.get(wrapper), dict):
            inner = inner[wrapper]
    name = text(inner.get("name"))
    if name is None:
        tally.drop("a tool call without a name")
        return None
    id_ = text(raw.get("id")) or text(raw.get("call_id"))
    if id_ is None:
        tally.repair("a tool call without an id")
    return ToolCall(id=id_ or stand_in, name=name, arguments=_arguments(inner, tally))


def _arguments(inner: dict[str, Any], tally: Tally) -> str:
    """Return the arguments as text: verbatim where they are text, whether or not it parses."""
    value = inner.get("arguments", inner.get("input"))
    if isinstance(value, str):
        return value
    if value is None:
        tally.repair("a tool call without arguments")
        return "{}"
    tally.repair("tool-call arguments given as an object")
    return encode(value).decode()
