"""Quantiles of measured values."""

from collections.abc import Sequence

import numpy as np


def quantile(values: Sequence[float], fraction: float) -> float | None:
    """
    Return the quantile at `fraction` (0 to 1) with linear interpolation, None for no values.

    Source: Hyndman & Fan, Am. Stat. 50 (1996) 361, type 7 (numpy's default).
    """
    if not len(values):
        return None
    return float(np.quantile(np.asarray(values, dtype=float), fraction))
