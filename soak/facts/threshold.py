"""One expression over an arm's summary, such as "rate.garbage_loop <= 0.5%", and what it says of an arm."""

import math
import operator
from typing import Any, Literal, get_args

import msgspec

from soak.facts.summary import ArmSummary

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
    """`path` leads from an `ArmSummary` to a number; `limit` is in that number's unit (a percentage as a fraction)."""

    text: str
    path: tuple[str, ...]
    comparator: Comparator
    limit: float


def evaluate(threshold: Threshold, arm: ArmSummary) -> bool | None:
    """Return whether `threshold` holds for `arm`; None where its field was not measured."""
    value = measured(threshold, arm)
    return None if value is None else bool(_COMPARE[threshold.comparator](value, threshold.limit))


def measured(threshold: Threshold, arm: ArmSummary) -> float | None:
    """Return the number `threshold` looks at; None if it was not measured. An absent kind of finding counts as 0."""
    value: Any = arm
    for name in threshold.path:
        value = _step(value, name)
    if value is None and threshold.path[0] == "kinds":
        return 0.0
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def _step(value: Any, name: str) -> Any:
    """Return the member `name` of a fact, mapping or list; None where there is none."""
    if isinstance(value, dict):
        return value.get(name)
    if isinstance(value, list | tuple):
        return value[int(name)] if name.isdecimal() and int(name) < len(value) else None
    return getattr(value, name, None) if isinstance(value, msgspec.Struct) else None
