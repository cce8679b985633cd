from datetime import date
from pathlib import Path

import pytest

from spans import SpansError, WorkCalendar

PATH = Path(__file__).parent.parent / "data" / "holidays.json"


@pytest.fixture(scope="module")
def calendar():
    return WorkCalendar.load(PATH)


@pytest.mark.parametrize("day, work", [("2024-03-28", True), ("2024-03-29", False), ("2024-03-30", False), ("2024-04-01", False), ("2024-04-02", True)])
def test_is_workday(calendar, day, work):
    assert calendar.is_workday(date.fromisoformat(day)) is work


@pytest.mark.parametrize(
    "day, count, result",
    [
        ("2024-03-28", 0, "2024-03-28"), ("2024-03-28", 1, "2024-04-02"), ("2024-03-28", 2, "2024-04-03"), ("2024-03-29", 0, "2024-04-02"),
        ("2024-01-05", 1, "2024-01-08"), ("2024-01-05", 5, "2024-01-12"), ("2023-12-22", 3, "2023-12-29"),
    ],
)
def test_add(calendar, day, count, result):
    assert calendar.add(date.fromisoformat(day), count) == date.fromisoformat(result)


@pytest.mark.parametrize(
    "start, end, count",
    [("2024-01-08", "2024-01-12", 4), ("2024-01-08", "2024-01-15", 5), ("2024-01-06", "2024-01-08", 0), ("2024-03-25", "2024-04-08", 8), ("2024-01-08", "2024-01-08", 0)],
)
def test_count(calendar, start, end, count):
    assert calendar.count(date.fromisoformat(start), date.fromisoformat(end)) == count
    assert calendar.count(date.fromisoformat(end), date.fromisoformat(start)) == -count


def test_unknown_year(calendar):
    with pytest.raises(SpansError, match="no holidays for 2019"):
        calendar.is_workday(date(2019, 1, 1))


def test_next_holiday(calendar):
    assert calendar.next_holiday(date(2024, 5, 2)) == (date(2024, 5, 6), "Early May Bank Holiday")


def test_not_a_calendar(tmp_path):
    (tmp_path / "x.json").write_text("[]")
    with pytest.raises(SpansError, match="not a calendar"):
        WorkCalendar.load(tmp_path / "x.json")
