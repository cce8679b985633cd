"""Working days: a calendar of holidays and arithmetic on it."""

import json
from datetime import date, timedelta
from pathlib import Path

from spans.errors import SpansError

ONE_DAY = timedelta(days=1)
SATURDAY = 5
LIMIT = 50_000


class WorkCalendar:
    """Holidays by date. Dates outside of the years it has holidays for are refused."""

    def __init__(self, holidays):
        self.holidays = dict(holidays)
        self.years = {day.year for day in self.holidays}

    @classmethod
    def load(cls, path):
        """Read a JSON file of the form {"2024-01-01": "New Year's Day", …}."""
        try:
            entries = json.loads(Path(path).read_text(encoding="utf-8"))
            return cls({date.fromisoformat(day): name for day, name in entries.items()})
        except (OSError, ValueError, AttributeError) as problem:
            raise SpansError(f"not a calendar: {path}: {problem}") from None

    def is_workday(self, day):
        """Whether the day is neither on a weekend nor a holiday."""
        if day.year not in self.years:
            raise SpansError(f"the calendar has no holidays for {day.year}")
        return day.weekday() < SATURDAY and day not in self.holidays

    def add(self, day, count):
        """Return the day `count` working days later; see the README for negative counts and zero."""
        if abs(count) > LIMIT:
            raise SpansError(f"{count} working days are too many")
        while not self.is_workday(day):
            day += ONE_DAY
        for _ in range(count):
            day += ONE_DAY
            while not self.is_workday(day):
                day += ONE_DAY
        return day

    def count(self, start, end):
        """Return the number of working days from `start` up to, but not including, `end`."""
        if end < start:
            return -self.count(end, start)
        days = (start + timedelta(days=number) for number in range((end - start).days))
        return sum(self.is_workday(day) for day in days)

    def next_holiday(self, day):
        """Return (date, name) of the first holiday on or after a day."""
        later = sorted(holiday for holiday in self.holidays if holiday >= day)
        if not later:
            raise SpansError(f"the calendar has no holidays after {day}")
        return later[0], self.holidays[later[0]]
