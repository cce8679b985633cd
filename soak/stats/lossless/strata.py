"""
Tests of the mean shift looked at once: pooled, and by the reference's confidence.

By confidence because errors of opposite sign cancel: an unchecked draft makes sure places surer and open ones stranger.
"""

import math
from typing import NamedTuple

import numpy as np

from soak.stats.lossless.bars import Bars
from soak.stats.lossless.scores import Scores


class ShiftZ(NamedTuple):
    """A tolerant z: how far the sum of shifts lies beyond what is tolerated, in standard deviations; never below 0."""

    z: float
    mean: float
    tokens: int


def pooled_z(scores: Scores) -> ShiftZ | None:
    """Return the z of all tokens together; None if no place is open."""
    return _z(scores, scores.steady & scores.drawn)


def strata_z(scores: Scores, bars: Bars) -> list[ShiftZ | None]:
    """Return the z of each bin of the largest probability, None where a bin holds too little to be normal."""
    bins = bins_of(scores, bars)
    found = [_z(scores, scores.steady & (bins == part)) for part in range(len(bars.strata) + 1)]
    enough = [_enough(scores, bins == part, bars) for part in range(len(bars.strata) + 1)]
    return [z if plenty else None for z, plenty in zip(found, enough, strict=True)]


def bins_of(scores: Scores, bars: Bars) -> np.ndarray:
    """Return the bin of each token: 0 where the reference is least sure."""
    return np.asarray(np.digitize(scores.peak, bars.strata))


def _enough(scores: Scores, rows: np.ndarray, bars: Bars) -> bool:
    rows = rows & scores.steady
    return bool(rows.sum() >= bars.strata_tokens and scores.variance[rows].sum() >= bars.strata_variance)


def _z(scores: Scores, rows: np.ndarray) -> ShiftZ | None:
    n, variance = int(rows.sum()), float(scores.variance[rows].sum())
    if variance <= 0:
        return None
    total = float(scores.shift[rows].sum())
    tolerated = float((scores.allowed + scores.slack)[rows].sum())
    return ShiftZ(max(abs(total) - tolerated, 0.0) / math.sqrt(variance), total / n, n)


def shift_bound(scores: Scores, confidence_z: float = 1.96) -> float | None:
    """Return the 95 % bound of the absolute mean shift in nats per token; None if no place is open."""
    rows = scores.steady & scores.drawn
    n = int(rows.sum())
    if not n:
        return None
    spread = confidence_z * math.sqrt(float(scores.variance[rows].sum()))
    return (abs(float(scores.shift[rows].sum())) + spread + float(scores.slack[rows].sum())) / n
