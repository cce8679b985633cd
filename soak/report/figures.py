"""Numbers as people read them; an unknown number is "–", never 0."""

import math

UNKNOWN = "–"


def count(value: float | None) -> str:
    """Return a whole number with thousands separated."""
    return UNKNOWN if value is None else f"{value:,.0f}"


def share(value: float | None) -> str:
    """Return a fraction as per cent, one decimal below 10 %, two below 1 %."""
    if value is None:
        return UNKNOWN
    per_cent = value * 100
    digits = 0 if per_cent in (0.0, 100.0) else 2 if per_cent < 1 else 1
    return f"{per_cent:.{digits}f} %"


def bound(value: float | None) -> str:
    """Return an upper bound as per cent, rounded up to one decimal: never tighter than computed."""
    return UNKNOWN if value is None else f"{min(math.ceil(value * 1000 - 1e-9) / 10, 100.0):.1f} %"


def decimal(value: float | None, digits: int = 2) -> str:
    """Return a number with `digits` decimals."""
    return UNKNOWN if value is None else f"{value:,.{digits}f}"


def milliseconds(value: float | None) -> str:
    """Return a time in ms below a second, in s above."""
    if value is None:
        return UNKNOWN
    return f"{value:.0f} ms" if value < 1000 else f"{value / 1000:.1f} s"


def seconds(value: float | None) -> str:
    """Return a duration as s, min or h."""
    if value is None:
        return UNKNOWN
    for limit, unit, size in ((120, "s", 1), (7200, "min", 60)):
        if abs(value) < limit:
            return f"{value / size:.1f} {unit}"
    return f"{value / 3600:.2f} h"


def interval(limits: tuple[float, float] | None, digits: int = 2, scale: float = 1.0) -> str:
    """Return the two limits of an interval."""
    if limits is None:
        return UNKNOWN
    return f"{limits[0] * scale:.{digits}f} to {limits[1] * scale:.{digits}f}"


def p_value(value: float | None) -> str:
    """Return a p-value with two digits that say something."""
    if value is None:
        return UNKNOWN
    return "<0.0001" if value < 1e-4 else f"{value:.2g}" if value < 0.1 else f"{value:.2f}"
