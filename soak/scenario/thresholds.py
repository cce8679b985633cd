"""
The language of thresholds: `PATH COMPARATOR NUMBER[%]`, checked before the run against the shape of an arm's summary.

    rate.garbage_loop <= 0.5%      turns.error >= 200      ttft_ms.p99 <= 60000      kinds.salad == 0

A path that does not lead to a number, and an expression that can never or always hold, are refused.
"""

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import get_args

import msgspec
import msgspec.inspect as inspect

from soak.errors import ScenarioError
from soak.facts import CLASSES, COMPARATORS, ArmSummary, Comparator, Threshold

_FORM = re.compile(
    r"\s*(?P<path>[A-Za-z_][\w.]*)\s*(?P<comparator><=|>=|==|!=|<|>)\s*(?P<number>[-+]?[0-9.][0-9.eE+-]*)\s*(?P<percent>%?)\s*\Z"
)
_TEXT_MAX = 200
_FRACTIONS = (
    "rate",
    "rate_upper95",
    "prefix_cache.hit_rate",
    "speculation.acceptance_rate",
    "speculation.per_position",
)
_BY_CLASS = ("rate", "rate_upper95", "busy_s")
_TURN_FRACTIONS = (*CLASSES, "skipped", "indeterminate")


@dataclass(frozen=True)
class _Field:
    """A number that a threshold may look at: `name` is its dotted path; `open` takes any further name."""

    name: str
    whole: bool
    open: bool = False


def parse_threshold(text: str) -> Threshold:
    """Return the threshold in `text`; raises `ScenarioError` saying what is wrong with it."""
    problem = threshold_problem(text)
    if problem is not None:
        raise ScenarioError(
            f"the threshold {text[:_TEXT_MAX]!r} cannot be used",
            problems=(problem,),
            hint='write it like "rate.garbage_loop <= 0.5%"',
        )
    path, comparator, limit = _parts(text)
    return Threshold(text=text.strip(), path=tuple(path.split(".")), comparator=comparator, limit=limit)


def threshold_problem(text: str) -> str | None:
    """Return why `text` is not a usable threshold, or None if it is one."""
    form = _FORM.match(text[:_TEXT_MAX]) if len(text) <= _TEXT_MAX else None
    if form is None:
        signs = " ".join(COMPARATORS)
        return f"is not of the form FIELD COMPARATOR NUMBER, such as rate.garbage_loop <= 0.5% (comparators: {signs})"
    try:
        float(form["number"])
    except ValueError:
        return f"{form['number']} is not a number"
    path = form["path"]
    field = _field_of(path)
    if field is None:
        return _unknown(path)
    _, comparator, limit = _parts(text)
    if form["percent"] and not _is_fraction(path):
        return f"{path} is not a fraction, so it cannot be compared with a percentage"
    return _impossible(path, field, comparator, limit)


def _parts(text: str) -> tuple[str, Comparator, float]:
    """Return path, comparator and limit of a text that has the form; a percentage becomes a fraction."""
    form = _FORM.match(text)
    if form is None:
        raise ValueError(text)
    comparator: Comparator = next(c for c in get_args(Comparator) if c == form["comparator"])
    return form["path"], comparator, float(form["number"]) / (100 if form["percent"] else 1)


def _is_fraction(path: str) -> bool:
    return any(path == name or path.startswith(name + ".") for name in _FRACTIONS)


def _impossible(path: str, field: _Field, comparator: Comparator, limit: float) -> str | None:
    """Return why the comparison says nothing, given that no field is negative and no fraction above 1."""
    top = 1.0 if _is_fraction(path) else float("inf")
    if limit > top:
        return f"{path} is a fraction from 0 to 1, so {limit:g} is impossible (1% is 0.01)"
    if limit < 0:
        return f"{path} is never negative, so {limit:g} is impossible"
    if limit == float("inf"):
        return f"{path} is finite, so this says nothing"
    if (comparator, limit) in (("<", 0.0), (">", top)):
        return "can never hold"
    if (comparator, limit) in ((">=", 0.0), ("<=", top)):
        return "always holds, so it decides nothing"
    if field.whole and comparator in ("==", "!=") and limit != int(limit):
        return f"{path} is a whole number, so comparing it with {limit:g} for equality decides nothing"
    return None


def _unknown(path: str) -> str:
    """Return the sentence for a path that leads to no number."""
    if path in _not_numbers():
        return f"{path} is not a number, so it cannot be compared with one"
    names = [field.name for field in _FIELDS]
    near = difflib.get_close_matches(path, names, n=3, cutoff=0.5)
    near += [name for name in names if name.rpartition(".")[2] == path.rpartition(".")[2] and name not in near]
    known = f"near to it: {', '.join(near[:4])}" if near else f"it has {', '.join(_tops(names))}"
    return f"{path} is not a field of an arm's summary; {known}"


def _tops(names: list[str]) -> list[str]:
    """Return the first words of dotted names, each once."""
    return list(dict.fromkeys(name.partition(".")[0] for name in names))


def _field_of(path: str) -> _Field | None:
    """Return the field that `path` leads to, or None."""
    for field in _FIELDS:
        if path == field.name and not field.open:
            return field
        rest = path.removeprefix(field.name + ".")
        if field.open and rest != path and _fits(field.name, rest):
            return field
    return None


def _fits(name: str, rest: str) -> bool:
    """Return whether `rest` may be a key of the open mapping or list `name`."""
    parts = rest.split(".")
    if not all(parts):
        return False
    if name == "speculation.per_position":
        return rest.isdecimal()
    return name == "engine" or len(parts) == 1


def _fields(kind: inspect.Type, name: str) -> Iterator[_Field]:
    """Yield the numbers that can be reached in `kind`."""
    if isinstance(kind, inspect.UnionType):
        for member in kind.types:
            yield from _fields(member, name)
    elif isinstance(kind, inspect.StructType):
        for field in kind.fields:
            yield from _fields(field.type, f"{name}.{field.encode_name}".removeprefix("."))
    elif isinstance(kind, inspect.IntType | inspect.FloatType):
        yield _Field(name, whole=isinstance(kind, inspect.IntType))
    elif isinstance(kind, inspect.DictType) and name in _BY_CLASS:
        keys = _TURN_FRACTIONS if name.startswith("rate") else CLASSES
        yield from (_Field(f"{name}.{key}", whole=False) for key in keys)
    elif isinstance(kind, inspect.DictType | inspect.ListType):
        yield from _open_fields(kind, name)


def _open_fields(kind: inspect.DictType | inspect.ListType, name: str) -> Iterator[_Field]:
    """Yield a mapping or list whose members are numbers, as one field with any further name."""
    if name.partition(".")[0] == "build":
        return
    member = kind.value_type if isinstance(kind, inspect.DictType) else kind.item_type
    if isinstance(member, inspect.IntType | inspect.FloatType | inspect.AnyType):
        yield _Field(name, whole=isinstance(member, inspect.IntType), open=True)


def _not_numbers() -> set[str]:
    """Return the paths of an arm's summary that lead to something else than a number."""
    return set(_names(inspect.type_info(ArmSummary), "")) - {field.name for field in _FIELDS if not field.open}


def _names(kind: inspect.Type, name: str) -> Iterator[str]:
    if name:
        yield name
    if isinstance(kind, inspect.StructType):
        for member in kind.fields:
            yield from _names(member.type, f"{name}.{member.encode_name}".removeprefix("."))


_FIELDS: tuple[_Field, ...] = tuple(_fields(msgspec.inspect.type_info(ArmSummary), ""))
