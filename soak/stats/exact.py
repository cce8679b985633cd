"""Exact tests of "no difference" on counts, and the correction for asking several questions."""

from collections.abc import Sequence

import numpy as np
from scipy import special

_LARGEST_CONVOLUTION = 20_000


def fisher(baseline: tuple[int, int], candidate: tuple[int, int]) -> float | None:
    """
    Return the two-sided p-value of Fisher's exact test, arms given as (events, turns); None if an arm has no turns.

    Source: Fisher (1934); two-sided as the sum of all tables no likelier than the one seen (as R and scipy do).
    """
    (x1, n1), (x2, n2) = baseline, candidate
    if n1 <= 0 or n2 <= 0:
        return None
    events = x1 + x2
    table = np.arange(max(0, events - n2), min(n1, events) + 1)
    log_p = log_choose(n1, table) + log_choose(n2, events - table)
    weight = np.exp(log_p - log_p.max())
    seen = weight[x1 - table[0]]
    return min(1.0, float(weight[weight <= seen * (1 + 1e-7)].sum() / weight.sum()))


def log_choose(n: int, k: np.ndarray) -> np.ndarray:
    """Return log C(n, k) for an array of k: −inf where k lies outside 0 … n."""
    return np.asarray(special.gammaln(n + 1) - special.gammaln(k + 1) - special.gammaln(n - k + 1))


def mcnemar_exact(baseline_only: int, candidate_only: int) -> float:
    """
    Return the two-sided exact p-value of McNemar's test from the two discordant counts; 1 if there are none.

    Twice the smaller tail of Bin(baseline_only + candidate_only, 1/2). Source: McNemar, Psychometrika 12 (1947) 153,
    exact form.
    """
    discordant = baseline_only + candidate_only
    if discordant == 0:
        return 1.0
    return min(1.0, 2 * float(special.bdtr(min(baseline_only, candidate_only), discordant, 0.5)))


def mcnemar_midp(baseline_only: int, candidate_only: int) -> float:
    """
    Return McNemar's mid-p: the exact p-value less half the probability of what was seen (both sides).

    Source: Fagerland, Lydersen & Laake, BMC Med. Res. Methodol. 13 (2013) 91. More power, not guaranteed ≤ alpha.
    """
    discordant = baseline_only + candidate_only
    if discordant == 0:
        return 1.0
    smaller = min(baseline_only, candidate_only)
    below = float(special.bdtr(smaller - 1, discordant, 0.5)) if smaller else 0.0
    return min(1.0, float(special.bdtr(smaller, discordant, 0.5)) + below)


def sign_flip(differences: Sequence[int]) -> float:
    """
    Return the two-sided p-value of the sign-flip test over clusters; 1 if no cluster differs.

    `differences[c]` is events of the candidate − events of the baseline in cluster c. Under "the arms could be swapped
    inside each cluster" every sign is as likely as the other, whatever happens inside a cluster: the only test here
    that stays valid when failures come in episodes. The null distribution of the sum is exact (by convolution); above
    20,000 events it is taken as normal. Source: Fisher's randomisation test (1935) on cluster totals.
    """
    sizes = np.abs(np.asarray([d for d in differences if d], dtype=np.int64))
    seen = abs(int(sum(differences)))
    total = int(sizes.sum())
    if total == 0:
        return 1.0
    if total > _LARGEST_CONVOLUTION:
        spread = float(np.sqrt((sizes.astype(float) ** 2).sum()))
        return min(1.0, 2 * float(special.ndtr(-seen / spread)))
    mass = _sum_of_signs(sizes, total)
    at = np.arange(-total, total + 1)
    return min(1.0, float(mass[np.abs(at) >= seen].sum()))


def _sum_of_signs(sizes: np.ndarray, total: int) -> np.ndarray:
    """Return the probabilities of −total … total for the sum of ±size."""
    mass = np.zeros(2 * total + 1)
    mass[total] = 1.0
    for size in sizes:
        step = np.zeros_like(mass)
        step[size:] += 0.5 * mass[:-size]
        step[:-size] += 0.5 * mass[size:]
        mass = step
    return mass


def holm(p_values: Sequence[float]) -> list[float]:
    """
    Return the p-values adjusted for asking all of these questions, in the given order.

    Source: Holm, Scand. J. Stat. 6 (1979) 65 (step-down; keeps the chance of any false alarm ≤ alpha).
    """
    adjusted = [0.0] * len(p_values)
    running = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        running = max(running, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = running
    return adjusted
