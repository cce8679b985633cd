"""
Salad: text without a period that no language or program would produce.

Four signs, the first three counted in windows of some hundred characters. *Scripts*: letters of three or more scripts directly
side by side (a translation keeps them apart by punctuation or lines). *Broken*: replacement characters, control
characters, and UTF-8 read as Latin-1. *Order*: English articles followed by words that cannot follow them, which
shuffled words do all the time. *No order*: the last words and signs do not care what stands beside them (module `order`).
"""

import re
import unicodedata
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from soak.classify.order import without_order
from soak.classify.settings import Settings
from soak.classify.words import ARTICLES, NEVER_AFTER_ARTICLE

_SAMPLE_WINDOWS = 600
_ORDER_CHARS = 12_000
_WORD = re.compile(r"[^\W\d_]+|[^\w\s]|\n|\d+")
_BYTE_SOUP = frozenset("\u00c2\u00c3\u00e2\u00ef\u00bf\u00bd\u00a4\ufffd")


class Salad(NamedTuple):
    """Where salad begins and ends (characters), and its sign."""

    kind: str
    start: int
    end: int


def find_salad(text: str, settings: Settings) -> Salad | None:
    """
    Return the salad in `text`: two bad windows in a row of which the last stands at the end, or a third of all bad.

    Very long texts are sampled: at most 600 windows, evenly spread, the last one among them. An end without any order
    is looked for where no window is bad.
    """
    size = int(settings.salad_window_chars)
    starts = _window_starts(len(text), size)
    signs = [window_sign(text, at, len(text) if at == starts[-1] else at + size, settings) for at in starts]
    bad = [k for k, sign in enumerate(signs) if sign]
    share = len(bad) / len(signs)
    paired = len(signs) == 1 or any(b - a == 1 for a, b in pairwise(bad))
    if not bad or not paired or not (share >= 0.34 or bad[-1] == len(signs) - 1):
        start = without_order(text[-_ORDER_CHARS:], settings)
        offset = max(0, len(text) - _ORDER_CHARS)
        return None if start is None else Salad("no_order", offset + start, len(text))
    end = len(text) if bad[-1] == len(signs) - 1 else starts[bad[-1] + 1]
    return Salad(signs[bad[0]] or "", starts[bad[0]], end)


def _window_starts(length: int, size: int) -> list[int]:
    starts = list(range(0, max(1, length - size // 2), size))
    if len(starts) <= _SAMPLE_WINDOWS:
        return starts
    step = len(starts) / _SAMPLE_WINDOWS
    return [starts[int(k * step)] for k in range(_SAMPLE_WINDOWS - 1)] + [starts[-1]]


def window_sign(text: str, start: int, end: int, settings: Settings) -> str | None:
    """Return the name of the sign of salad that characters [start, end) show, or None."""
    window = text[start:end]
    if not window.isascii():
        if broken_share(window) >= settings.salad_broken_share:
            return "broken_characters"
        switches, scripts = script_switches(window)
        if switches >= settings.salad_switches and scripts >= settings.salad_scripts:
            return "script_mix"
    # Articles are one word in ten: look two windows further, or back at the end, to have some.
    wide = 2 * (end - start)
    around = text[start : end + wide] if end < len(text) else text[max(0, start - wide) : end]
    pairs, articles = impossible_pairs(around)
    if pairs >= settings.salad_order_pairs and pairs >= settings.salad_order_share * articles:
        return "word_order"
    return None


def broken_share(text: str) -> float:
    """Return the share of characters that are replacement or control characters or misread UTF-8."""
    broken = sum(
        char in _BYTE_SOUP or (char < " " and char not in "\n\t\r") or "\x7f" <= char < "\xa0" for char in text
    )
    return broken / max(1, len(text)) if broken >= 12 else 0.0


def script_switches(text: str) -> tuple[float, int]:
    """Return (changes of script between letters at most a space apart, per 100 letters; scripts that take part)."""
    letters = changes = 0
    taking_part: set[str] = set()
    previous, gap = "", 0
    for char in text:
        script = _script(char)
        if not script:
            gap = gap + 1 if char == " " else 2
            continue
        letters += 1
        if previous and script != previous and gap <= 1:
            changes += 1
            taking_part.update((previous, script))
        previous, gap = script, 0
    return (100 * changes / letters if letters >= 40 else 0.0), len(taking_part)


@lru_cache(maxsize=1 << 14)
def _script(char: str) -> str:
    """Return the script of a letter ('' for anything else); Han and kana are one, since Japanese mixes them."""
    if not char.isalpha():
        return ""
    name = unicodedata.name(char, "UNKNOWN").split(" ", 1)[0]
    return "CJK" if name in ("CJK", "HIRAGANA", "KATAKANA", "HANGUL") else name


def impossible_pairs(text: str) -> tuple[int, int]:
    """Return (articles followed by a word that cannot follow one, articles) in English text."""
    words = _WORD.findall(text.lower())
    pairs = articles = 0
    for word, following in pairwise(words):
        if word in ARTICLES and following.isalpha():
            articles += 1
            pairs += following in NEVER_AFTER_ARTICLE
    return pairs, articles
