"""Cron times: five fields, and the next moment that matches them."""

from datetime import datetime, timedelta

from drover.errors import DroverError

FIELDS = (("minute", 0, 59), ("hour", 0, 23), ("day", 1, 31), ("month", 1, 12), ("weekday", 0, 7))
YEARS = 8


class Cron:
    """A parsed cron expression."""

    def __init__(self, text):
        parts = text.split()
        if len(parts) != len(FIELDS):
            raise DroverError(f"a cron time has five fields: {text!r}")
        self.text = text
        values = [parse_field(part, *field) for part, field in zip(parts, FIELDS)]
        self.minutes, self.hours, self.days, self.months, self.weekdays = values
        if 7 in self.weekdays:
            self.weekdays = (self.weekdays - {7}) | {0}

    def matches(self, moment):
        """Whether a datetime matches (its seconds are not looked at)."""
        return moment.minute in self.minutes and moment.hour in self.hours and self.matches_date(moment)

    def matches_date(self, day):
        """Whether the month and the days of a date match."""
        weekday = day.isoweekday() % 7
        return day.month in self.months and day.day in self.days and weekday in self.weekdays

    def next_after(self, moment):
        """Return the first matching moment after the given one; raises DroverError if there is none in eight years."""
        start = moment.replace(second=0, microsecond=0) + timedelta(minutes=1)
        day = start.replace(hour=0, minute=0)
        for _ in range(366 * YEARS):
            if self.matches_date(day):
                for hour in sorted(self.hours):
                    for minute in sorted(self.minutes):
                        found = day.replace(hour=hour, minute=minute)
                        if found >= start:
                            return found
            day += timedelta(days=1)
        raise DroverError(f"{self.text!r} matches nothing in {YEARS} years")

    def upcoming(self, moment, count):
        """Yield the next matching moments."""
        for _ in range(count):
            moment = self.next_after(moment)
            yield moment


def parse_field(text, name, low, high):
    """Return the set of values of one field."""
    values = set()
    for part in text.split(","):
        span, slash, step = part.partition("/")
        if slash and (not step.isdigit() or int(step) < 1):
            raise DroverError(f"{name}: not a step: {part!r}")
        first, last = _span(span, part, name, low, high)
        if slash and span != "*" and "-" not in span:
            last = high
        values.update(range(first, last + 1, int(step) if slash else 1))
    return values


def _span(span, part, name, low, high):
    if span == "*":
        return low, high
    first, dash, last = span.partition("-")
    if not first.isdigit() or (dash and not last.isdigit()):
        raise DroverError(f"{name}: not a number or range: {part!r}")
    first, last = int(first), int(last if dash else first)
    if not low <= first <= last <= high:
        raise DroverError(f"{name}: {part!r} is not within {low}-{high}")
    return first, last


def parse_moment(text):
    """Return the datetime of an ISO 8601 text."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise DroverError(f"not a moment: {text!r}") from None
