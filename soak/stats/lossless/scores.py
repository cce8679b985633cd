"""
What each token of an output says about the null, as columns: everything the tests need, and no list of probabilities.

For a token drawn at T > 0 from the truncated law q (`laws`), with log q cut off at −12:

  shift      s = log q(x) + H, H = −Σ q log q: a martingale difference under the null, of variance Σ q (log q)² − H²
  slack      by how much its mean may differ from 0 since the law is known within bounds only; `allowed`: by how much
             numeric noise may shift it, which grows with (σ/T)²
  outside    it cannot be drawn, tolerance included (`Bars.edge`, `Bars.gap`); `impossible`: below 1e-5 besides
  ratios     log q'(x)/q(x) of what a contaminated law would draw instead, where nothing is truncated: an even draw from
             the vocabulary, and q^τ on the list for τ of 0.5, 0.8, 1.25, 2

At T = 0 a token is outside if it lies further below the greatest than numeric noise explains; nothing else is tested.

Which places take part is decided by the law there, never by what was drawn, or the tests would not be martingales.
(Leviathan et al. 2023, Chen et al. 2023: what speculative sampling promises.)
"""

import math
from typing import NamedTuple

import numpy as np

from soak.facts import RescoredOutput, SamplingLaw
from soak.stats.lossless.bars import Bars
from soak.stats.lossless.laws import Law, law_of
from soak.stats.lossless.tables import Tables

TEMPERS = (0.5, 0.8, 1.25, 2.0)
_UNLISTED = math.log(1000)  # all that is not listed is one outcome, valued as if a thousand tokens shared it
_LOG_RATIO_MAX = 30.0
_TIED = 1e-6


class Scores(NamedTuple):
    """
    One row per tested token: n of each, `ratios` n × 5 (0 where contamination is not tested).

    `output` and `position` say where it stands. `drawn` is False at T = 0. `steady`: the law is known well enough for
    `shift` and `ratios`. `visible`: the chance that an evenly drawn wrong token would be impossible here. `above`: the
    least mass of the tokens ranked higher. `tail`: bound on the mass of all tokens as improbable as this one. `plain`:
    nothing was truncated. `peak`: the largest probability.
    """

    output: np.ndarray
    position: np.ndarray
    drawn: np.ndarray
    steady: np.ndarray
    shift: np.ndarray
    variance: np.ndarray
    slack: np.ndarray
    allowed: np.ndarray
    peak: np.ndarray
    outside: np.ndarray
    impossible: np.ndarray
    visible: np.ndarray
    plain: np.ndarray
    ratios: np.ndarray
    logprob: np.ndarray
    rank: np.ndarray
    token: np.ndarray
    top_token: np.ndarray
    top_logprob: np.ndarray
    above: np.ndarray
    tail: np.ndarray


