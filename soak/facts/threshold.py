"""
Expressions over a fact, such as "rate.garbage_loop <= 0.5%", and what they say of it.

A threshold looks at a number, a `WordTest` at a word (a result, a verdict); a condition joins several by *and* and
*or*. Three values: true, false, and None where something it needs was not measured.
"""

import math
import operator
from typing import Any, Literal, get_args

import msgspec

Comparator = Literal["<=", "<", ">=", ">", "==", "!="]
COMPARATORS: tuple[Comparator, ...] = get_args(Comparator)

_COMPARE = {
    "<=": operator.le,
    "<": operator.lt,
    ">=": operator.ge,
    ">": operator.gt,
    "==": operator.eq,
    "!=": operator.ne,
}


class Threshold(msgspec.Struct, frozen=True, kw_only=True):
    """`path` leads from a fact to a number; `limit` is in that number's unit (a percentage as a fraction)."""

    text: str
    path: tuple[str, ...]
    comparator: Comparator
    limit: float


class WordTest(msgspec.Struct, frozen=True, kw_only=True):
    """`path` leads from a fact to a word or a yes/no, which is `word` ("true", "false") or, if not `equal`, is not."""

    text: str
    path: tuple[str, ...]
    equal: bool
    word: str


Clause = Threshold | WordTest


class Condition(msgspec.Struct, frozen=True, kw_only=True):
    """Holds if in one of the groups of `any_of` all clauses hold."""

    text: str
    any_of: tuple[tuple[Clause, ...], ...]


class Gate(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one `--fail-on` condition: whether it holds (None: not measured), and the values it looked at."""

    text: str
    holds: bool | None
    seen: dict[str, float | str | None] = {}


def evaluate(clause: Clause, fact: msgspec.Struct) -> bool | None:
    """Return whether `clause` holds for `fact`; None where its field was not measured."""
    value = seen(clause, fact)
    if value is None:
        return None
    if isinstance(clause, WordTest):
        return (value == clause.word) == clause.equal
    return bool(_COMPARE[clause.comparator](value, clause.limit))


def holds(condition: Condition, fact: msgspec.Struct) -> bool | None:
    """Return whether `condition` holds for `fact`; None where what is known of the fact decides it neither way."""
    groups = [_all(evaluate(clause, fact) for clause in group) for group in condition.any_of]
    return True if True in groups else None if None in groups else False


def _all(values: Any) -> bool | None:
    known = list(values)
    return False if False in known else None if None in known else True


def seen(clause: Clause, fact: msgspec.Struct) -> float | str | None:
    """Return the number or word that `clause` looks at; None if it was not measured."""
    if isinstance(clause, Threshold):
        return measured(clause, fact)
    value = _at(clause.path, fact)
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else None


def measured(threshold: Threshold, fact: msgspec.Struct) -> float | None:
    """Return the number `threshold` looks at; None if it was not measured. An absent kind of finding counts as 0."""
    value = _at(threshold.path, fact)
    if value is None and threshold.path[0] == "kinds":
        return 0.0
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def _at(path: tuple[str, ...], fact: Any) -> Any:
    for name in path:
        fact = _step(fact, name)
    return fact


def _step(value: Any, name: str) -> Any:
    """Return the member `name` of a fact, mapping or list; None where there is none."""
    if isinstance(value, dict):
        return value.get(name)
    if isinstance(value, list | tuple):
        return value[int(name)] if name.isdecimal() and int(name) < len(value) else None
    return getattr(value, name, None) if isinstance(value, msgspec.Struct) else None
