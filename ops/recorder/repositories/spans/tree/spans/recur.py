"""
Recurring dates.

    every [N] days
    every [N] weeks [on mon, thu]
    every [N] months [on day 31 | on last fri | on 2nd tue]
    every [N] years
    … [until 2024-12-31]

Singular and plural are the same; "every week" is "every 1 weeks". Weeks begin on Monday.
"""

import itertools
import re
from calendar import monthrange
from dataclasses import dataclass
from datetime import date, timedelta

from spans.duration import add_months
from spans.errors import SpansError

WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
ORDINALS = {"1st": 1, "2nd": 2, "3rd": 3, "4th": 4, "last": -1}
PATTERN = re.compile(
    r"every\s+(?:(?P<step>\d+)\s+)?(?P<unit>day|week|month|year)s?"
    r"(?:\s+on\s+(?P<on>.+?))?(?:\s+until\s+(?P<until>\d{4}-\d{2}-\d{2}))?"
)
LIMIT = 10_000


@dataclass(frozen=True)
class Rule:
    """One recurrence. `weekdays` are numbers from Monday 0; `ordinal` and a weekday mean "last fri" of a month."""

    unit: str
    step: int = 1
    weekdays: tuple = ()
    day: int | None = None
    ordinal: int | None = None
    until: date | None = None

    @classmethod
    def parse(cls, text):
        """Return the rule that a text in the language above spells."""
        found = PATTERN.fullmatch(" ".join(text.lower().split()))
        if found is None:
            raise SpansError(f"not a recurrence: {text!r}")
        step = int(found["step"] or 1)
        if step < 1:
            raise SpansError("a recurrence needs a step of at least 1")
        until = date.fromisoformat(found["until"]) if found["until"] else None
        return cls(unit=found["unit"], step=step, until=until, **_parse_on(found["unit"], found["on"]))

    def dates(self, start, count=None):
        """Yield the dates from `start` on, `count` of them at most; a rule without end is cut after 10,000."""
        limit = LIMIT if count is None else min(count, LIMIT)
        upcoming = {"day": self._days, "week": self._weeks, "month": self._months, "year": self._years}[self.unit](start)
        for day in itertools.islice(upcoming, limit):
            if self.until is not None and day > self.until:
                return
            yield day

    def _days(self, start):
        for number in itertools.count():
            yield start + timedelta(days=number * self.step)

    def _weeks(self, start):
        weekdays = self.weekdays or (start.weekday(),)
        monday = start - timedelta(days=start.weekday())
        for number in itertools.count():
            week = monday + timedelta(weeks=number * self.step)
            for weekday in weekdays:
                day = week + timedelta(days=weekday)
                if day >= start:
                    yield day

    def _months(self, start):
        if self.ordinal is not None:
            yield from self._nth_weekdays(start)
            return
        current = _on_day(start, self.day or start.day)
        while True:
            if current >= start:
                yield current
            current = _on_day(add_months(current, self.step), self.day or current.day)

    def _nth_weekdays(self, start):
        first = start.replace(day=1)
        for number in itertools.count():
            month = add_months(first, number * self.step)
            day = nth_weekday(month.year, month.month, self.ordinal, self.weekdays[0])
            if day >= start:
                yield day

    def _years(self, start):
        for number in itertools.count():
            yield add_months(start, 12 * number * self.step)


def nth_weekday(year, month, ordinal, weekday):
    """Return the first (1) to fourth (4) or last (-1) given weekday of a month."""
    days = monthrange(year, month)[1]
    matching = [day for day in range(1, days + 1) if date(year, month, day).weekday() == weekday]
    return date(year, month, matching[ordinal - 1 if ordinal > 0 else ordinal])


def _on_day(month, day):
    """Return the given day of a month, or its last day where there is no such day."""
    return month.replace(day=min(day, monthrange(month.year, month.month)[1]))


def _parse_on(unit, text):
    """Return the keyword arguments for what stands after "on"."""
    if text is None:
        return {}
    if unit == "week":
        return {"weekdays": tuple(sorted({_weekday(part) for part in text.split(",")}))}
    if unit == "month":
        word, _, rest = text.partition(" ")
        if word == "day" and rest.isdigit() and 1 <= int(rest) <= 31:
            return {"day": int(rest)}
        if word in ORDINALS:
            return {"ordinal": ORDINALS[word], "weekdays": (_weekday(rest),)}
    raise SpansError(f"'on {text}' makes no sense with {unit}s")


def _weekday(text):
    name = text.strip()[:3]
    if name not in WEEKDAYS:
        raise SpansError(f"not a weekday: {text.strip()!r}")
    return WEEKDAYS.index(name)
