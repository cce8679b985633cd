"""Sizes and durations as people write them."""

import re

UNITS = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3}
SECONDS = {"s": 1, "m": 60, "h": 3600}


def parse_size(text):
    """Return the bytes in a text such as "512", "4k" or "2G"."""
    match = re.fullmatch(r"(\d+)([kmgG]?)", text.strip())
    if match is None:
        raise ValueError(f"not a size: {text!r}")
    return int(match[1]) * UNITS[match[2].lower()]


def format_size(count):
    """Return a number of bytes with one decimal and a unit."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count <= 1024:
            return f"{count} B" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def parse_duration(text):
    """Return the seconds in a text such as "90s" or "1h30m"."""
    parts = re.findall(r"(\d+)([smh])", text)
    return sum(int(number) * SECONDS[unit] for number, unit in parts)
