"""Values out of foreign JSON, by kind: whatever stands there, the answer is of the kind asked for, or nothing."""

import json
from datetime import UTC, datetime
from typing import Any

from soak.importers.reading import UnreadableError, parse_json

TEXT_MAX = 1 << 30
_NAME_MAX = 256
_YEARS_S = 4e11


def mapping(value: Any) -> dict[str, Any]:
    """Return `value` if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def listing(value: Any) -> list[Any]:
    """Return `value` if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def mappings(value: Any) -> list[dict[str, Any]]:
    """Return the objects in `value` if it is a list, else nothing."""
    return [item for item in listing(value) if isinstance(item, dict)]


def text(value: Any, limit: int = _NAME_MAX) -> str | None:
    """Return `value` if it is text that is not empty, cut to `limit` characters; else None."""
    return value[:limit] if isinstance(value, str) and value else None


def count(value: Any) -> int | None:
    """Return `value` if it is a whole number that is not negative (also as text, as OTLP writes them), else None."""
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 16:
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53 else None


def number(value: Any) -> float | None:
    """Return `value` if it is a number that is not negative, else None."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0 else None


def instant(value: Any) -> float | None:
    """Return the seconds since 1970 of a time stamp: ISO 8601 text, or a number of seconds, ms, us or ns."""
    if isinstance(value, str) and 10 < len(value) < 40:
        try:
            at = datetime.fromisoformat(value)
            return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
        except (ValueError, OverflowError):
            pass
    found = number(count(value) if isinstance(value, str) else value)
    while found is not None and found > _YEARS_S:
        found /= 1000
    return found


def embedded(value: Any) -> Any:
    """Return the JSON value in `value` if it is text that holds one, else `value` itself."""
    if not isinstance(value, str):
        return value
    try:
        return parse_json(value.encode("utf-8", "replace"), "")[0]
    except UnreadableError:
        return value


def as_json(value: Any) -> str:
    """Return JSON text as Python's json writes it, which is how most clients make arguments of an object."""
    return json.dumps(value)


def name_of(value: dict[str, Any], *keys: str) -> str | None:
    """Return the first of these entries that can name a conversation: text or a whole number."""
    for key in keys:
        found = value.get(key)
        if isinstance(found, int) and not isinstance(found, bool):
            return str(found)
        if text(found):
            return text(found)
    return None


def chosen(value: dict[str, Any], *names: str) -> dict[str, Any]:
    """Return the entries of these names that are text, numbers, truth values or lists of text; others may hold keys."""
    return {name: value[name] for name in names if _is_plain(value.get(name))}


def _is_plain(value: Any) -> bool:
    if isinstance(value, list):
        return all(isinstance(item, str) for item in value)
    return isinstance(value, str | int | float)
