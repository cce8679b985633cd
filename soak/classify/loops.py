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

from soak.classify.pieces import Codes, Pieces, grams

_GRAM = 8
_HORIZON = 2048
_CANDIDATES = 8
_MIN_REPEATS = 12
_NEAR_END = 64

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


def periodic(codes: Codes, shape: Shape, lags: list[int]) -> list[Region]:
    """Return the exactly periodic stretches of the candidate periods: the longest that reaches the end, the longest."""
    regions = [region for lag in lags for region in _exact(codes, shape, lag)]
    regions.sort(key=lambda region: (-region.length + region.period, region.period))
    last = [region for region in regions if region.end >= len(codes) - _NEAR_END][:1]
    return last + [region for region in regions[:1] if region not in last]


def candidate_lags(back: Codes) -> list[int]:
    """Return the periods worth a look: the commonest distances, overall and near the end."""
    limit = max(1, (len(back) + _GRAM - 1) // 2)
    lags: dict[int, None] = {}
    for part in (back, back[-512:]):
        counts = np.bincount(part[(part > 0) & (part <= limit)], minlength=1)
        often = np.flatnonzero(counts >= _MIN_REPEATS)
        top = often[np.argsort(counts[often], kind="stable")[::-1][:_CANDIDATES]]
        lags.update((int(lag), None) for lag in top)
    return list(lags)


def _exact(codes: Codes, shape: Shape, lag: int) -> list[Region]:
    """Return the longest run of pieces that equal the one `lag` earlier, and the last run if it is another."""
    equal = codes[lag:] == codes[:-lag]
    edges = np.concatenate(([-1], np.flatnonzero(~equal), [len(equal)]))
    runs = np.diff(edges) - 1
    late = runs[-_NEAR_END:]
    chosen = {len(runs) - 1 - int(np.argmax(runs[::-1])), len(runs) - 1 - int(np.argmax(late[::-1]))}
    starts = [(int(edges[at]) + 1, int(runs[at])) for at in chosen if runs[at] >= lag]
    return [Region(shape, start, start + run + lag, lag, 1.0) for start, run in starts]


def near(codes: Codes, lags: list[int], match: float) -> list[Region]:
    """Return the stretches in which at least about `match` of the pieces equal the one a period earlier, as above."""
    found = []
    for lag in lags:
        equal = codes[lag:] == codes[:-lag]
        for start, end in best_segments(np.where(equal, 1 - match, -match)):
            if end - start >= 2 * lag:
                found.append(Region("near", start, end + lag, lag, float(equal[start:end].mean())))
    found.sort(key=lambda region: -region.length)
    last = [region for region in found if region.end >= len(codes) - _NEAR_END][:1]
    return last + [region for region in found[:1] if region not in last]


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


def drifts(codes: Codes, region: Region) -> bool:
    """Whether the variations of a near-periodic region fall anywhere, and not always on the slots of a form."""
    free, on_free = slot_variation(codes, region)
    return free <= 0.04 or on_free <= 0.5


def redundant(codes: Codes, back: Codes, share: float, size: int = _GRAM) -> list[Region]:
    """
    Return the stretches in which more than `share` of the grams of `size` repeat one of the last 2048 pieces.

    `back` are their distances. `match` is the mean number of times that a gram of the stretch occurs in it: 2 where a
    text is said twice.
    """
    if not len(back):
        return []
    found = []
    for start, end in best_segments(np.where((back > 0) & (back <= _HORIZON), 1 - share, -share)):
        distinct = len(np.unique(grams(codes[start : end + size - 1], size)))
        region = Region("redundant", start, min(len(codes), end + size - 1), 0, (end - start) / max(1, distinct))
        found.append(region)
    return found


def best_segments(scores: NDArray[np.float64]) -> list[tuple[int, int]]:
    """
    Return [start, end) of the best contiguous segment that reaches the end, and of the best one anywhere.

    The first maximises the sum of a suffix, the second that of any segment (Kadane 1984); none without positive sum.
    """
    if not len(scores):
        return []
    total = np.concatenate(([0.0], np.cumsum(scores)))
    lowest = np.minimum.accumulate(total)
    gain = total - lowest
    found = []
    for end in (_last_end(gain), len(gain) - 1 - int(np.argmax(gain[::-1]))):
        if gain[end] > 0:
            found.append((int(np.flatnonzero(total[: end + 1] == lowest[end])[-1]), end))
    return list(dict.fromkeys(found))


def _last_end(gain: NDArray[np.float64]) -> int:
    """Return the end of the segment whose gain is still positive at the end: its best point since it began."""
    zeros = np.flatnonzero(gain <= 0)
    start = int(zeros[-1]) if len(zeros) else 0
    return start + int(np.argmax(gain[start:]))


def steady_counters(pieces: Pieces, region: Region) -> bool:
    """Whether each number that changes from copy to copy is constant or grows by a fixed step (in 19 of 20 steps)."""
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
    return steps.count(common) >= 0.95 * len(steps)
