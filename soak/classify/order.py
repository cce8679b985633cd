"""
Whether the words and signs of a text stand in any order at all.

Shuffle a text, and it has more different neighbours: language and programs repeat their pairs. The structure of a
window is 1 − (different pairs of neighbours) / (those expected after shuffling); for pieces a and b that occur c_a and
c_b times among n, a shuffled text holds the pair with probability 1 − exp(−c_a c_b / n). Real text of 800 pieces has
0.07 and more, shuffled words and code fragments 0.02.
"""

import re
from collections import Counter
from itertools import pairwise

import numpy as np

from soak.classify.settings import Settings
from soak.classify.texture import mostly_hex

_PIECE = re.compile(r"[^\W\d_]+|\d+|[^\w\s]|_|\n")
_MIN_LETTERS, _MAX_LETTERS = 0.25, 0.95
_MAX_ROW_ENDS = 0.10
_MAX_WORD_CHARS = 12
_MAX_FOREIGN = 0.01
_MIN_STRUCTURE = -0.035


def without_order(text: str, settings: Settings) -> int | None:
    """
    Return from which character on the end of `text` has no order, or None; needs 300 pieces, and is surer with 800.

    Says nothing on rows, numbers, hashes, and scripts and languages in which its premise (words recur) does not hold.
    """
    found = list(_PIECE.finditer(text))
    for size, most, variety in (
        (800, settings.disorder_800, 0.52),
        (500, settings.disorder_500, 0.58),
        (300, settings.disorder_300, 0.62),
    ):
        if len(found) < size:
            continue
        start = found[-size].start()
        parts = [match.group() for match in found[-size:]]
        if _applies(parts, text[start:], variety) and _MIN_STRUCTURE <= structure(parts) < most:
            return found[_onset([match.group() for match in found], size, settings.disorder_800)].start()
    return None


def _onset(parts: list[str], size: int, most: float) -> int:
    """Return the piece from which on no stretch of `size` pieces (in steps of a quarter of it) has order."""
    at = len(parts) - size
    while at > 0 and structure(parts[max(0, at - size // 4) : at + size - size // 4]) < most:
        at = max(0, at - size // 4)
    return at


def structure(parts: list[str]) -> float:
    """Return the share of pairs of neighbours that order saves over chance: 0 for a shuffled text."""
    counts = Counter(parts)
    by_count = Counter(counts.values())
    sizes = np.array(list(by_count), dtype=np.float64)
    types = np.array(list(by_count.values()), dtype=np.float64)
    expected = types @ (1 - np.exp(-np.outer(sizes, sizes) / len(parts))) @ types
    pairs = len(set(pairwise(parts)))
    return float(1 - pairs / expected)


def _applies(parts: list[str], text: str, variety: float) -> bool:
    letters = sum(part.isalpha() for part in parts) / len(parts)
    foreign = sum(char > "\x7f" and char.isalpha() for char in text) / len(text)
    return (
        _MIN_LETTERS <= letters <= _MAX_LETTERS
        and len(set(parts)) <= variety * len(parts)
        and parts.count("\n") <= _MAX_ROW_ENDS * len(parts)
        and len(text) <= _MAX_WORD_CHARS * (len(text.split()) + 1)
        and foreign <= _MAX_FOREIGN
        and not mostly_hex(text)
    )
