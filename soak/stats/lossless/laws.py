"""
The law a token was drawn from, rebuilt from the top of the reference's distribution, and how exactly it is known.

With temperature T the weight of a token is p^(1/T). What the list does not hold has the mass R = 1 − Σp in V − k tokens
of at most the last listed probability p_k each, so by convexity its weight lies between (V − k)·(R/(V − k))^(1/T) and
R·p_k^(1/T − 1) (T ≤ 1; the other way round above 1). At T = 1 both are R. With top_k ≤ k, or a list that ends below
min_p, it is 0: the law is known exactly. The nucleus ends at the first token at which the sum reaches top_p; where the
list ends before, its mass lies between top_p and top_p + p_k.
"""

from typing import NamedTuple

import numpy as np

from soak.facts import SamplingLaw


class Law(NamedTuple):
    """
    The truncated law of n positions with k listed tokens.

    `logq`: n × k log probabilities under it, −inf for listed tokens that cannot be drawn. `rest`: n, the probability of
    drawing a token that is not listed. `lognorm`: what was subtracted from log p / T; `error`: n, by how much
    that may be off at most. `peak`: n, the largest probability before truncation. `weights`: n × k,
    of the listed tokens that top_k and min_p leave, relative to the most probable; `least`, `total`: n, the least
    and the most that all weights may sum to.
    """

    logq: np.ndarray
    rest: np.ndarray
    lognorm: np.ndarray
    error: np.ndarray
    peak: np.ndarray
    least: np.ndarray
    total: np.ndarray
    weights: np.ndarray


def law_of(top: np.ndarray, law: SamplingLaw, vocabulary: int) -> Law:
    """Return the law at `law.temperature` > 0 for rows of log probabilities, each with at least one finite entry."""
    scaled = top / law.temperature
    shift = scaled[:, :1]
    weights = np.exp(scaled - shift)  # relative to the most probable: nothing underflows that matters
    weights = np.where(_listed(scaled, law), weights, 0.0)
    low, high = _unlisted(top, scaled, law, vocabulary)
    sums = np.cumsum(weights, axis=1)
    least, most = sums[:, -1] + low, sums[:, -1] + high
    norm_low, norm_high, drawable = _nucleus(weights, sums, least, most, law.top_p)
    norm = np.sqrt(norm_low * norm_high)
    inside = np.where(drawable, weights, 0.0)
    complete = (high <= 0) | (sums[:, -1] >= law.top_p * most) & (law.top_p < 1)
    norm = np.asarray(np.where(complete, inside.sum(axis=1), norm))
    with np.errstate(divide="ignore"):
        logq = np.log(inside / norm[:, None])
    rest = np.where(complete, 0.0, np.clip(1 - inside.sum(axis=1) / norm, 0.0, 1.0))
    # A norm between bounds is halfway; that of a nucleus that ends in the list is the larger of two candidates.
    error = np.log(norm_high / norm_low) * np.where(complete, 1.0, 0.5)
    return Law(logq, rest, np.log(norm) + shift[:, 0], error, 1 / np.sqrt(least * most), least, most, weights)


def _listed(scaled: np.ndarray, law: SamplingLaw) -> np.ndarray:
    """Return which listed tokens pass min_p and top_k; equals of the last one stay, as engines leave them."""
    keep = np.isfinite(scaled)
    if law.min_p > 0:
        keep &= scaled >= scaled[:, :1] + np.log(law.min_p)
    if 0 < law.top_k < scaled.shape[1]:
        keep &= scaled >= scaled[:, law.top_k - 1 : law.top_k]
    return np.asarray(keep)


def _unlisted(top: np.ndarray, scaled: np.ndarray, law: SamplingLaw, vocabulary: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the least and the largest weight of all that is not listed, relative to the most probable token."""
    k = top.shape[1]
    many = max(vocabulary - k, 0)
    mass = np.clip(1 - np.exp(top).sum(axis=1), 0.0, 1.0)
    last = np.where(np.isfinite(top), top, 0.0).min(axis=1)
    power = 1 / law.temperature
    with np.errstate(divide="ignore"):
        even = np.log(many + 1e-300) + power * (np.log(mass) - np.log(many + 1e-300))
        lumped = np.log(mass) + (power - 1) * last
    low, high = (np.exp(np.minimum(bound - scaled[:, 0], 700.0)) for bound in (even, lumped))
    low, high = np.minimum(low, high), np.maximum(low, high)
    if law.top_k > 0:
        high = np.minimum(high, max(law.top_k - k, 0) * np.exp(last * power - scaled[:, 0]))
        low = np.zeros_like(high)
    if law.min_p > 0:
        cut = scaled[:, -1] < scaled[:, 0] + np.log(law.min_p)
        low, high = np.zeros_like(low), np.where(cut, 0.0, high)
    return (low, high) if many else (np.zeros_like(low), np.zeros_like(high))


def _nucleus(
    weights: np.ndarray, sums: np.ndarray, least: np.ndarray, most: np.ndarray, top_p: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the bounds of the norm and which listed tokens may be drawn."""
    if top_p >= 1:
        return least, most, weights > 0
    before = sums - weights
    surely = (before < top_p * least[:, None]) & (weights > 0)
    perhaps = (before < top_p * most[:, None]) & (weights > 0)
    low = np.where(surely, weights, 0.0).sum(axis=1)
    high = np.where(perhaps, weights, 0.0).sum(axis=1)
    low = np.maximum(low, top_p * least)
    smallest = np.where(weights > 0, weights, np.inf).min(axis=1)
    beyond = sums[:, -1] < top_p * most
    return low, np.where(beyond, np.minimum(top_p * most + smallest, most), high), perhaps
