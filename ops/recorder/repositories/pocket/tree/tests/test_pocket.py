import pytest

from pocket import format_size, parse_duration, parse_size


@pytest.mark.parametrize("text, count", [("0", 0), ("512", 512), ("4k", 4096), ("2G", 2 * 1024**3), (" 3m ", 3 * 1024**2)])
def test_parse_size(text, count):
    assert parse_size(text) == count


@pytest.mark.parametrize("count, text", [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (5 * 1024**2, "5.0 MiB")])
def test_format_size(count, text):
    assert format_size(count) == text


@pytest.mark.parametrize("text, seconds", [("90s", 90), ("2m", 120), ("1h30m", 5400)])
def test_parse_duration(text, seconds):
    assert parse_duration(text) == seconds
