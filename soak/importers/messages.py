"""
One message in the manner of OpenAI's chat API → `Message`, with whatever its writers did to it.

Kept verbatim: text, null and empty content, text and image parts, arguments that do not parse. Mended and counted:
arguments given as an object, legacy function calls, missing ids, content of other types. Nothing raises.
"""

from typing import Any, get_args

import msgspec

from soak.facts import Message, ToolCall
from soak.facts.episode import Content, Role
from soak.importers.tally import Tally
from soak.importers.values import as_json, mapping, text

_ROLES: dict[str, Role] = {role: role for role in get_args(Role)}
_OTHER_ROLES: dict[str, Role] = {"function": "tool", "human": "user", "ai": "assistant", "gpt": "assistant"}
_TEXT_PARTS = ("text", "input_text", "output_text", "refusal")
_REASONING_PARTS = ("thinking", "reasoning")
_IMAGE_PARTS = ("image_url", "input_image", "image")


class Read(msgspec.Struct, kw_only=True):
    """
    A message with what its file says of the reply it was: usage, time, finish reason.

    `is_call` is False for an answer that is only context: copied, written by hand, or a turn elsewhere already.
    `stood` is the message as it stood in the file where joining results changed it, `invented` marks one that stood
    nowhere, and `repairs` are the reasons.
    """

    message: Message
    completion_tokens: int | None = None
    prompt_tokens: int | None = None
    finish_reason: str | None = None
    at_s: float | None = None
    is_call: bool = True
    stood: Message | None = None
    invented: bool = False
    repairs: tuple[str, ...] = ()


def read_message(raw: Any, index: int, tally: Tally) -> Message | None:
    """Return the message in `raw`, the one with this `index` in its conversation; None, counted, if it is none."""
    if not isinstance(raw, dict):
        tally.drop("a message that is not an object")
        return None
    role = _role(raw.get("role"), tally)
    if role is None:
        return None
    content, thoughts = content_of(raw.get("content"), tally)
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


def merged(one: Message, more: Message) -> Message:
    """Return an answer that its file has in pieces, with another piece of it; texts become parts."""
    parts = [*_text_parts(one), *_text_parts(more)]
    single = parts[0]["text"] if len(parts) == 1 and set(parts[0]) == {"type", "text"} else parts
    reasoning = "\n".join(piece for piece in (one.reasoning, more.reasoning) if piece)
    return Message(
        role="assistant",
        content=single if parts else one.content,
        reasoning=reasoning or None,
        tool_calls=one.tool_calls + more.tool_calls,
    )


def _text_parts(message: Message) -> list[dict[str, Any]]:
    if isinstance(message.content, list):
        return message.content
    return [{"type": "text", "text": message.content}] if message.content else []


def _role(value: Any, tally: Tally) -> Role | None:
    if isinstance(value, str) and value in _ROLES:
        return _ROLES[value]
    if isinstance(value, str) and value in _OTHER_ROLES:
        tally.repair(f"role {value} taken as {_OTHER_ROLES[value]}")
        return _OTHER_ROLES[value]
    tally.drop(f"a message with the role {str(value)[:40]!r}")
    return None


def _reasoning(raw: dict[str, Any]) -> str:
    return next((raw[name] for name in ("reasoning_content", "reasoning", "thinking") if text(raw.get(name))), "")


def content_of(value: Any, tally: Tally, *, marked: bool = False) -> tuple[Content, str]:
    """
    Return the content and the reasoning that stood among its parts.

    `marked`: a part of a kind that is not known is kept as its bare type, to show that something stood there.
    """
    if value is None or isinstance(value, str):
        return value, ""
    if isinstance(value, list):
        return _parts(value, tally, marked)
    tally.repair("content that is neither text nor a list, written as JSON")
    return as_json(value), ""


def _parts(value: list[Any], tally: Tally, marked: bool) -> tuple[Content, str]:
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
            parts.append(_image(part))
            tally.images += 1
        else:
            tally.drop(f"a content part of type {str(kind)[:40]!r}")
            parts += [{"type": str(kind)[:40]}] if marked else []
    if not parts:
        return "", "\n".join(thoughts)
    return parts, "\n".join(thoughts)


def _image(part: dict[str, Any]) -> dict[str, Any]:
    """Return an image part as OpenAI has it; one without a place to get the image from stays as it is."""
    source = mapping(part.get("source"))
    if text(source.get("data"), 1) and text(source.get("media_type")):
        return {"type": "image_url", "image_url": {"url": f"data:{source['media_type']};base64,{source['data']}"}}
    url = next((part[name] for name in ("image_url", "image", "url") if isinstance(part.get(name), str)), None)
    url = url or source.get("url")
    return {"type": "image_url", "image_url": {"url": url}} if isinstance(url, str) else part


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
    return as_json(value)
