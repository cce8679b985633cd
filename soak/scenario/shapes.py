"""
What of a fact an expression may look at: its numbers and words by dotted path, with the range each can have.

Found by looking at the fact's type, so that a new field can be used in an expression the day it is added.
"""

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import inf
from typing import get_args

import msgspec.inspect as inspect

from soak.facts import CLASSES, ArmSummary, Comparison, EngineFindingKind

_FAILURES = tuple(name for name in CLASSES if name != "ok")


@dataclass(frozen=True)
class Field:
    """
    A number or (with `words`) a word at a dotted path, in which `*` stands for any key and `#` for any place.

    `low` and `high` bound a number; a `fraction` may be compared with a percentage; an `open` field is a mapping whose
    members, at any depth, are whatever an engine exports.
    """

    name: str
    whole: bool = False
    words: tuple[str, ...] = ()
    fraction: bool = False
    low: float = -inf
    high: float = inf
    open: bool = False

    def leads(self, path: str) -> bool:
        """Return whether `path` leads here."""
        pattern = re.escape(self.name).replace(r"\*", r"[^.]+").replace(r"\#", r"\d+")
        pattern += r"(\.[^.]+)+" if self.open else ""
        return re.fullmatch(pattern, path) is not None


@dataclass(frozen=True)
class Shape:
    """The fields of one kind of fact; `others` are paths that lead to something that cannot be compared."""

    title: str
    fields: tuple[Field, ...]
    others: frozenset[str]

    def field(self, path: str) -> Field | None:
        """Return the field that `path` leads to, or None."""
        return next((field for field in self.fields if field.leads(path)), None)

    def unknown(self, path: str) -> str:
        """Return the sentence for a path that leads to no field, with those whose names are near to it."""
        if path in self.others:
            return f"{path} is not a number, so it cannot be compared with one"
        names = [field.name for field in sorted(self.fields, key=lambda field: bool(field.words))]
        near = difflib.get_close_matches(path, names, n=3, cutoff=0.5)
        near += [name for name in names if _last(name) == _last(path) and name not in near]
        tops = dict.fromkeys(name.partition(".")[0] for name in names)
        known = f"near to it: {', '.join(near[:4])}" if near else f"it has {', '.join(tops)}"
        return f"{path} is not a field of {self.title}; {known}"


@dataclass(frozen=True)
class _Reading:
    """How the types of one fact are read: keys of mappings by path, and ranges by pattern (the first that fits)."""

    keys: dict[str, tuple[str, ...]]
    ranges: tuple[tuple[str, bool, float, float], ...]
    skipped: tuple[str, ...] = ()

    def ranged(self, field: Field) -> Field:
        for pattern, fraction, low, high in self.ranges:
            if re.fullmatch(pattern, field.name):
                return replace(field, fraction=fraction, low=low, high=high)
        return field


def _last(name: str) -> str:
    return name.rpartition(".")[2]


def _joined(name: str, more: str) -> str:
    return f"{name}.{more}" if name else more


def _fields(kind: inspect.Type, name: str, reading: _Reading) -> Iterator[Field]:
    """Yield what can be compared in `kind`."""
    if name in reading.skipped:
        return
    if isinstance(kind, inspect.IntType | inspect.FloatType):
        yield reading.ranged(Field(name, whole=isinstance(kind, inspect.IntType)))
    elif isinstance(kind, inspect.BoolType):
        yield Field(name, words=("true", "false"))
    elif isinstance(kind, inspect.LiteralType):
        yield Field(name, words=tuple(str(value) for value in kind.values))
    elif isinstance(kind, inspect.AnyType):
        yield reading.ranged(Field(name.removesuffix(".*"), open=True))
    else:
        for key, member in _members(kind, name, reading):
            yield from _fields(member, _joined(name, key) if key else name, reading)


