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
_NEXT_SENTENCE = re.compile(r"(?<=[.!?])\s+(\S)")
_MIN_LETTERS, _MAX_LETTERS = 0.25, 0.95
_MAX_ROW_ENDS = 0.10
_MAX_LINE_ENDS = 0.04
_MAX_WORD_CHARS = 12
_MAX_FOREIGN = 0.01
_FOREIGN_VARIETY = 0.85
_MIN_STRUCTURE = -0.035
_PHRASE = 6
_MIN_WORDS = 0.15


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


def without_phrases(text: str, settings: Settings) -> int | None:
    """
    Return from which character on the end of `text` strings few different pieces together and no phrase recurs.

    Who gets along with a few words repeats phrases of them; fragments drawn at random do not.
    """
    found = list(_PIECE.finditer(text))
    size = int(settings.fragment_pieces)
    if len(found) < size:
        return None
    parts = [match.group() for match in found[-size:]]
    start = found[-size].start()
    words = sum(len(part) > 1 and part.isalpha() for part in parts)
    phrases = list(zip(*(parts[k:] for k in range(_PHRASE)), strict=False))
    repeated = 1 - len(set(phrases)) / len(phrases)
    fragments = (
        len(set(parts)) <= settings.fragment_distinct
        and repeated <= settings.fragment_phrases
        and words >= _MIN_WORDS * size
        and parts.count("\n") <= _MAX_LINE_ENDS * size
        and not mostly_hex(text[start:])
        and not _in_sentences(text[start:])
    )
    return start if fragments else None


def _in_sentences(text: str) -> bool:
    """Whether the text is cut into sentences, of 40 words at most, of which nine in ten begin with a capital letter."""
    begins = _NEXT_SENTENCE.findall(text)
    capitals = sum(map(str.isupper, begins))
    return 40 * len(begins) >= len(text.split()) and capitals >= 0.9 * len(begins)


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
    if sum(char > "\x7f" and char.isalpha() for char in text) > _MAX_FOREIGN * len(text):
        # Languages that inflect more have less structure and more different words.
        variety *= _FOREIGN_VARIETY
    return (
        _MIN_LETTERS <= letters <= _MAX_LETTERS
        and len(set(parts)) <= variety * len(parts)
        and parts.count("\n") <= _MAX_ROW_ENDS * len(parts)
        and len(text) <= _MAX_WORD_CHARS * (len(text.split()) + 1)
        and not mostly_hex(text)
        # The usual placeholder text is meant to have no order.
        and not ("dolor" in text and "amet" in text)
    )
