"""From a packed output to arrays one can trust, or the reason why not."""

import math
from typing import NamedTuple

import numpy as np

from soak.facts import NO_TOKEN, RescoredOutput, SamplingLaw

_LEAST = -1e4  # stands for a probability of 0
_ROUNDING = 1e-3
_AGREE = 0.01  # how far two spellings of one log probability may differ


class Tables(NamedTuple):
    """
    The numbers of one output of n tokens with k entries each, in float64.

    `ids`, `logprobs`, `ranks`: n. `top_ids`, `top`: n × k, the most probable first, −inf where there is no entry.
    `place`: where the token stands in its row, k if it is not in it.
    """

    ids: np.ndarray
    logprobs: np.ndarray
    ranks: np.ndarray
    top_ids: np.ndarray
    top: np.ndarray
    place: np.ndarray


class Refused(NamedTuple):
    """Why an output is not tested."""

    reason: str


def tables_of(output: RescoredOutput, vocabulary: int) -> Tables | Refused:
    """Return the arrays, or why not: shapes, settings or numbers that cannot be; a law that cannot be known."""
    reason = output.problem or _law_problem(output.law)
    if reason:
        return Refused(reason)
    n, k = output.tokens, output.width
    top_ids = np.frombuffer(output.top_ids, "<u4").reshape(n, k)
    top = np.frombuffer(output.top_logprobs, "<f4").astype(np.float64).reshape(n, k)
    ids = np.frombuffer(output.token_ids, "<u4")
    logprobs = np.frombuffer(output.logprobs, "<f4").astype(np.float64)
    ranks = np.frombuffer(output.ranks, "<u4").astype(np.int64)
    reason = _number_problem(ids, logprobs, top_ids, top, vocabulary)
    if reason:
        return Refused(reason)
    if (ranks >= vocabulary).any():
        return Refused("a rank beyond the vocabulary: ranks begin at 0")
    top = np.minimum(top, 0.0)
    logprobs = np.clip(logprobs, _LEAST, 0.0)
    hits = top_ids == ids[:, None]
    place = np.where(hits.any(axis=1), hits.argmax(axis=1), k)
    if _disagrees(top, logprobs, place):
        return Refused("a token's log probability contradicts the list at its place: are the rows shifted?")
    return Tables(ids, logprobs, ranks, top_ids, top, place)


def _law_problem(law: SamplingLaw) -> str | None:
    if law.altered:
        return f"the sampled law cannot be rebuilt: {', '.join(law.altered)[:200]}"
    numbers = (law.temperature, law.top_p, law.min_p)
    sane = all(math.isfinite(number) for number in numbers)
    if not sane or not (0 <= law.temperature <= 10 and 0 < law.top_p <= 1 and 0 <= law.min_p <= 1 and law.top_k >= 0):
        return "sampling settings that cannot be"
    return "a temperature too small to be told from 0" if 0 < law.temperature < 0.05 else None


def _number_problem(
    ids: np.ndarray, logprobs: np.ndarray, top_ids: np.ndarray, top: np.ndarray, vocabulary: int
) -> str | None:
    if np.isnan(logprobs).any() or np.isnan(top).any():
        return "a log probability is not a number"
    if (logprobs > _ROUNDING).any() or (top > _ROUNDING).any():
        return "a probability is above 1"
    with np.errstate(invalid="ignore"):
        unsorted = (np.diff(top, axis=1) > 0).any()
    if unsorted or (np.exp(top).sum(axis=1) > 1 + _AGREE).any():
        return "a list is not in order, or its probabilities add up to more than 1"
    known = np.sort(np.where(np.isneginf(top), NO_TOKEN, top_ids), axis=1)
    if ((np.diff(known.astype(np.int64), axis=1) == 0) & (known[:, 1:] != NO_TOKEN)).any():
        return "a list holds a token twice"
    if (ids >= vocabulary).any() or (known[known != NO_TOKEN] >= vocabulary).any() or top.shape[1] > vocabulary:
        return "a token beyond the vocabulary"
    return None


def _disagrees(top: np.ndarray, logprobs: np.ndarray, place: np.ndarray) -> bool:
    rows, k = np.arange(len(top)), top.shape[1]
    listed = place < k
    own = top[rows[listed], place[listed]]
    last = top[rows[~listed], k - 1]
    # An entry of −inf under the last place is a list that was filled up: then nothing is known of what is missing.
    return bool(
        (np.abs(np.maximum(own, _LEAST) - logprobs[listed]) > _AGREE).any()
        or ((logprobs[~listed] > last + _AGREE) & np.isfinite(last)).any()
    )
