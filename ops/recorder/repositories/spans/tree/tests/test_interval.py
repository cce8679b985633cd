from datetime import date, datetime, timedelta

import pytest

from spans import Duration, Interval, IntervalSet, SpansError

DAY = date(2024, 3, 1)


def at(hour, minute=0):
    return datetime(2024, 3, 1, hour, minute)


def spans(text):
    return IntervalSet.parse(text, DAY)


@pytest.mark.parametrize(
    "text, start, end",
    [
        ("2024-03-01T09:00/2024-03-01T10:00", at(9), at(10)), ("2024-03-01T09:00/PT90M", at(9), at(10, 30)),
        ("PT1H/2024-03-01T09:00", at(8), at(9)), ("2024-03-01/P1D", datetime(2024, 3, 1), datetime(2024, 3, 2)),
    ],
)
def test_parse(text, start, end):
    assert Interval.parse(text) == Interval(start, end)


@pytest.mark.parametrize("text", ["", "2024-03-01", "a/b", "2024-03-01T09:00/P", "2024-03-01T09:00/2024-02-30T10:00"])
def test_parse_refuses(text):
    with pytest.raises(SpansError):
        Interval.parse(text)


def test_end_before_start():
    with pytest.raises(SpansError, match="cannot end"):
        Interval(at(10), at(9))


def test_half_open():
    interval = Interval(at(9), at(10))
    assert at(9) in interval
    assert at(10) not in interval
    assert at(9) not in Interval(at(9), at(9))


@pytest.mark.parametrize("first, second, overlap, touch", [
    ((9, 10), (10, 11), False, True), ((9, 11), (10, 12), True, True), ((9, 10), (11, 12), False, False), ((9, 12), (10, 11), True, True),
])
def test_overlaps_and_touches(first, second, overlap, touch):
    left, right = (Interval(at(a), at(b)) for a, b in (first, second))
    assert left.overlaps(right) is right.overlaps(left) is overlap
    assert left.touches(right) is right.touches(left) is touch


def test_shift():
    assert Interval(at(9), at(10)).shift(Duration.parse("PT30M")) == Interval(at(9, 30), at(10, 30))


@pytest.mark.parametrize(
    "text, normal",
    [
        ("9:00-10:00", ["09:00-10:00"]), ("9:00-10:00, 10:00-11:00", ["09:00-11:00"]), ("9:00-10:00, 9:30-11:00", ["09:00-11:00"]),
        ("11:00-12:00, 9:00-10:00", ["09:00-10:00", "11:00-12:00"]), ("9:00-9:00", []), ("9:00-10:00, 9:00-10:00", ["09:00-10:00"]),
        ("9:00-10:00, 9:00-11:00", ["09:00-11:00"]), ("22:00-24:00", ["22:00-00:00"]), ("", []),
    ],
)
def test_normal_form(text, normal):
    assert [f"{interval.start:%H:%M}-{interval.end:%H:%M}" for interval in spans(text)] == normal


@pytest.mark.parametrize(
    "left, operator, right, result",
    [
        ("9:00-10:00", "|", "11:00-12:00", "9:00-10:00, 11:00-12:00"), ("9:00-10:00", "|", "9:30-12:00", "9:00-12:00"),
        ("9:00-12:00", "&", "10:00-11:00", "10:00-11:00"), ("9:00-10:00, 11:00-12:00", "&", "9:30-11:30", "9:30-10:00, 11:00-11:30"),
        ("9:00-10:00", "&", "10:00-11:00", ""), ("9:00-12:00", "-", "10:00-11:00", "9:00-10:00, 11:00-12:00"),
        ("9:00-12:00", "-", "8:00-13:00", ""), ("9:00-12:00", "-", "", "9:00-12:00"), ("9:00-12:00", "-", "9:00-10:00, 11:30-12:00", "10:00-11:30"),
    ],
)
def test_set_operators(left, operator, right, result):
    a, b = spans(left), spans(right)
    assert {"|": a | b, "&": a & b, "-": a - b}[operator] == spans(result)


def test_total_and_gaps():
    busy = spans("9:00-10:00, 9:30-11:00, 13:00-14:00")
    assert busy.total() == timedelta(hours=3)
    assert busy.gaps() == spans("11:00-13:00")
    assert busy.gaps(Interval(at(8), at(18))) == spans("8:00-9:00, 11:00-13:00, 14:00-18:00")
    assert IntervalSet().gaps() == IntervalSet()


@pytest.mark.parametrize("text", ["9-10", "9:00", "25:00-26:00", "9:60-10:00", "24:01-24:02", "x"])
def test_wrong_clock_times(text):
    with pytest.raises(SpansError):
        spans(text)
