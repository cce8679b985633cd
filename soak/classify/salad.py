"""
Salad: text without a period that no language or program would produce.

Four signs, the first three counted in windows of some hundred characters. *Scripts*: letters of three or more scripts
directly side by side (a translation keeps them apart by punctuation or lines). *Broken*: replacement characters,
control characters, and UTF-8 read as Latin-1. *Word order*: English articles followed by words that cannot follow them,
which shuffled words do all the time. *No order*: the last words and signs do not care what stands beside them (module
`order`).
"""

import re
import unicodedata
from bisect import bisect_left
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from soak.classify.order import without_order, without_phrases
from soak.classify.settings import Settings
from soak.classify.words import NEVER_AFTER_ARTICLE

_SAMPLE_WINDOWS = 600
_ORDER_CHARS = 12_000
# A short end is salad alone if it has so many times the broken characters, or the changes of script, of a bad window.
_DENSE_BROKEN = 4
_DENSE_SWITCHES = 2.5
_ARTICLE = re.compile(r"(?:the|an|of) ([a-z]+)(?![^\W_])")
_BYTE_SOUP = frozenset("\u00c2\u00c3\u00d0\u00d1\u00e2\u00ef\u00bf\u00bd\u00a4\ufffd")


class Salad(NamedTuple):
    """Where salad begins and ends (characters), and its sign."""

    kind: str
    start: int
    end: int


def find_salad(text: str, settings: Settings) -> Salad | None:
    """
    Return the salad in `text`: two bad windows in a row of which the last stands at the end, or a third of all bad.

    Very long texts are sampled: at most 600 windows, evenly spread, the last one among them. Where the windows show
    nothing, a shorter end that is all the worse is looked for, and one without any order.
    """
    size = int(settings.salad_window_chars)
    starts = _window_starts(len(text), size)
    pairs = _ImpossiblePairs(text)
    signs = []
    for start in starts:
        end = len(text) if start == starts[-1] else start + size
        signs.append(window_sign(text[start:end], settings) or pairs.sign(start, end, settings))
    bad = [k for k, sign in enumerate(signs) if sign]
    paired = len(signs) == 1 or any(b - a == 1 for a, b in pairwise(bad))
    if not bad or not paired or not (len(bad) >= 0.34 * len(signs) or bad[-1] == len(signs) - 1):
        return _dense_end(text, settings) or _at_the_end(text, settings)
    end = len(text) if bad[-1] == len(signs) - 1 else starts[bad[-1] + 1]
    return Salad(signs[bad[0]] or "", starts[bad[0]], end)


def _dense_end(text: str, settings: Settings) -> Salad | None:
    """Return salad shorter than two windows: the last half of one that is bad several times over."""
    start = max(0, len(text) - int(settings.salad_window_chars) // 2)
    window = text[start:]
    if window.isascii():
        return None
    if broken_share(window) >= _DENSE_BROKEN * settings.salad_broken_share:
        return Salad("broken_characters", start, len(text))
    switches, scripts = script_switches(window)
    if scripts >= settings.salad_scripts and switches >= _DENSE_SWITCHES * settings.salad_switches:
        return Salad("script_mix", start, len(text))
    return None


def _at_the_end(text: str, settings: Settings) -> Salad | None:
    offset = max(0, len(text) - _ORDER_CHARS)
    for kind, search in (("no_order", without_order), ("fragments", without_phrases)):
        at = search(text[offset:], settings)
        if at is not None:
            return Salad(kind, offset + at, len(text))
    return None


def _window_starts(length: int, size: int) -> list[int]:
    starts = list(range(0, max(1, length - size // 2), size))
    if len(starts) <= _SAMPLE_WINDOWS:
        return starts
    step = len(starts) / _SAMPLE_WINDOWS
    return [starts[int(k * step)] for k in range(_SAMPLE_WINDOWS - 1)] + [starts[-1]]


def window_sign(window: str, settings: Settings) -> str | None:
    """Return the name of the sign of salad that the characters of a window show, or None."""
    if window.isascii():
        return None
    if broken_share(window) >= settings.salad_broken_share:
        return "broken_characters"
    switches, scripts = script_switches(window)
    few = scripts == settings.salad_scripts - 1
    if scripts >= settings.salad_scripts - few and switches >= settings.salad_switches * (2.5 if few else 1):
        return "script_mix"
    return None


class _ImpossiblePairs:
    """Where the articles of a text stand, and which of them are followed by a word that cannot follow one."""

    def __init__(self, text: str) -> None:
        lower = text.lower()
        found = [
            (match.start(), match.group(1) in NEVER_AFTER_ARTICLE)
            for match in _ARTICLE.finditer(lower)
            # In place of a look-behind, which would keep the search from leaping from t to t.
            if not lower[match.start() - 1 : match.start()].isalnum()
        ]
        self._length = len(text)
        self._articles = [at for at, _ in found]
        self._impossible = [at for at, impossible in found if impossible]

    def sign(self, start: int, end: int, settings: Settings) -> str | None:
        """Return `word_order` if too many articles around [start, end) are followed by an impossible word."""
        # Articles are one word in ten: look two windows further, or back at the end, to have some.
        wide = 2 * (end - start)
        low, high = (start, end + wide) if end < self._length else (start - wide, end)
        pairs = bisect_left(self._impossible, high) - bisect_left(self._impossible, low)
        if pairs < settings.salad_order_pairs:
            return None
        articles = bisect_left(self._articles, high) - bisect_left(self._articles, low)
        return "word_order" if pairs >= settings.salad_order_share * articles else None


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
    """
    Return the script of a letter, '' for anything else.

    Han, kana and hangul count as one, since they are mixed; Greek letters are none, since they stand for quantities.
    """
    if not char.isalpha():
        return ""
    name = unicodedata.name(char, "UNKNOWN").split(" ", 1)[0]
    if name == "GREEK":
        return ""
    return "CJK" if name in ("CJK", "HIRAGANA", "KATAKANA", "HANGUL") else name
