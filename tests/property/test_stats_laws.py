"""Laws of the statistics that hold for any counts."""

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from soak.stats import (
    PairedCounts,
    clopper_pearson,
    fisher,
    holm,
    mcnemar_exact,
    mcnemar_midp,
    newcombe_paired,
    newcombe_unpaired,
    quantile,
    ratio_score,
    sign_flip,
    upper_bound,
    wilson,
)


@st.composite
def arms(draw: st.DrawFn) -> tuple[int, int]:
    turns = draw(st.integers(1, 3000))
    return draw(st.integers(0, turns)), turns


CELLS = st.builds(PairedCounts, *[st.integers(0, 400)] * 4).filter(lambda counts: counts.pairs > 0)


@settings(deadline=None)
@given(arms())
def test_intervals_of_a_rate_hold_the_rate(arm: tuple[int, int]) -> None:
    """Every interval lies in 0 to 1 and holds the observed rate; the bound is not below it."""
    rate = arm[0] / arm[1]
    for interval in (wilson(*arm), clopper_pearson(*arm)):
        assert 0 <= interval.low <= rate <= interval.high <= 1
    assert upper_bound(*arm) >= rate


@settings(deadline=None)
@given(CELLS)
def test_the_paired_difference_lies_in_its_interval_and_mirrors(counts: PairedCounts) -> None:
    """Swapping arms mirrors the interval at 0."""
    interval = newcombe_paired(counts)
    difference = (counts.candidate_only - counts.baseline_only) / counts.pairs
    mirror = newcombe_paired(PairedCounts(counts.both, counts.candidate_only, counts.baseline_only, counts.neither))
    assert interval.low - 1e-12 <= difference <= interval.high + 1e-12
    assert math.isclose(interval.low, -mirror.high, abs_tol=1e-12)


@settings(deadline=None)
@given(arms(), arms())
def test_the_unpaired_difference_lies_in_its_interval(first: tuple[int, int], second: tuple[int, int]) -> None:
    """The interval holds the observed difference and stays within −1 to 1."""
    interval = newcombe_unpaired(first, second)
    difference = second[0] / second[1] - first[0] / first[1]
    assert -1 <= interval.low <= difference + 1e-12
    assert difference - 1e-12 <= interval.high <= 1


@settings(max_examples=60, deadline=None)
@given(arms(), arms())
def test_the_ratio_interval_holds_the_ratio_and_inverts(first: tuple[int, int], second: tuple[int, int]) -> None:
    """Swapping arms inverts the limits."""
    forth, back = ratio_score(first, second), ratio_score(second, first)
    if first[0] and second[0]:
        ratio = (second[0] / second[1]) / (first[0] / first[1])
        assert forth.low <= ratio * (1 + 1e-9)
        assert forth.high >= ratio * (1 - 1e-9)
        assert math.isclose(forth.low * back.high, 1.0, rel_tol=1e-6)


@settings(deadline=None)
@given(arms(), arms())
def test_p_values_are_symmetric_probabilities(first: tuple[int, int], second: tuple[int, int]) -> None:
    """A p-value lies in 0 to 1 and does not depend on which arm comes first; mid-p is not above exact."""
    assert 0 <= fisher(first, second) <= 1
    assert math.isclose(fisher(first, second), fisher(second, first), rel_tol=1e-6)
    b, c = first[0], second[0]
    assert mcnemar_exact(b, c) == mcnemar_exact(c, b)
    assert mcnemar_midp(b, c) <= mcnemar_exact(b, c) + 1e-12


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(-6, 6), max_size=30))
def test_sign_flip_does_not_care_about_order_or_direction(differences: list[int]) -> None:
    """Reversing the list or all signs leaves p as it is; clusters of one event give McNemar's p."""
    p = sign_flip(differences)
    assert 0 < p <= 1
    assert math.isclose(p, sign_flip([-d for d in reversed(differences)]))
    signs = [1 if d > 0 else -1 for d in differences if d]
    assert math.isclose(sign_flip(signs), mcnemar_exact(signs.count(-1), signs.count(1)), rel_tol=1e-9)


@settings(deadline=None)
@given(st.lists(st.floats(0, 1), max_size=8))
def test_holm_never_lowers_a_p_value_nor_changes_their_order(p_values: list[float]) -> None:
    """Adjusted p-values are at least as large, at most 1, and ordered as before."""
    adjusted = holm(p_values)
    assert all(a <= b <= 1 for a, b in zip(p_values, adjusted, strict=True))
    pairs = sorted(zip(p_values, adjusted, strict=True))
    assert [b for _, b in pairs] == sorted(adjusted)


@settings(deadline=None)
@given(st.lists(st.floats(0, 1e9), min_size=1, max_size=50), st.floats(0, 1))
def test_a_quantile_lies_between_the_extremes(values: list[float], fraction: float) -> None:
    """No quantile leaves the range of the values."""
    assert min(values) <= quantile(values, fraction) * (1 + 1e-12)
    assert quantile(values, fraction) <= max(values) * (1 + 1e-12)
