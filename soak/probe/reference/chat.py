"""Messages of a request as chat templates want them: pure."""

import json
from typing import Any


def as_templates_want(messages: Any) -> list[dict[str, Any]]:
    """
    Return messages with text for content and objects for the arguments of calls, as vLLM hands them to a template.

    What cannot be read as such stays as it is.
    """
    return [_message(one) for one in messages if isinstance(one, dict)] if isinstance(messages, list) else []


def _message(message: dict[str, Any]) -> dict[str, Any]:
    told = dict(message)
    if isinstance(content := message.get("content"), list):
        told["content"] = "\n".join(
            part["text"] for part in content if isinstance(part, dict) and isinstance(part.get("text"), str)
        )
    if isinstance(calls := message.get("tool_calls"), list):
        told["tool_calls"] = [_call(call) for call in calls]
    return told


def _call(call: Any) -> Any:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("arguments"), str):
        return call
    return {**call, "function": {**function, "arguments": _arguments(function["arguments"])}}


def _arguments(text: str) -> Any:
    try:
        value = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, dict) else text
