"""Floods: one character over and over, or nothing but white space."""

from typing import NamedTuple

from soak.classify.settings import Settings


class Flood(NamedTuple):
    """Characters [start, end) of a flood, and the one it consists of."""

    kind: str
    start: int
    end: int
    unit: str


def find_flood(text: str, settings: Settings) -> Flood | None:
    """Return the flood that reaches the end of `text` (but for a closing quote or brace), if there is one."""
    body = text.rstrip()
    if len(text) - len(body) >= settings.flood_blank_chars:
        return Flood("blank_flood", len(body), len(text), text[len(body)])
    trimmed = body.rstrip("\"'}]) \n`") or body
    for candidate in (body, trimmed):
        start = len(candidate.rstrip(candidate[-1])) if candidate else 0
        size = len(candidate) - start
        if size >= settings.flood_chars * (1 if 2 * size >= len(text) else 2):
            return Flood("char_flood", start, len(candidate), candidate[-1])
    return None
