"""Items of OpenAI's Responses API, of which a Codex rollout is made: calls and outputs in the chat API's manner."""

from typing import Any

from soak.importers.values import embedded, mapping

CALL_ITEMS = ("function_call", "custom_tool_call", "local_shell_call")
OUTPUT_ITEMS = ("function_call_output", "custom_tool_call_output", "local_shell_call_output")


def call_of(item: dict[str, Any]) -> dict[str, Any]:
    """Return a call in the manner of OpenAI's chat API."""
    if item.get("type") == "local_shell_call":
        return {"id": item.get("call_id"), "name": "local_shell", "arguments": mapping(item.get("action"))}
    return {"id": item.get("call_id"), "name": item.get("name"), "arguments": item.get("arguments", item.get("input"))}


def output_of(value: Any) -> Any:
    """Return the text of a call's output, which may be wrapped in an object (also as text) or be blocks."""
    inner = embedded(value) if isinstance(value, str) and value.startswith('{"output"') else value
    if isinstance(inner, dict) and isinstance(inner.get("output"), str):
        return inner["output"]
    if isinstance(inner, dict) and "content" in inner:
        return inner["content"]
    return value