def _members(kind: inspect.Type, name: str, reading: _Reading) -> Iterator[tuple[str, inspect.Type]]:
    """Yield the members of a compound type with their keys ("" for the alternatives of a union)."""
    if isinstance(kind, inspect.UnionType):
        yield from (("", member) for member in kind.types)
    elif isinstance(kind, inspect.StructType):
        yield from ((field.encode_name, field.type) for field in kind.fields)
    elif isinstance(kind, inspect.DictType):
        yield from ((key, kind.value_type) for key in reading.keys.get(name, ("*",)))
    elif isinstance(kind, inspect.TupleType):
        yield from ((str(place), member) for place, member in enumerate(kind.item_types))
    elif isinstance(kind, inspect.ListType | inspect.VarTupleType) and not isinstance(kind.item_type, _COMPOUND):
        yield "#", kind.item_type


_COMPOUND = (inspect.StructType, inspect.TupleType)


def _paths(kind: inspect.Type, name: str, reading: _Reading) -> Iterator[str]:
    """Yield every path of structs and mappings, whether or not it leads to something that can be compared."""
    if name:
        yield name
    if isinstance(kind, inspect.StructType | inspect.UnionType | inspect.DictType):
        for key, member in _members(kind, name, reading):
            yield from _paths(member, _joined(name, key) if key else name, reading)


def _shape(kind: type, title: str, reading: _Reading) -> Shape:
    tree = inspect.type_info(kind)
    fields = tuple(dict.fromkeys(_fields(tree, "", reading)))
    comparable = {field.name for field in fields if not field.open}
    return Shape(title, fields, frozenset(_paths(tree, "", reading)) - comparable)


_RATES = (*CLASSES, "skipped", "indeterminate")
ARM = _shape(
    ArmSummary,
    "an arm's summary",
    _Reading(
        keys={
            "rate": _RATES,
            "rate_upper95": _RATES,
            "busy_s": CLASSES,
            "evidence.by_class": CLASSES,
            "evidence.findings": get_args(EngineFindingKind),
        },
        ranges=(
            (
                r"rate(_upper95)?\..*|prefix_cache\.hit_rate|conversations\.loop_rate"
                r"|tasks\.resolved_(rate|ci95\..*)|canaries\.recall_(rate|ci95\..*)"
                r"|speculation\.(acceptance_rate|per_position\..*)|evidence\.(.*\.)?(acceptance_rate|exact|early|late)",
                True,
                0,
                1,
            ),
            (r"evidence\.drift\.(pooled_change|change|ci95\..*)", True, -1, 1),
            (r".*", False, 0, inf),
        ),
        skipped=("build.settings", "build.speculative"),
    ),
)
"""An arm's summary: no number in it is negative, but for changes over the uptime."""

COMPARISON = _shape(
    Comparison,
    "a comparison",
    _Reading(
        keys={
            "classes": (*_FAILURES, "any_failure"),
            "wall_clock.explained_by": CLASSES,
            "latency": ("ttft_ms", "tpot_ms", "e2e_ms"),
            **dict.fromkeys(("goodput", "drift"), ("baseline", "candidate")),
            **{
                f"latency.{name}.{arm}": ("p50", "p95", "p99")
                for name in ("ttft_ms", "tpot_ms", "e2e_ms")
                for arm in ("baseline", "candidate")
            },
        },
        ranges=(
            (r"(classes\.[^.]+|tasks)\.(difference|ci95\..*)", True, -1, 1),
            (r"(.*\.)?p_[a-z_]+|.*_rate\.(rate|ci95\..*|upper95|anytime95\..*)", True, 0, 1),
            (r"alpha|margin|time_margin|.*\.within_limits|.*\.class_flip_rate|.*_half_width", True, 0, inf),
            (r".*_change_s|.*\.explained_by.*|drift\..*|.*\.icc", False, -inf, inf),
            (r".*ratio.*|wall_clock\.ci95\..*", True, 0, inf),
            (r".*", False, 0, inf),
        ),
    ),
)
"""A comparison: differences of rates and changes of time may be negative; ratios and rates may be given in per cent."""