def joined(parts: list[Scores]) -> Scores:
    """Return the rows of all parts, in their order."""
    return Scores(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def scores_of(
    output: RescoredOutput, tables: Tables, number: int, vocabulary: int, bars: Bars, greedy_noise: float
) -> Scores:
    """Return the rows of one output: all its tokens but those of forced spans and those whose list is empty."""
    usable = np.isfinite(tables.top[:, 0])
    for begin, end in output.forced:
        usable[begin:end] = False
    kept = Tables(*(column[usable] for column in tables))
    position = output.start + np.flatnonzero(usable)
    greedy = output.law.temperature == 0
    rows = _greedy(kept, bars, greedy_noise) if greedy else _drawn(kept, output.law, vocabulary, bars)
    mass = np.exp(kept.top)
    higher = kept.top > kept.logprobs[:, None] + _TIED
    above = np.where(higher, mass, 0.0).sum(axis=1)
    return Scores(
        output=np.full(len(position), number),
        position=position,
        logprob=kept.logprobs,
        rank=kept.ranks,
        token=kept.ids,
        top_token=kept.top_ids[:, 0],
        top_logprob=kept.top[:, 0],
        above=above,
        tail=np.minimum(np.clip(1 - above, 1e-15, 1.0), np.exp(kept.logprobs) * np.maximum(vocabulary - kept.ranks, 1)),
        **rows,
    )


def _greedy(tables: Tables, bars: Bars, noise: float) -> dict[str, np.ndarray]:
    """Return the columns at T = 0: one violation nearly decides, so the tolerance is wide."""
    n = len(tables.ids)
    gap = tables.top[:, 0] - tables.logprobs
    none, zeros = np.zeros(n, dtype=bool), np.zeros(n)
    return {
        "drawn": none,
        "steady": none,
        "shift": zeros,
        "variance": zeros,
        "slack": zeros,
        "allowed": zeros,
        "peak": np.exp(tables.top[:, 0]),
        "outside": gap > max(4 * noise, bars.spacing),
        "impossible": gap > max(10 * noise, 8 * bars.spacing),
        "visible": np.ones(n),
        "plain": none,
        "ratios": np.zeros((n, 1 + len(TEMPERS))),
    }


def _drawn(tables: Tables, law: SamplingLaw, vocabulary: int, bars: Bars) -> dict[str, np.ndarray]:
    """Return the columns at T > 0."""
    known = law_of(tables.top, law, vocabulary)
    steady = known.error <= bars.error
    plain = law.top_p >= 1 and law.top_k == 0 and law.min_p == 0
    logq = tables.logprobs / law.temperature - known.lognorm
    shift, variance, spread = _shift(tables, known, logq, bars.floor)
    outside, line = _outside(tables, known, law, vocabulary, bars)
    line = np.minimum(line, law.temperature * (bars.impossible_logprob + known.lognorm))
    return {
        "drawn": np.ones(len(steady), dtype=bool),
        "steady": steady,
        "shift": np.where(steady, shift, 0.0),
        "variance": np.where(steady, variance, 0.0),
        "slack": np.where(steady, known.error * spread, 0.0),
        "allowed": np.where(steady, bars.shift / law.temperature**2, 0.0),
        "peak": known.peak,
        "outside": outside,
        "impossible": outside & (logq <= bars.impossible_logprob),
        "visible": _share_below(tables, line, vocabulary),
        "plain": np.full(len(steady), plain),
        "ratios": _ratios(tables, known, logq, vocabulary) * (steady & plain)[:, None],
    }


def _shift(tables: Tables, law: Law, logq: np.ndarray, floor: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """
    Return s, its variance, and how far its mean is above the least value of any outcome.

    A token that cannot be drawn has the value it would have if it could: noise moves tokens over the edge of the
    nucleus, and at the floor each of them would weigh like ten. How such tokens are judged is said by `_outside`.
    """
    values = np.maximum(law.logq, floor)
    with np.errstate(divide="ignore"):
        unlisted = np.maximum(np.log(law.rest) - _UNLISTED, floor)
    q = np.exp(law.logq)
    mean = (q * values).sum(axis=1) + law.rest * unlisted
    square = (q * values**2).sum(axis=1) + law.rest * unlisted**2
    one_of_many = (tables.place >= q.shape[1]) & (law.rest > 1e-9)
    value = np.where(one_of_many, unlisted, np.maximum(logq, floor))
    lowest = np.where(np.isfinite(law.logq), values, 0.0).min(axis=1)
    least = np.minimum(lowest, np.where(law.rest > 1e-9, unlisted, 0.0))
    return value - mean, np.maximum(square - mean**2, 0.0), mean - least


def _outside(
    tables: Tables, law: Law, sampling: SamplingLaw, vocabulary: int, bars: Bars
) -> tuple[np.ndarray, np.ndarray]:
    """Return which tokens cannot be drawn, and below which log probability any token that is not listed is outside."""
    n, k = tables.top.shape
    outside, line = np.zeros(n, dtype=bool), np.full(n, -np.inf)
    if sampling.top_p < 1:
        edge = _edge(sampling, bars)
        higher = tables.top > tables.logprobs[:, None] + _TIED
        outside |= np.where(higher, law.weights, 0.0).sum(axis=1) >= edge * law.total
        outside |= _mass_from(tables, sampling, vocabulary) <= (1 - edge) * law.least
        line[law.weights.sum(axis=1) >= edge * law.total] = 0.0
    if 0 < sampling.top_k <= k:
        last = tables.top[:, sampling.top_k - 1] - bars.gap
        outside |= (tables.logprobs < last) & (tables.ranks >= sampling.top_k)
        line = np.maximum(line, last)
    if sampling.min_p > 0:
        last = tables.top[:, 0] + sampling.temperature * math.log(sampling.min_p) - bars.gap
        outside |= tables.logprobs < last
        line = np.maximum(line, last)
    return outside, line


def _mass_from(tables: Tables, sampling: SamplingLaw, vocabulary: int) -> np.ndarray:
    """
    Return the most that the weights of a token and of all ranked behind it may sum to, relative to the most probable.

    None of them weighs more than the token itself: where the list ends far from the nucleus' edge, this is what tells.
    """
    weight = np.exp((tables.logprobs - tables.top[:, 0]) / sampling.temperature)
    return np.asarray(weight * np.maximum(vocabulary - tables.ranks, 1))


def _edge(sampling: SamplingLaw, bars: Bars) -> float:
    """Return the mass above a token from which on it is outside: noise in the logits shifts log-odds, by σ/T."""
    odds = sampling.top_p / (1 - sampling.top_p) * math.exp(bars.edge / sampling.temperature)
    return odds / (1 + odds)


def _share_below(tables: Tables, line: np.ndarray, vocabulary: int) -> np.ndarray:
    """Return the least share of the vocabulary below a log probability: not listed, and too many for the mass left."""
    left = np.clip(1 - np.exp(tables.top).sum(axis=1), 0.0, 1.0)
    above = np.where(left > 0, left / np.exp(np.maximum(line, -700.0)), 0.0)
    share = (vocabulary - tables.top.shape[1] - above) / vocabulary
    return np.asarray(np.where(np.isfinite(line), np.clip(share, 0.0, 1.0), 0.0))


def _ratios(tables: Tables, law: Law, logq: np.ndarray, vocabulary: int) -> np.ndarray:
    """Return log q'(x)/q(x): an even draw, and each tempered law (which leaves unlisted tokens as they are)."""
    k = law.logq.shape[1]
    listed = tables.place < k
    ratios = [np.minimum(-math.log(vocabulary) - logq, _LOG_RATIO_MAX)]
    mass = np.log(np.exp(law.logq).sum(axis=1))
    for temper in TEMPERS:
        norm = np.log(np.exp(temper * law.logq).sum(axis=1))
        ratios.append(np.where(listed, (temper - 1) * logq - norm + mass, 0.0))
    return np.stack(ratios, axis=1)
