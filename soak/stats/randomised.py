"""Tests that flip signs or swap labels of whole clusters: valid whatever happens inside one. Seeded."""

from collections.abc import Sequence

import numpy as np

_DRAWS = 4_999
_BLOCK = 256


def sign_flip_sums(sums: Sequence[float], *, seed: int = 0) -> float:
    """
    Return the two-sided p-value of "the sum is 0" when each cluster's sum could as well have the other sign.

    4,999 seeded draws (the observed one counted in, so the p-value is never 0); for whole numbers `sign_flip` is exact.
    """
    values = np.asarray([value for value in sums if value], dtype=float)
    if not len(values):
        return 1.0
    seen = abs(float(values.sum())) * (1 - 1e-9)
    random = np.random.default_rng(seed)
    as_far = 0
    for start in range(0, _DRAWS, _BLOCK):
        signs = random.integers(0, 2, (min(_BLOCK, _DRAWS - start), len(values)), dtype=np.int8)
        as_far += int((np.abs((2 * signs - 1) @ values) >= seen).sum())
    return (1 + as_far) / (1 + _DRAWS)


def permuted_difference(
    baseline: Sequence[tuple[int, int]], candidate: Sequence[tuple[int, int]], *, seed: int = 0
) -> float | None:
    """
    Return the two-sided p-value of "the arms' rates are equal" when whole clusters could have been in the other arm.

    Each cluster is (events, turns). The statistic is the events of the candidate beyond its share of the turns; 4,999
    seeded relabellings. None if an arm has no cluster.
    """
    if not baseline or not candidate:
        return None
    table = np.asarray([*baseline, *candidate], dtype=float)
    rate = table[:, 0].sum() / table[:, 1].sum()
    excess = table[:, 0] - rate * table[:, 1]
    seen = abs(float(excess[len(baseline) :].sum())) * (1 - 1e-9) - 1e-9
    excess.sort()  # the arms' excesses sum to 0, so that either arm may be drawn: swapped arms draw the same
    size = min(len(baseline), len(candidate))
    random = np.random.default_rng(seed)
    as_far = sum(abs(float(random.permutation(excess)[:size].sum())) >= seen for _ in range(_DRAWS))
    return (1 + as_far) / (1 + _DRAWS)
