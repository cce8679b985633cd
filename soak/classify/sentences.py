"""Loops that reshuffle a few sentences: no period, but almost nothing said is new."""

import re
from typing import NamedTuple

import numpy as np

from soak.classify.loops import best_segment

_SENTENCE = re.compile(r"[^.!?\u3002\uff01\uff1f\n]+[.!?\u3002\uff01\uff1f\n]*")
_WORD = re.compile(r"[^\W_]+")
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_MIN_WORDS = 3
_MAX_WEIGHT = 40


class Pool(NamedTuple):
    """Characters [start, end): `total` sentences, `distinct` different ones; `share` of the words is repeated."""

    start: int
    end: int
    total: int
    distinct: int
    share: float
    unit: str


def find_pool(text: str, redundancy: float) -> Pool | None:
    """
    Return the stretch of `text` in which more than `redundancy` of the words stand in sentences said before.

    Sentences are compared by their words and numbers (case, punctuation and spaces do not count); those of fewer than
    three words say nothing.
    """
    spans, keys, weights = _sentences(text)
    if not keys:
        return None
    first: dict[str, int] = {}
    seen = np.array([first.setdefault(key, at) != at for at, key in enumerate(keys)], dtype=bool)
    weight = np.array(weights, dtype=np.float64)
    start, end = best_segment(np.where(seen, 1 - redundancy, -redundancy) * weight)
    if end <= start:
        return None
    # The first copies lie before the segment; they belong to the loop if it took them from close by.
    start = max(0, start - len(set(keys[start:end])))
    inside = keys[start:end]
    commonest = max(set(inside), key=inside.count) if len(inside) < 2000 else inside[-1]
    at = start + inside.index(commonest)
    share = float(weight[start:end][seen[start:end]].sum() / weight[start:end].sum())
    return Pool(spans[start][0], spans[end - 1][1], len(inside), len(set(inside)), share, text[slice(*spans[at])])


def _sentences(text: str) -> tuple[list[tuple[int, int]], list[str], list[int]]:
    spans, keys, weights = [], [], []
    for found in _SENTENCE.finditer(text):
        words = _WORD.findall(found.group())
        count = len(words) + len(_CJK.findall(found.group())) // 2
        if count >= _MIN_WORDS:
            spans.append(found.span())
            keys.append(" ".join(words).casefold())
            weights.append(min(count, _MAX_WEIGHT))
    return spans, keys, weights
