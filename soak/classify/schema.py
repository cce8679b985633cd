"""Whether a tool call's arguments fit the tool's JSON schema: types, required names and enums, nothing more."""

from typing import Any

_MAX_DEPTH = 16
_MAX_PROBLEMS = 5
_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "null": (type(None),),
    "integer": (int,),
    "number": (int, float),
}


def missing_names(arguments: dict[str, Any], schema: dict[str, Any]) -> list[str]:
    """Return the required arguments that are not there."""
    required = schema.get("required")
    names = required if isinstance(required, list) else []
    return [name for name in names if isinstance(name, str) and name not in arguments]


def violations(value: Any, schema: Any, path: str = "", depth: int = 0) -> list[str]:
    """Return at most five sentences, one per place below `value` that breaks the type or enum of `schema`."""
    if not isinstance(schema, dict) or depth > _MAX_DEPTH:
        return []
    allowed = schema.get("enum")
    if isinstance(allowed, list) and value not in allowed:
        return [f"{path or 'the value'} is none of the allowed values"]
    if not _fits(value, schema.get("type")):
        return [f"{path or 'the value'} is {_name(value)}, not {_wanted(schema['type'])}"]
    problems: list[str] = []
    for name, part, inner in _children(value, schema):
        problems += violations(part, inner, f"{path}.{name}" if path else name, depth + 1)
        if len(problems) >= _MAX_PROBLEMS:
            break
    return problems[:_MAX_PROBLEMS]


def _children(value: Any, schema: dict[str, Any]) -> list[tuple[str, Any, Any]]:
    properties, items = schema.get("properties"), schema.get("items")
    if isinstance(value, dict) and isinstance(properties, dict):
        return [(name, value[name], inner) for name, inner in properties.items() if name in value]
    if isinstance(value, list) and isinstance(items, dict):
        return [(str(at), part, items) for at, part in enumerate(value[:200])]
    return []


def _fits(value: Any, wanted: Any) -> bool:
    if isinstance(wanted, list):
        return not wanted or any(_fits(value, one) for one in wanted)
    kinds = _TYPES.get(wanted) if isinstance(wanted, str) else None
    if kinds is None:
        return True
    if isinstance(value, bool):
        return bool(wanted == "boolean")
    if wanted == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, kinds)


def _name(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")


def _wanted(wanted: Any) -> str:
    return " or ".join(map(str, wanted)) if isinstance(wanted, list) else str(wanted)
