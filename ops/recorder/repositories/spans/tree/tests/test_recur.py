from datetime import date

import pytest

from spans import Rule, SpansError
from spans.recur import nth_weekday


def days(text, start, count=None):
    return [day.isoformat() for day in Rule.parse(text).dates(date.fromisoformat(start), count)]


@pytest.mark.parametrize(
    "text, start, expected",
    [
        ("every day", "2024-02-28", ["2024-02-28", "2024-02-29", "2024-03-01"]),
        ("every 10 days", "2024-02-28", ["2024-02-28", "2024-03-09", "2024-03-19"]),
        ("every week", "2024-01-03", ["2024-01-03", "2024-01-10", "2024-01-17"]),
        ("every week on mon, thu", "2024-01-03", ["2024-01-04", "2024-01-08", "2024-01-11"]),
        ("every 2 weeks on mon, thu", "2024-01-01", ["2024-01-01", "2024-01-04", "2024-01-15"]),
        ("every month", "2024-01-15", ["2024-01-15", "2024-02-15", "2024-03-15"]),
        ("every 3 months", "2024-11-15", ["2024-11-15", "2025-02-15", "2025-05-15"]),
        ("every month on day 10", "2024-01-15", ["2024-02-10", "2024-03-10", "2024-04-10"]),
        ("every month on day 31", "2024-03-01", ["2024-03-31", "2024-04-30", "2024-05-31"]),
        ("every month on last fri", "2024-01-01", ["2024-01-26", "2024-02-23", "2024-03-29"]),
        ("every month on 2nd tue", "2024-01-10", ["2024-02-13", "2024-03-12", "2024-04-09"]),
        ("every year", "2024-03-01", ["2024-03-01", "2025-03-01", "2026-03-01"]),
        ("every year", "2024-02-29", ["2024-02-29", "2025-02-28", "2026-02-28"]),
    ],
)
def test_dates(text, start, expected):
    assert days(text, start, 3) == expected


def test_until():
    assert days("every week until 2024-01-20", "2024-01-03") == ["2024-01-03", "2024-01-10", "2024-01-17"]
    assert days("every day until 2023-12-31", "2024-01-01") == []


@pytest.mark.parametrize(
    "text", ["", "every", "every 0 days", "weekly", "every day on mon", "every week on xyz", "every month on day 32", "every month on 5th mon", "every year on day 1"]
)
def test_refused(text):
    with pytest.raises(SpansError):
        Rule.parse(text)


@pytest.mark.parametrize("ordinal, weekday, day", [(1, 0, 1), (2, 0, 8), (-1, 0, 29), (1, 6, 7), (4, 2, 24), (-1, 2, 31)])
def test_nth_weekday(ordinal, weekday, day):
    assert nth_weekday(2024, 1, ordinal, weekday) == date(2024, 1, day)
