"""pydantic's errors, said in the words of a scenario file: where, what must be, what is."""

import dataclasses
import difflib
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from soak.facts import Scenario, encode

_LIMITS = {
    "greater_than": ("must be greater than {}", "gt"),
    "greater_than_equal": ("must be at least {}", "ge"),
    "less_than": ("must be less than {}", "lt"),
    "less_than_equal": ("must be at most {}", "le"),
    "literal_error": ("must be {}", "expected"),
}
_KINDS = {
    "float_type": "must be a number",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "string_type": "must be text",
    "bool_type": "must be true or false",
    "tuple_type": "must be a list",
    "dict_type": "must be a section (keys and values)",
    "dataclass_type": "must be a section (keys and values)",
    "finite_number": "must be a finite number",
}
_SHOWN_MAX = 60


@dataclass(frozen=True)
class Problem:
    """What is wrong at one place of a scenario."""

    path: tuple[str | int, ...]
    text: str


def problems_of(error: ValidationError, root: Any = Scenario) -> list[Problem]:
    """Return one problem for each place of a `root` that pydantic objects to; members of a union are joined by "or"."""
    found: dict[tuple[str | int, ...], list[str]] = {}
    shown: dict[tuple[str | int, ...], str] = {}
    for details in error.errors(include_url=False):
        path = _data_path(details["loc"], root)
        text, tail = _sentence(details, path, root)
        if text not in found.setdefault(path, []):
            found[path].append(text)
        shown[path] = tail
    return [Problem(path, _joined(texts) + shown[path]) for path, texts in found.items()]


def fields_of(section: tuple[str | int, ...], root: Any = Scenario) -> tuple[str, ...]:
    """Return the keys that the section at this path of a `root` may have; none where it is free."""
    kind: Any = root
    for name in section:
        hints = typing.get_type_hints(kind) if dataclasses.is_dataclass(kind) else {}
        kind = _section(hints.get(str(name)))
    if not dataclasses.is_dataclass(kind):
        return ()
    return tuple(field.name for field in dataclasses.fields(kind))


def _section(kind: Any) -> Any:
    """Return the section in "a section or nothing"; any other type as it is."""
    members = (
        [member for member in typing.get_args(kind) if dataclasses.is_dataclass(member)] if _is_union(kind) else []
    )
    return members[0] if members else kind


def suggestion(name: str, known: typing.Iterable[str]) -> str:
    """Return "; did you mean X?" for the nearest known name, or what is known if none is near."""
    names = list(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    return f"; did you mean {near[0]}?" if near else f"; known here: {', '.join(names) or 'none'}"


def _sentence(details: ErrorDetails, path: tuple[str | int, ...], root: Any) -> tuple[str, str]:
    """Return what must be, and what is instead."""
    kind = details["type"]
    context: Mapping[str, Any] = details.get("ctx", {})
    if kind == "unexpected_keyword_argument":
        return "unknown key" + suggestion(str(path[-1]), fields_of(path[:-1], root)), ""
    if kind == "missing":
        return "is required", ""
    tail = f", is {_shown(details['input'])}"
    if kind in _LIMITS:
        form, name = _LIMITS[kind]
        return form.format(_number(context[name])), tail
    if kind in ("string_too_short", "too_short"):
        return "must not be empty", ""
    return _KINDS.get(kind, details["msg"]), tail


def _joined(texts: list[str]) -> str:
    """Return alternatives as one sentence: "must be 'auto' or true or false"."""
    first, *rest = texts
    return " or ".join([first, *(text.removeprefix("must be ") for text in rest)])


def _data_path(location: tuple[int | str, ...], root: Any) -> tuple[str | int, ...]:
    """Return pydantic's location without the parts that name a member of a union."""
    kind: Any = root
    path: list[str | int] = []
    for part in location:
        hints = typing.get_type_hints(kind) if dataclasses.is_dataclass(kind) else None
        if _is_union(kind) and (str(part) in ("bool", "str", "int", "float") or str(part).startswith("literal[")):
            continue
        path.append(part)
        kind = hints.get(str(part)) if hints is not None else None
    return tuple(path)


def _is_union(kind: Any) -> bool:
    return typing.get_origin(kind) in (typing.Union, types.UnionType)


def _number(value: Any) -> str:
    return f"{value:.12g}" if isinstance(value, float) else str(value)


def _shown(value: Any) -> str:
    """Return a value as a person would write it, at most a line long."""
    if isinstance(value, dict):
        return "a section"
    if isinstance(value, list | tuple):
        return "a list"
    text = encode(value).decode() if value is None or isinstance(value, bool) else repr(value)
    return text if len(text) <= _SHOWN_MAX else text[: _SHOWN_MAX - 1] + "…"
