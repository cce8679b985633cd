"""Loops that reshuffle a few sentences: no period, but almost nothing said is new."""

import re
from collections import Counter
from typing import NamedTuple

import numpy as np

from soak.classify.loops import best_segments

_SENTENCE = re.compile(r"[^.!?\u3002\uff01\uff1f\n]+[.!?\u3002\uff01\uff1f\n]*")
_WORDS = re.compile(r"[^\W\d_]{2,}\W+[^\W\d_]{2,}|[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]{2}")
_EDGES = " \t\r\n.!?,;:*#>-\u3002\uff01\uff1f"
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_MIN_WORDS = 3
_MIN_COPIES = 3
_MIN_REPEATED = 12
_MAX_WEIGHT = 40


class Pool(NamedTuple):
    """Characters [start, end): `total` sentences, `distinct` different ones; `unit` is the commonest."""

    start: int
    end: int
    total: int
    distinct: int
    unit: str


def find_pools(text: str, redundancy: float) -> list[Pool]:
    """
    Return the stretches of `text` (the last one, the best one) whose sentences are mostly repeats of earlier ones.

    More than `redundancy` of their words stand in sentences said before. Case and the signs around a sentence do not
    count; sentences of fewer than three words say nothing.
    """
    if not _says_things_twice(text):
        return []
    spans, keys, weights = _sentences(text)
    first: dict[str, int] = {}
    seen = np.array([first.setdefault(key, at) != at for at, key in enumerate(keys)], dtype=bool)
    scores = np.where(seen, 1 - redundancy, -redundancy) * np.array(weights, dtype=np.float64)
    return [_pool(text, spans, keys, segment) for segment in best_segments(scores)]


def _says_things_twice(text: str) -> bool:
    """Whether enough sentences occur three times and more to look closer: most texts need not be."""
    counts = Counter(_SENTENCE.findall(text))
    return (
        sum(count for part, count in counts.items() if count >= _MIN_COPIES and _words_of(part.strip(_EDGES)))
        >= _MIN_REPEATED
    )


def _pool(text: str, spans: list[tuple[int, int]], keys: list[str], segment: tuple[int, int]) -> Pool:
    start, end = segment
    # The first copies lie before the segment; they belong to the loop.
    start = max(0, start - len(set(keys[start:end])))
    counts = Counter(keys[start:end])
    commonest, _ = counts.most_common(1)[0]
    unit = text[slice(*spans[start + keys[start:end].index(commonest)])]
    return Pool(spans[start][0], spans[end - 1][1], end - start, len(counts), unit)


def _sentences(text: str) -> tuple[list[tuple[int, int]], list[str], list[int]]:
    spans, keys, weights = [], [], []
    for found in _SENTENCE.finditer(text):
        key = found.group().strip(_EDGES).casefold()
        count = _words_of(key)
        if count:
            spans.append(found.span())
            keys.append(key)
            weights.append(min(count, _MAX_WEIGHT))
    return spans, keys, weights


def _words_of(key: str) -> int:
    """Return how many words a sentence has; 0 for one that says nothing."""
    count = key.count(" ") + 1 if key.isascii() else len(key.split()) + len(_CJK.findall(key)) // 2
    return count if count >= _MIN_WORDS and _WORDS.search(key) else 0
