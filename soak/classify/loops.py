"""
Loops in a finished text, all periods at once.

Each run of eight pieces is looked up where it occurred last; the distances seen most often are the candidate periods.
For a period p the text is compared with itself p pieces earlier: a maximal run of equal pieces is an exact loop, and
with numbers masked a counter; a segment of maximal score (+1 equal, a penalty for unequal) is a loop with variations.
Loops without a period show as redundancy: sentences said before, or 8-grams that repeat a recent one. Everything is
numpy over arrays as long as the text, so cost is linear.
"""

from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from soak.classify.pieces import Codes, Pieces, distances, grams
from soak.classify.settings import Settings

_GRAM = 8
_HORIZON = 2048
_CANDIDATES = 8

Shape = Literal["exact", "masked", "near", "redundant"]


class Region(NamedTuple):
    """A stretch of pieces [start, end) that repeats with `period` (0: without one); `match` is the share that does."""

    shape: Shape
    start: int
    end: int
    period: int
    match: float

    @property
    def length(self) -> int:
        """Pieces in the region."""
        return self.end - self.start

    @property
    def copies(self) -> float:
        """Times the unit occurs; 0 without a period."""
        return self.length / self.period if self.period else 0.0


def periodic(codes: Codes, shape: Shape, back: Codes | None = None) -> list[Region]:
    """Return the longest exactly periodic stretch of each candidate period, longest first."""
    back = distances(codes, _GRAM) if back is None else back
    regions = [_exact(codes, shape, lag) for lag in candidate_lags(codes, back)]
    return sorted((r for r in regions if r.period), key=lambda r: (-r.length + r.period, r.period))


def candidate_lags(codes: Codes, back: Codes) -> list[int]:
    """Return the periods worth a look: the commonest distances, overall and near the end, and the small ones."""
    limit = max(1, len(codes) // 2)
    lags: dict[int, None] = {}
    for part in (back, back[-512:]):
        counts = np.bincount(part[(part > 0) & (part <= limit)], minlength=1)
        top = np.argsort(counts)[::-1][:_CANDIDATES]
        lags.update((int(lag), None) for lag in top if counts[lag] > 0 and lag > 0)
    return list(lags)


def _exact(codes: Codes, shape: Shape, lag: int) -> Region:
    equal = codes[lag:] == codes[:-lag]
    breaks = np.flatnonzero(~equal)
    edges = np.concatenate(([-1], breaks, [len(equal)]))
    runs = np.diff(edges) - 1
    best = len(runs) - 1 - int(np.argmax(runs[::-1]))
    if runs[best] < lag:
        return Region(shape, 0, 0, 0, 0.0)
    start = int(edges[best]) + 1
    return Region(shape, start, start + int(runs[best]) + lag, lag, 1.0)


def near(codes: Codes, back: Codes, match: float) -> Region | None:
    """Return the best stretch in which at least about `match` of the pieces equal the one a period earlier."""
    best = None
    for lag in candidate_lags(codes, back):
        equal = codes[lag:] == codes[:-lag]
        start, end = best_segment(np.where(equal, 1 - match, -match))
        if end - start < 2 * lag:
            continue
        region = Region("near", start, end + lag, lag, float(equal[start:end].mean()))
        if best is None or region.length > best.length:
            best = region
    return best


def slot_variation(codes: Codes, region: Region) -> tuple[float, float]:
    """
    Return how the variation of a near-periodic region lies on the slots of its period: (share of slots that mostly
    change, share of mismatches on those slots). Filled-in forms change always at the same few slots; a drifting loop
    changes anywhere.
    """
    lag = region.period
    body = codes[region.start : region.end]
    rows = len(body) // lag
    if rows < 3:
        return 0.0, 0.0
    table = body[: rows * lag].reshape(rows, lag)
    changed = (table[1:] != table[:-1]).mean(axis=0)
    total = float(changed.sum())
    free = changed > 0.5
    return float(free.mean()), float(changed[free].sum()) / total if total else 0.0


def redundant(codes: Codes, back: Codes, share: float, size: int = _GRAM) -> Region | None:
    """
    Return the stretch in which more than `share` of the grams of `size` repeat one of the last 2048 pieces.

    `back` are their distances. `match` is the mean number of times that a gram of the stretch occurs in it: 2 where a
    text is said twice.
    """
    if not len(back):
        return None
    repeated = (back > 0) & (back <= _HORIZON)
    start, end = best_segment(np.where(repeated, 1 - share, -share))
    if end <= start:
        return None
    distinct = len(np.unique(grams(codes[start : end + size - 1], size)))
    return Region("redundant", start, min(len(codes), end + size - 1), 0, (end - start) / max(1, distinct))


def narrow(pieces: Pieces, settings: Settings) -> Region | None:
    """
    Return the stretch at the end that gets along with a handful of words in no order.

    Windows of words are taken from the end backwards as long as each, and all together, hold few different ones. The
    `match` is the mean number of times that each word occurs.
    """
    words = np.flatnonzero(pieces.is_word)
    size, most = int(settings.narrow_window_words), settings.narrow_distinct
    start = len(words)
    while start >= size and len(np.unique(pieces.codes[words[start - size :]])) <= most:
        start -= size
    count = len(words) - start
    if count < 2 * size:
        return None
    distinct = len(np.unique(pieces.codes[words[start:]]))
    return Region("redundant", int(words[start]), int(words[-1]) + 1, 0, count / distinct)


def best_segment(scores: NDArray[np.float64]) -> tuple[int, int]:
    """Return [start, end) of the contiguous segment with the largest sum (Kadane 1984); (0, 0) if none is positive."""
    if not len(scores):
        return 0, 0
    total = np.concatenate(([0.0], np.cumsum(scores)))
    lowest = np.minimum.accumulate(total)
    gain = total - lowest
    end = len(gain) - 1 - int(np.argmax(gain[::-1]))
    if gain[end] <= 0:
        return 0, 0
    start = int(np.flatnonzero(total[: end + 1] == lowest[end])[-1])
    return start, end


def steady_counters(pieces: Pieces, region: Region) -> bool:
    """Whether each number that changes from copy to copy is constant or grows by a fixed step (in 9 of 10 steps)."""
    lag, rows = region.period, min(64, int(region.copies))
    first = region.end - rows * lag
    for slot in range(lag):
        at = [first + slot + k * lag for k in range(rows)]
        if pieces.masked[at[0]] == 0 and not _steady([pieces.parts[i] for i in at]):
            return False
    return True


def _steady(numbers: list[str]) -> bool:
    values = [int(number) if number.isascii() else 0 for number in numbers]
    steps = [after - before for before, after in pairwise(values)]
    common = max(set(steps), key=steps.count)
    return steps.count(common) >= 0.9 * len(steps)
