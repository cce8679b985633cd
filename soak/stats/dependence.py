"""Two diagnostics: do failures come in episodes, so that turns are not independent pairs?"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from scipy import special

from soak.stats.exact import log_choose

_RESAMPLES = 1_999
_LARGEST_CONVOLUTION = 4_000


def sign_clustering_p(discordant: Sequence[tuple[int, int]], *, seed: int = 0) -> float | None:
    """
    Return the p-value of "discordant turns of one cluster lean to the same arm more than chance makes them".

    `discordant[c]` is (baseline only, candidate only) in cluster c. T = Σ (b_c − c_c)², its null drawn 1,999 times
    (seeded) by permuting which arm failed over all discordant turns. None where it cannot tell: fewer than
    4 discordant turns, no cluster with 2, or all on one side. Low means that pairs are not independent.
    """
    table = np.asarray(discordant, dtype=np.int64).reshape(-1, 2)
    sizes = table.sum(axis=1)
    baseline_only = int(table[:, 0].sum())
    if sizes.sum() < 4 or sizes.max() < 2 or baseline_only in (0, int(sizes.sum())):
        return None
    table, sizes = table[sizes > 0], sizes[sizes > 0]
    seen = ((table[:, 0] - table[:, 1]) ** 2).sum()
    random = np.random.default_rng(seed)
    smaller = min(baseline_only, int(sizes.sum()) - baseline_only)  # so that swapped arms draw the same numbers
    drawn = random.multivariate_hypergeometric(sizes, smaller, size=_RESAMPLES, method="marginals")
    as_far = int((((2 * drawn - sizes) ** 2).sum(axis=1) >= seen).sum())
    return (1 + as_far) / (1 + _RESAMPLES)


def adjacency_p(sequences: Sequence[Sequence[bool]]) -> float | None:
    """
    Return the p-value of "failing turns follow one another more often than after shuffling inside the conversation".

    `sequences` holds, per conversation and arm, whether each turn failed, in turn order. Exact: with k failures among n
    turns the number of failing neighbours is k − runs, whose distribution is C(k−1, r−1)·C(n−k+1, r)/C(n, k) (Wald &
    Wolfowitz 1940); conversations are convolved (above 4,000 failures a normal approximation). None where no
    conversation has two failures. Low means that failures come in episodes.
    """
    shapes = [(sum(s), len(s), _neighbours(s)) for s in sequences]
    shapes = [shape for shape in shapes if shape[0] >= 2]
    if not shapes:
        return None
    seen = sum(neighbours for _, _, neighbours in shapes)
    masses = [_neighbour_mass(failures, turns) for failures, turns, _ in shapes]
    if sum(len(mass) for mass in masses) > _LARGEST_CONVOLUTION:
        return _normal_tail(masses, seen)
    total = np.ones(1)
    for mass in masses:
        total = np.convolve(total, mass)
    return min(1.0, float(total[seen:].sum()))


def _neighbours(sequence: Sequence[bool]) -> int:
    return sum(1 for before, after in pairwise(sequence) if before and after)


def _neighbour_mass(failures: int, turns: int) -> np.ndarray:
    """Return the probabilities of 0 … failures−1 failing neighbours when `failures` of `turns` fail in random order."""
    runs = np.arange(failures, 0, -1)
    log_ways = log_choose(failures - 1, runs - 1) + log_choose(turns - failures + 1, runs)
    ways = np.exp(log_ways - log_ways.max())
    return np.asarray(ways / ways.sum())


def _normal_tail(masses: Sequence[np.ndarray], seen: int) -> float:
    mean = variance = 0.0
    for mass in masses:
        at = np.arange(len(mass))
        centre = float((mass * at).sum())
        mean += centre
        variance += float((mass * (at - centre) ** 2).sum())
    if variance <= 0:
        return 1.0
    return float(special.ndtr(-(seen - 0.5 - mean) / np.sqrt(variance)))
