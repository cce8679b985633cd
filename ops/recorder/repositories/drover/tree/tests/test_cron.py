from datetime import datetime

import pytest

from drover import Cron, DroverError
from drover.cron import parse_field


@pytest.mark.parametrize(
    "text, values",
    [
        ("*", set(range(60))), ("5", {5}), ("1,3,5", {1, 3, 5}), ("10-13", {10, 11, 12, 13}), ("*/15", {0, 15, 30, 45}), ("10-30/10", {10, 20, 30}),
        ("50/3", {50, 53, 56, 59}), ("0,30-32", {0, 30, 31, 32}), ("59", {59}), ("0-59/59", {0, 59}),
    ],
)
def test_fields(text, values):
    assert parse_field(text, "minute", 0, 59) == values


@pytest.mark.parametrize("text", ["", "a", "60", "5-1", "1-60", "*/0", "*/x", "1,,2", "-5", "1-"])
def test_wrong_fields(text):
    with pytest.raises(DroverError, match="minute"):
        parse_field(text, "minute", 0, 59)


@pytest.mark.parametrize("text", ["* * * *", "* * * * * *", "* * 0 * *", "* * * 13 *", "* * * * 8", "* 24 * * *"])
def test_wrong_expressions(text):
    with pytest.raises(DroverError):
        Cron(text)


@pytest.mark.parametrize(
    "text, start, expected",
    [
        ("* * * * *", "2024-03-01T00:00", "2024-03-01T00:01"), ("0 * * * *", "2024-03-01T00:00", "2024-03-01T01:00"),
        ("30 6 * * *", "2024-03-01T06:30", "2024-03-02T06:30"), ("30 6 * * *", "2024-03-01T06:29", "2024-03-01T06:30"),
        ("0 0 1 * *", "2024-03-01T00:00", "2024-04-01T00:00"), ("0 0 29 2 *", "2024-03-01T00:00", "2028-02-29T00:00"),
        ("0 12 * * 1", "2024-03-01T00:00", "2024-03-04T12:00"), ("0 12 * * 0", "2024-03-01T00:00", "2024-03-03T12:00"),
        ("0 12 * * 7", "2024-03-01T00:00", "2024-03-03T12:00"), ("0 12 * * 1-5", "2024-03-01T13:00", "2024-03-04T12:00"),
        ("*/20 9-10 * * *", "2024-03-01T09:50", "2024-03-01T10:00"), ("59 23 31 12 *", "2024-12-31T23:59", "2025-12-31T23:59"),
    ],
)
def test_next(text, start, expected):
    assert Cron(text).next_after(datetime.fromisoformat(start)) == datetime.fromisoformat(expected)


def test_nothing_matches():
    with pytest.raises(DroverError, match="matches nothing"):
        Cron("0 0 31 2 *").next_after(datetime(2024, 1, 1))
