"""Where a deviation began: the place from which the cumulative evidence rises to its greatest height (CUSUM)."""

import math

import numpy as np

from soak.stats.lossless.scores import Scores


def onset_of_outside(scores: Scores, rate: float) -> int | None:
    """Return the row at which tokens outside the law began to come; None if there is none."""
    found = int(scores.outside.sum())
    if not found:
        return None
    now = max(min(found / len(scores.outside), 0.5), 10 * rate)
    logs = np.where(scores.outside, math.log(now / rate), math.log1p(-now) - math.log1p(-rate))
    return _rise(logs)


def onset_of_shift(scores: Scores) -> int | None:
    """
    Return the row at which the mean shift began; None if there is none beyond the tolerance.

    Page's rule: deviations from halfway between what is tolerated and what was seen. (Page, Biometrika 41 (1954) 100.)
    """
    rows = np.flatnonzero(scores.steady & scores.drawn)
    if not len(rows):
        return None
    mean = float(scores.shift[rows].mean())
    allowed = float(scores.allowed[rows].mean())
    if abs(mean) <= allowed:
        return None
    return int(rows[_rise(np.sign(mean) * scores.shift[rows] - (abs(mean) + allowed) / 2)])


def _rise(steps: np.ndarray) -> int:
    """Return the first step of the steepest climb: after the lowest point before the top of the climb."""
    path = np.concatenate([[0.0], np.cumsum(steps)])
    lowest = np.minimum.accumulate(path)
    top = int((path - lowest).argmax())
    return min(int(path[: top + 1].argmin()), len(steps) - 1)
