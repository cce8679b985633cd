from datetime import date, datetime

import pytest

from spans import Duration, SpansError
from spans.duration import add_months


@pytest.mark.parametrize(
    "text, months, days, seconds",
    [
        ("P1Y", 12, 0, 0), ("P6M", 6, 0, 0), ("P1Y6M", 18, 0, 0), ("P2W", 0, 14, 0), ("P3D", 0, 3, 0), ("PT1H", 0, 0, 3600),
        ("PT90M", 0, 0, 5400), ("PT1.5H", 0, 0, 5400), ("PT0,5S", 0, 0, 0.5), ("P1DT12H", 0, 1, 43200), ("P1Y2M3W4DT5H6M7S", 14, 25, 18367),
        ("-P1Y", -12, 0, 0), ("-P2W", 0, -14, 0), ("+P1D", 0, 1, 0), (" P1D ", 0, 1, 0), ("PT0S", 0, 0, 0),
    ],
)
def test_parse(text, months, days, seconds):
    assert Duration.parse(text) == Duration(months, days, seconds)


@pytest.mark.parametrize("text", ["", "P", "PT", "1D", "P1", "P1H", "PT1D", "P1M1Y", "P-1D", "P1DT", "P1.5D", "one day", "--P1D"])
def test_parse_refuses(text):
    with pytest.raises(SpansError, match="not a duration"):
        Duration.parse(text)


@pytest.mark.parametrize("text", ["P1Y", "P1Y6M", "P14D", "PT1H30M", "P1DT12H", "PT0.5S", "-P1M", "-P3D", "PT0S", "P1Y2M25DT5H6M7S"])
def test_spelling_round_trip(text):
    assert str(Duration.parse(text)) == text


def test_mixed_signs_have_no_spelling():
    with pytest.raises(SpansError, match="both signs"):
        str(Duration(months=1, days=-1))


@pytest.mark.parametrize(
    "start, months, end",
    [
        (date(2024, 1, 31), 1, date(2024, 2, 29)), (date(2023, 1, 31), 1, date(2023, 2, 28)), (date(2024, 3, 31), -1, date(2024, 2, 29)),
        (date(2024, 12, 15), 1, date(2025, 1, 15)), (date(2024, 1, 15), -1, date(2023, 12, 15)), (date(2024, 2, 29), 12, date(2025, 2, 28)),
        (datetime(2024, 1, 31, 9), 3, datetime(2024, 4, 30, 9)), (date(2024, 5, 5), 0, date(2024, 5, 5)),
    ],
)
def test_add_months(start, months, end):
    assert add_months(start, months) == end


def test_add_months_out_of_range():
    with pytest.raises(SpansError, match="out of range"):
        add_months(date(9999, 12, 1), 1)


@pytest.mark.parametrize(
    "text, start, end",
    [
        ("P1M1D", date(2024, 1, 31), date(2024, 3, 1)), ("P1DT1H", datetime(2024, 2, 28, 23, 30), datetime(2024, 3, 1, 0, 30)),
        ("-P1M", date(2024, 3, 31), date(2024, 2, 29)), ("P1Y6M", date(2024, 8, 31), date(2026, 2, 28)),
    ],
)
def test_add_to(text, start, end):
    assert Duration.parse(text).add_to(start) == end


def test_no_time_on_a_date():
    with pytest.raises(SpansError, match="time part"):
        Duration.parse("PT1H").add_to(date(2024, 1, 1))


def test_arithmetic():
    assert Duration(1, 2, 3) + Duration(4, 5, 6) == Duration(5, 7, 9)
    assert -Duration(1, 2, 3) == Duration(-1, -2, -3)
    assert Duration(1, 2, 3) * 2 == Duration(2, 4, 6)
    assert not Duration()
