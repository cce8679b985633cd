"""Quantiles of measured values, with intervals, where some values are known only to exceed something."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import special


class QuantileLimits(NamedTuple):
    """A quantile and its interval; None where it lies among values that are only known to exceed something."""

    value: float | None
    low: float | None
    high: float | None


def quantile(values: Sequence[float], fraction: float) -> float | None:
    """
    Return the quantile at `fraction` (0 to 1) with linear interpolation, None for no values.

    Source: Hyndman & Fan, Am. Stat. 50 (1996) 361, type 7 (numpy's default).
    """
    if not len(values):
        return None
    return float(np.quantile(np.asarray(values, dtype=float), fraction))


def quantile_limits(
    values: Sequence[float], above: Sequence[float], fraction: float, confidence: float = 0.95
) -> QuantileLimits:
    """Return one quantile as `quantiles_limits` does."""
    return quantiles_limits(values, above, [fraction], confidence)[0]


def quantiles_limits(
    values: Sequence[float], above: Sequence[float], fractions: Sequence[float], confidence: float = 0.95
) -> list[QuantileLimits]:
    """
    Return the quantile at each fraction of all values with an interval from order statistics.

    `above` holds values that are lower bounds of what could not be watched to its end. They count as infinite for the
    quantile and the upper limit and as what was seen for the lower limit, so both err to the side that is known.
    The limits are the order statistics whose ranks hold fraction·n with `confidence` by the binomial distribution
    (David & Nagaraja, Order Statistics, 2003, 7.1): no shape is assumed, but turns count as independent.
    """
    if not len(values) and not len(above):
        return [QuantileLimits(None, None, None) for _ in fractions]
    known = np.sort(np.asarray(values, dtype=float))
    seen = np.sort(np.concatenate((known, np.asarray(above, dtype=float)))) if len(above) else known
    unbounded = np.concatenate((known, np.full(len(above), np.inf)))
    return [_limits(seen, unbounded, fraction, confidence) for fraction in fractions]


def _limits(seen: np.ndarray, unbounded: np.ndarray, fraction: float, confidence: float) -> QuantileLimits:
    """Return one quantile of sorted values: as they were seen, and with infinity for those not watched to their end."""
    count, tail = len(seen), (1 - confidence) / 2
    reach = 10 * math.sqrt(count * fraction * (1 - fraction)) + 10
    first = max(0, math.floor(count * fraction - reach))
    ranks = np.arange(first, min(count, math.ceil(count * fraction + reach)) + 1)
    mass = special.bdtr(ranks, count, fraction)  # P(at most `rank` values lie below the true quantile)
    low = first + int(np.searchsorted(mass, tail, side="right")) - 1  # the largest rank with P(fewer below) ≤ tail
    high = first + int(np.searchsorted(mass, 1 - tail))
    return QuantileLimits(
        value=_finite(_interpolated(unbounded, fraction)),
        low=float(seen[low]) if low >= 0 else None,
        high=_finite(float(unbounded[high])) if high < count else None,
    )


def _interpolated(ordered: np.ndarray, fraction: float) -> float:
    """Return the type 7 quantile of sorted values of which the last may be infinite."""
    at = fraction * (len(ordered) - 1)
    below = int(at)
    if at == below:
        return float(ordered[below])
    if np.isinf(ordered[below + 1]):
        return math.inf
    return float(ordered[below] + (at - below) * (ordered[below + 1] - ordered[below]))


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
