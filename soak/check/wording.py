"""Numbers as people read them, and sentences that several checkers share. Bounds are rounded to the safe side."""

import math

from soak.stats import Interval, upper_bound, wilson

TITLES: dict[str, str] = {
    "garbage_loop": "garbage loops",
    "early_stop": "early stops",
    "max_tokens": "turns cut at max_tokens",
    "error": "errors",
    "ok": "ok turns",
    "any_failure": "failures of any class",
}


def percent(fraction: float) -> str:
    """Return a fraction as per cent with two significant digits: 0.022 is "2.2 %"."""
    return f"{_significant(fraction * 100, 2)} %"


def percent_up(fraction: float) -> str:
    """Return an upper bound as per cent, rounded up: 0.00997 is "1.0 %", never a bound tighter than computed."""
    value = min(fraction * 100, 100.0)
    if value <= 0:
        return "0 %"
    step = 10.0 ** (math.floor(math.log10(value)) - 1)
    return f"{_significant(min(math.ceil(value / step - 1e-9) * step, 100.0), 2)} %"


def _significant(value: float, digits: int) -> str:
    if value == 0:
        return "0"
    places = max(digits - 1 - math.floor(math.log10(abs(value))), 0)
    return f"{value:.{places}f}"


def number(value: float | None) -> str:
    """Return a number with at most four significant digits and no exponent below a million; "unknown" for None."""
    if value is None:
        return "unknown"
    if float(value).is_integer() and abs(value) < 1e9:
        return str(int(value))
    return f"{value:.4g}" if abs(value) < 1e4 else f"{value:.0f}"


def two_digits(value: float) -> str:
    """Return a ratio or p-value: two decimals, more where it would read 0.00, none of great ones, "∞" if infinite."""
    if math.isinf(value):
        return "∞"
    if value >= 1000:
        return f"{value:,.0f}" if value < 1e6 else ">1,000,000"
    return f"{value:.2f}" if value >= 0.005 or value == 0 else (f"{value:.1g}" if value >= 1e-4 else "<0.0001")


def events_sentence(name: str, events: int, turns: int) -> str:
    """Return counts of one class with what they say of its rate: a bound for none, an interval for some."""
    if events == 0:
        bound = upper_bound(0, turns)
        said = f": rate below {percent_up(bound)} with 95 % confidence" if bound is not None else ""
        return f"{name} 0 of {turns} finished turns{said}"
    limits = wilson(events, turns) or Interval(0.0, 1.0)
    return (
        f"{name} {events} of {turns} finished turns:"
        f" rate {percent(events / turns)} (95 % {percent(limits.low)} to {percent_up(limits.high)})"
    )


def plural(count: int, noun: str) -> str:
    """Return a count with its noun: "1 turn", "2 turns"."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def rounded_up(turns: int) -> str:
    """Return a number of turns with three significant digits, rounded up, thousands separated: 4335 is "4,340"."""
    step = max(10 ** (len(str(turns)) - 3), 1)
    return f"{-(-turns // step) * step:,}"


def duration(seconds: float) -> str:
    """Return a duration in the unit that suits it."""
    for limit, unit, size in ((120, "s", 1), (7200, "min", 60)):
        if abs(seconds) < limit:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 3600:.3g} h"
