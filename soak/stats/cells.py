"""Which settings do failures go with? The same questions asked in every cell of a grid, their outcomes permuted."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy import special

_DRAWS = 4_999


class Gathering(NamedTuple):
    """
    How clearly failures gather in some cells, for one question.

    `best` is the place of its condition that fits best, `inside` whether failures lie inside it (else outside).
    `log_likelihood` is of two rates, one on each side of it. `p_adjusted` is corrected for all questions.
    """

    best: int
    inside: bool
    log_likelihood: float
    p_value: float
    p_adjusted: float


def gatherings(
    blocks: Sequence[Sequence[bool | None]],
    questions: Sequence[Sequence[Sequence[bool]]],
    *,
    draws: int = _DRAWS,
    seed: int = 0,
) -> list[Gathering]:
    """
    Return, for each question, whether failures gather in the cells of one of its conditions.

    A block is one turn asked with one seed: an outcome (failed?) for each cell, None where it says nothing. A question
    is a list of conditions, each saying which cells meet it; it must have one.

    If no cell differs from another, a block's outcomes could as well have fallen on its cells in any order, whatever
    the turn and the seed do to them; so they are permuted within each block, `draws` times, seeded. The statistic of a
    condition is its failures' squared distance from their expectation in units of their variance under permutation
    (Mantel and Haenszel, JNCI 22 (1959) 719, with blocks as strata), that of a question the largest of its conditions'.
    The p-value counts the observed arrangement among the drawn ones, so it is never 0. For asking several questions it
    is adjusted by the smallest p-value of the same draws, step-down (Westfall and Young, Resampling-Based Multiple
    Testing, 1993, algorithm 2.8): where few failures cannot decide a question at all, asking it costs nothing, which
    Holm's correction would charge for.
    """
    seen = np.asarray([[-1 if one is None else int(one) for one in block] for block in blocks], dtype=np.int8)
    conditions = np.asarray([cells for question in questions for cells in question], dtype=float)
    borders = np.cumsum([0, *(len(question) for question in questions)])
    table = _Table(seen, conditions)
    observed = table.distances((seen == 1).sum(axis=0)[None, :])
    drawn = table.distances(table.permuted(draws, np.random.default_rng(seed)))
    rows = np.vstack([observed, drawn])
    highest = np.column_stack([rows[:, a:b].max(axis=1) for a, b in pairwise(borders)])
    p_values = np.column_stack([_p_values(column) for column in highest.T])
    adjusted = _stepped_down(p_values)
    likelihoods = [_log_likelihood(seen, cells > 0) for cells in conditions]
    places = [max(range(a, b), key=likelihoods.__getitem__) for a, b in pairwise(borders)]
    return [
        Gathering(
            best=place - int(borders[number]),
            inside=_rate(seen, conditions[place] > 0) >= _rate(seen, conditions[place] == 0),
            log_likelihood=likelihoods[place],
            p_value=float(p_values[0, number]),
            p_adjusted=adjusted[number],
        )
        for number, place in enumerate(places)
    ]


class _Table:
    """Blocks in which something can be permuted, and what each condition expects of them."""

    def __init__(self, seen: np.ndarray, conditions: np.ndarray) -> None:
        asked, failed = (seen >= 0).sum(axis=1), (seen == 1).sum(axis=1)
        mixed = (failed > 0) & (failed < asked)
        self._asked = seen >= 0
        self._seen, self._conditions = seen[mixed], conditions
        self._fixed = (seen[~mixed] == 1).sum(axis=0)
        n, m = asked[mixed].astype(float)[:, None], failed[mixed].astype(float)[:, None]
        inside = self._asked[mixed].astype(float) @ conditions.T
        self._expected = (m * inside / n).sum(axis=0) + self._fixed @ conditions.T
        spread = m * (n - m) * inside * (n - inside) / (n * n * np.maximum(n - 1, 1))
        self._variance = spread.sum(axis=0)

    def distances(self, failures: np.ndarray) -> np.ndarray:
        """Return the statistic of every condition for rows of failures by cell."""
        distance = failures @ self._conditions.T - self._expected
        return np.where(self._variance > 1e-12, distance**2 / np.maximum(self._variance, 1e-12), 0.0)

    def permuted(self, draws: int, random: np.random.Generator) -> np.ndarray:
        """Return failures by cell, one row for each draw."""
        total = np.tile(self._fixed.astype(float), (draws, 1))
        for cells, failed, count in self._kinds():
            total[:, cells] += _placed(draws, len(cells), failed, count, random)
        return total

    def _kinds(self) -> Iterator[tuple[np.ndarray, int, int]]:
        """Yield the cells asked, the failures in it, and how many blocks are like that."""
        if not len(self._seen):
            return
        kinds, counts = np.unique(
            np.column_stack([self._seen >= 0, (self._seen == 1).sum(axis=1)]).astype(np.int64),
            axis=0,
            return_counts=True,
        )
        for kind, count in zip(kinds, counts, strict=True):
            yield np.flatnonzero(kind[:-1]), int(kind[-1]), int(count)


def _placed(draws: int, cells: int, failed: int, blocks: int, random: np.random.Generator) -> np.ndarray:
    """Return how often each cell is among the `failed` drawn from `cells`, over `blocks` blocks, for each draw."""
    if failed > cells / 2:
        return blocks - _placed(draws, cells, cells - failed, blocks, random)
    if failed == 1:
        return random.multinomial(blocks, [1 / cells] * cells, size=draws).astype(float)
    total = np.zeros((draws, cells))
    for _ in range(blocks):
        keys = random.random((draws, cells))
        total += keys <= np.partition(keys, failed - 1, axis=1)[:, failed - 1 : failed]
    return total


def _p_values(statistics: np.ndarray) -> np.ndarray:
    """Return, for every row, the share of rows whose statistic is as large; the first row is what was observed."""
    rounded = np.round(statistics, 9)
    return (len(rounded) - np.searchsorted(np.sort(rounded), rounded)) / len(rounded)


def _stepped_down(p_values: np.ndarray) -> list[float]:
    """Return the observed p-values (the first row) adjusted by the smallest of each row, the clearest first."""
    order = np.argsort(p_values[0], kind="stable")
    smallest = np.minimum.accumulate(p_values[:, order[::-1]], axis=1)[:, ::-1]
    adjusted = np.maximum.accumulate((smallest <= p_values[0, order]).mean(axis=0))
    return [float(adjusted[place]) for place in np.argsort(order, kind="stable")]


def _log_likelihood(seen: np.ndarray, inside: np.ndarray) -> float:
    return _of_rate(seen[:, inside]) + _of_rate(seen[:, ~inside])


def _of_rate(seen: np.ndarray) -> float:
    """Return the log likelihood of the outcomes at their own rate."""
    failed, asked = int((seen == 1).sum()), int((seen >= 0).sum())
    return float(
        special.xlogy(failed, failed) + special.xlogy(asked - failed, asked - failed) - special.xlogy(asked, asked)
    )


def _rate(seen: np.ndarray, cells: np.ndarray) -> float:
    part = seen[:, cells]
    return float((part == 1).sum()) / max(1, int((part >= 0).sum()))
