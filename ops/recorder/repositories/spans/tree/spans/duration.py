"""ISO 8601 durations: months, days and seconds, kept apart."""

import re
from calendar import monthrange
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from spans.errors import SpansError

PATTERN = re.compile(
    r"(?P<sign>[+-])?P(?!$)"
    r"(?:(?P<years>\d+)Y)?(?:(?P<months>\d+)M)?(?:(?P<weeks>\d+)W)?(?:(?P<days>\d+)D)?"
    r"(?:T(?!$)(?:(?P<hours>\d+(?:[.,]\d+)?)H)?(?:(?P<minutes>\d+(?:[.,]\d+)?)M)?(?:(?P<seconds>\d+(?:[.,]\d+)?)S)?)?"
)

SECONDS = {"hours": 3600, "minutes": 60, "seconds": 1}


@dataclass(frozen=True, order=False)
class Duration:
    """Months, days and seconds. Years are 12 months, weeks 7 days, hours and minutes are seconds."""

    months: int = 0
    days: int = 0
    seconds: float = 0

    @classmethod
    def parse(cls, text):
        """Return the duration that an ISO 8601 text such as "P1Y6M", "-PT90M" or "P2W" spells."""
        found = PATTERN.fullmatch(text.strip())
        if found is None:
            raise SpansError(f"not a duration: {text!r}")
        parts = {name: _number(value) for name, value in found.groupdict(default="0").items() if name != "sign"}
        sign = -1 if found["sign"] == "-" else 1
        months = parts["years"] * 12 + parts["months"]
        days = parts["weeks"] * 7 + parts["days"]
        seconds = sum(parts[name] * factor for name, factor in SECONDS.items())
        return cls(months=sign * int(months), days=sign * int(days), seconds=seconds)

    def __neg__(self):
        return Duration(-self.months, -self.days, -self.seconds)

    def __add__(self, other):
        if not isinstance(other, Duration):
            return NotImplemented
        return Duration(self.months + other.months, self.days + other.days, self.seconds + other.seconds)

    def __mul__(self, factor):
        return Duration(self.months * factor, self.days * factor, self.seconds * factor)

    def __bool__(self):
        return bool(self.months or self.days or self.seconds)

    def __str__(self):
        """Return the ISO 8601 spelling; parsing it again gives an equal duration, provided that all parts have one sign."""
        if not self:
            return "PT0S"
        parts = (self.months, self.days, self.seconds)
        if min(parts) < 0 < max(parts):
            raise SpansError(f"parts of both signs have no ISO spelling: {self!r}")
        sign = "-" if min(parts) < 0 else ""
        months, days, seconds = map(abs, parts)
        years, months = divmod(months, 12)
        hours, rest = divmod(seconds, 3600)
        minutes, seconds = divmod(rest, 60)
        day_part = _spell((years, "Y"), (months, "M"), (days, "D"))
        time_part = _spell((hours, "H"), (minutes, "M"), (seconds, "S"))
        return f"{sign}P{day_part}" + (f"T{time_part}" if time_part else "")

    def add_to(self, moment):
        """
        Return a date or datetime moved by this duration: months first, then days, then seconds.

        A day that the target month does not have becomes its last day. Seconds cannot be added to a date.
        """
        if self.seconds and not isinstance(moment, datetime):
            raise SpansError(f"{self} has a time part and {moment} is a date")
        moved = add_months(moment, self.months) + timedelta(days=self.days)
        return moved + timedelta(seconds=self.seconds) if self.seconds else moved


def add_months(moment, months):
    """Return the same day `months` later, or the last day of that month if it has no such day."""
    index = moment.year * 12 + moment.month - 1 + months
    year, month = divmod(index, 12)
    if not date.min.year <= year <= date.max.year:
        raise SpansError(f"{moment} plus {months} months is out of range")
    day = min(moment.day, monthrange(year, month + 1)[1])
    return moment.replace(year=year, month=month + 1, day=day)


def _number(text):
    text = text.replace(",", ".")
    return float(text) if "." in text else int(text)


def _spell(*parts):
    return "".join(f"{value:g}{unit}" for value, unit in parts if value)
