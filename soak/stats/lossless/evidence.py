"""
Evidence that may be looked at after every token: e-processes over rows of `Scores`, and counts with their bars.

An e-process has mean at most 1 at any time a person chooses to stop, if nothing is wrong; it ever reaches 1/α with a
chance of at most α (Ville 1939). The mean of several is one too.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import special

from soak.stats.lossless.bars import Bars
from soak.stats.lossless.scores import Scores
from soak.stats.rates import upper_bound

SHARES = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1, 0.3)
_RATE_MAX, _RATES = 0.1, 13
_BLOCK = 32_768


class Rates(NamedTuple):
    """How often a token may be outside, and impossible, where nothing is wrong."""

    outside: float
    impossible: float


def outside_evidence(scores: Scores, rate: float) -> np.ndarray:
    """
    Return log e after each token for "a token is outside with a chance of at most `rate`".

    Likelihood ratio against `rate`, averaged over alternatives from it to 0.1, even in their logarithm. Below it every
    factor is at most 1 on average, so the bound is what counts.
    """
    rates = np.geomspace(rate, max(_RATE_MAX, rate), _RATES)
    hit, miss = np.log(rates / rate), np.log1p(-rates) - math.log1p(-rate)
    found = np.cumsum(scores.outside)
    missed = 1 + np.arange(len(found)) - found
    return _blocks(len(found), lambda part: _mean_exp(found[part, None] * hit + missed[part, None] * miss))


def contamination_evidence(scores: Scores, ratio: float) -> np.ndarray:
    """
    Return log e after each token for "the law is nowhere above e^`ratio` times the reference's".

    Alternatives: (1 − ε)·q + ε·q' with ε from 1e-4 to 0.3 and the q' of `Scores.ratios`, averaged. Each factor is
    divided by 1 + ε(e^`ratio` − 1), its greatest mean under the null: for small ε that costs next to nothing.
    """
    totals = np.zeros((scores.ratios.shape[1], len(SHARES)))
    out = np.empty(len(scores.ratios))
    shares = np.array(SHARES)
    tested = (scores.plain & scores.steady)[:, None, None]
    for begin in range(0, len(out), _BLOCK // 8):
        part = slice(begin, begin + _BLOCK // 8)
        logs = np.logaddexp(np.log1p(-shares), np.log(shares) + scores.ratios[part, :, None])
        logs = np.where(tested[part], logs - np.log1p(shares * math.expm1(ratio)), 0.0)
        sums = np.cumsum(logs, axis=0) + totals
        totals = sums[-1]
        out[part] = _mean_exp(sums.reshape(len(sums), -1))
    return out


def shift_evidence(scores: Scores, bars: Bars) -> np.ndarray:
    """
    Return log e after each token for "the mean shift is at most what is `allowed`, and what the law leaves open".

    Normal mixture: (|S| − tolerated)²/(2(V + ρ)) − log((V + ρ)/ρ)/2 where |S| is above what is tolerated, and below 1
    elsewhere; asymptotic, with ρ where it is tightest. (Robbins 1970; Waudby-Smith et al., Ann. Stat. 52 (2024) 2613.)
    """
    sums, variance = np.cumsum(scores.shift), np.cumsum(scores.variance)
    tolerated = np.cumsum(scores.allowed + scores.slack)
    excess = np.maximum(np.abs(sums) - tolerated, 0.0)
    whole = variance + bars.mixture
    return np.asarray(excess**2 / (2 * whole) - np.log(whole / bars.mixture) / 2)


def impossible_limits(rate: float, alpha: float, most: int) -> list[float]:
    """
    Return by which token the first, second, … impossible token must have come to alarm; `most` of them.

    The m-th may spend alpha/2^m: the number of tokens n at which a Poisson count of mean n·rate is m or more with just
    that chance. Their sum is below alpha, whenever one looks.
    """
    return [float(special.gammaincinv(m, alpha / 2**m)) / rate for m in range(1, most + 1)]


def impossible_alarm(scores: Scores, rate: float, alpha: float) -> int | None:
    """Return the row of the first impossible token that alarms, None if none does."""
    rows = np.flatnonzero(scores.impossible)[:40]
    limits = impossible_limits(rate, alpha, len(rows))
    return next((int(row) for row, limit in zip(rows, limits, strict=True) if row + 1 <= limit), None)


def mean_evidence(logs: list[np.ndarray]) -> np.ndarray:
    """Return log e of the mean of e-processes: an e-process again, whichever of them grows."""
    return _mean_exp(np.stack(logs, axis=1))


def wrong_tokens_bound(scores: Scores) -> float | None:
    """
    Return the 95 % upper bound of the share of evenly drawn wrong tokens; None where no place could have shown one.

    Where tokens are truncated (or T = 0): the exact bound of the rate of impossible tokens over the mean chance to see
    one. Where they are not: the least share ε at which the product of (1 − ε) + ε·q'/q is below 1/20. The larger of
    both, where a run has both.
    """
    bounds = []
    seen = scores.visible > 0
    if seen.any():
        rate = upper_bound(int(scores.impossible[seen].sum()), int(seen.sum()))
        assert rate is not None  # there are places
        bounds.append(min(1.0, rate / float(scores.visible[seen].mean())))
    plain = scores.plain & scores.steady
    if plain.any():
        bounds.append(_contamination_bound(scores.ratios[plain, 0]))
    return max(bounds) if bounds else None


def _contamination_bound(ratios: np.ndarray) -> float:
    for share in np.geomspace(1e-5, 0.5, 60):
        log_e = sum(
            float(np.logaddexp(math.log1p(-share), math.log(share) + ratios[part : part + _BLOCK]).sum())
            for part in range(0, len(ratios), _BLOCK)
        )
        if log_e <= -math.log(20):
            return float(share)
    return 1.0


def _mean_exp(logs: np.ndarray) -> np.ndarray:
    most = logs.max(axis=1)
    return np.asarray(most + np.log(np.exp(logs - most[:, None]).mean(axis=1)))


def _blocks(rows: int, work: Callable[[slice], np.ndarray]) -> np.ndarray:
    parts = [work(slice(begin, begin + _BLOCK)) for begin in range(0, rows, _BLOCK)]
    return np.concatenate(parts) if parts else np.empty(0)
