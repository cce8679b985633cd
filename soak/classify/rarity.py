"""
Salad of rare tokens: ids that a tokenizer seldom needs, one after another, each of them once.

The ids of byte-pair tokenizers are merge ranks, so a high id is a rare piece. Sampling from a broken distribution takes
two of three tokens from the upper two thirds of the vocabulary; honest text of any language takes one in seven.
"""

import numpy as np

from soak.classify.pieces import Codes
from soak.classify.settings import Settings

_MIN_RARE = 1 << 14
_OFTEN = 3
_MIN_OFTEN = 12
_ORDERED_SHARE = 0.6
_MAX_RECURRING = 0.10
_SAMPLE_TOKENS = 1024


def rare_from(codes: Codes, settings: Settings) -> int | None:
    """
    Return the token from which on the end of an answer is salad of rare tokens, to a window; None if it is not.

    In at least two windows up to the end too many tokens are rare and occur once in the whole answer. Since ids need
    not be merge ranks, one of two things must show it besides: the tokens that recur are the low ones, or none recurs.
    """
    size = int(settings.rare_window_tokens)
    windows = len(codes) // size if size else 0
    if windows < 2:
        return None
    bound = max(_MIN_RARE, int(codes.max()) // 3)
    values, first, counts = np.unique(codes, return_index=True, return_counts=True)
    rare = np.zeros(len(codes))
    rare[first[(counts == 1) & (values >= bound)]] = 1
    bad = rare[-windows * size :].reshape(windows, size).mean(axis=1) >= settings.rare_share
    good = np.flatnonzero(~bad)
    start = int(good[-1]) + 1 if len(good) else 0
    if windows - start < 2:
        return None
    onset = len(codes) - (windows - start) * size
    often = values[counts >= _OFTEN]
    ordered = len(often) >= _MIN_OFTEN and (often < bound).mean() >= _ORDERED_SHARE
    return onset if ordered or _recurring(codes[onset:]) < _MAX_RECURRING else None


def _recurring(codes: Codes) -> float:
    """Return the share of tokens, among the last thousand, that occur three times and more there."""
    sample = codes[-_SAMPLE_TOKENS:]
    counts = np.unique(sample, return_counts=True)[1]
    return float(counts[counts >= _OFTEN].sum() / len(sample))
