"""Quantiles with censoring, survival, trends and tests by flipped signs, against scipy and full enumeration."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from soak.stats import (
    Lives,
    band_counts,
    event_trend,
    kaplan_meier,
    log_rank,
    log_rank_paired,
    median_life,
    permuted_difference,
    quantile_limits,
    sign_flip,
    sign_flip_sums,
    value_trend,
)


def test_quantile_limits_are_order_statistics_that_cover() -> None:
    """The ranks hold the true quantile with at least 95 % by the binomial distribution, and one fewer would not."""
    values = [float(i) for i in range(100)]
    for fraction in (0.5, 0.95):
        limits = quantile_limits(values, (), fraction)
        low, high = int(limits.low), int(limits.high)
        assert stats.binom.cdf(high, 100, fraction) - stats.binom.cdf(low, 100, fraction) >= 0.94
        assert stats.binom.cdf(low, 100, fraction) <= 0.025
        assert stats.binom.sf(high, 100, fraction) <= 0.025
        assert limits.value == pytest.approx(np.quantile(values, fraction))


def test_a_quantile_among_cut_values_is_not_known() -> None:
    """With a tenth cut by a limit p50 is known, p95 is not, and its upper limit is open; the lower one is not."""
    limits = quantile_limits([float(i) for i in range(90)], [50.0] * 10, 0.95)
    assert limits.value is None
    assert limits.high is None
    assert limits.low is not None
    assert quantile_limits([float(i) for i in range(90)], [50.0] * 10, 0.5).value == pytest.approx(49.5)
    assert quantile_limits((), (), 0.5) == (None, None, None)
    assert quantile_limits((), (7.0, 8.0), 0.5).value is None


def test_few_values_bound_no_extreme_quantile() -> None:
    """Ten values say nothing above p99: its upper limit is open."""
    assert quantile_limits([float(i) for i in range(10)], (), 0.99).high is None


def test_kaplan_meier_equals_scipy() -> None:
    """The curve is scipy's empirical survival function of right-censored data."""
    random = np.random.default_rng(3)
    reached = random.integers(1, 12, 60).astype(float)
    failed = random.random(60) < 0.6
    curve = kaplan_meier(Lives(reached.tolist(), failed.tolist()))
    theirs = stats.ecdf(stats.CensoredData(uncensored=reached[failed], right=reached[~failed])).sf
    assert [share for _, share in curve] == pytest.approx([float(theirs.evaluate(at)) for at, _ in curve])
    assert median_life(curve) == next(at for at, share in curve if share <= 0.5)
    assert kaplan_meier(Lives([5.0], [False])) == []
    assert median_life([]) is None


def test_log_rank_equals_scipy() -> None:
    """The p-value is that of scipy's log-rank test, with ties and censoring."""
    random = np.random.default_rng(4)
    arms = []
    for scale in (8.0, 12.0):
        reached = np.ceil(random.exponential(scale, 40))
        arms.append(Lives(np.minimum(reached, 15).tolist(), (reached <= 15).tolist()))
    data = [
        stats.CensoredData(
            uncensored=[t for t, f in zip(*arm, strict=True) if f],
            right=[t for t, f in zip(*arm, strict=True) if not f],
        )
        for arm in arms
    ]
    assert log_rank(*arms) == pytest.approx(stats.logrank(*data).pvalue, rel=1e-9)


def test_log_rank_knows_nothing_without_failures() -> None:
    """Without a failure, or where nobody is left to compare with, there is no test."""
    alive = Lives([3.0, 4.0], [False, False])
    assert log_rank(alive, alive) is None
    assert log_rank_paired(alive, alive, ["a", "b"]) is None


def test_paired_log_rank_does_not_count_one_bad_episode_many_times() -> None:
    """Eight early failures in the passes of one episode are one piece of evidence: p is 1, log-rank says 0.00."""
    first = Lives([20.0] * 16, [False] * 16)
    second = Lives([1.0] * 8 + [20.0] * 8, [True] * 8 + [False] * 8)
    assert log_rank(first, second) < 0.01
    assert log_rank_paired(first, second, ["bad"] * 8 + [f"e{i}" for i in range(8)]) > 0.3


def test_flipped_signs_come_near_the_exact_test() -> None:
    """For whole numbers the seeded draws agree with the convolution, and equal input gives equal output."""
    sums = [3, -1, 2, 2, 5, -2, 1]
    assert sign_flip_sums(sums) == pytest.approx(sign_flip(sums), abs=0.02)
    assert sign_flip_sums(sums) == sign_flip_sums(sums)
    assert sign_flip_sums([]) == sign_flip_sums([0.0]) == 1.0


def test_permuted_difference_equals_full_enumeration() -> None:
    """Whole episodes relabelled in every way give the p-value, and swapped arms the same one."""
    baseline, candidate = [(5, 10), (0, 12), (1, 9)], [(0, 10), (0, 8), (1, 11), (0, 10)]
    together = [*baseline, *candidate]
    rate = sum(e for e, _ in together) / sum(n for _, n in together)
    excess = [e - rate * n for e, n in together]
    seen = abs(sum(excess[:3]))
    draws = [abs(sum(excess[i] for i in chosen)) >= seen - 1e-9 for chosen in itertools.combinations(range(7), 3)]
    assert permuted_difference(baseline, candidate) == pytest.approx(sum(draws) / len(draws), abs=0.03)
    assert permuted_difference(baseline, candidate) == permuted_difference(candidate, baseline)
    assert permuted_difference([], candidate) is None


def test_the_trend_of_independent_turns_is_cochran_and_armitage() -> None:
    """z² of the score test equals N times the squared correlation of axis and event, which is their statistic."""
    random = np.random.default_rng(6)
    axis = random.integers(0, 30, 900)
    failing = random.random(900) < 0.01 + 0.01 * axis
    found = event_trend(axis.tolist(), failing.tolist(), list(range(900)))
    z2 = 900 * np.corrcoef(axis, failing)[0, 1] ** 2
    assert found.p_independent == pytest.approx(stats.chi2.sf(z2, 1), rel=1e-6)
    assert found.slope == pytest.approx(np.polyfit(axis, failing.astype(float), 1)[0])
    assert found.p_value < 0.05


def test_a_trend_of_one_failing_episode_is_not_claimed() -> None:
    """Fewer than five failing episodes, no failure at all, or a single place: no p-value by episodes."""
    axis = list(range(20)) * 3
    failing = [i >= 50 for i in range(60)]
    found = event_trend(axis, failing, [i // 20 for i in range(60)])
    assert found.p_value is None
    assert event_trend(axis, [False] * 60, axis) is None
    assert event_trend([1.0] * 60, failing, axis) is None


def test_the_slope_of_values_is_least_squares() -> None:
    """The slope is numpy's and its interval holds it; two points say nothing."""
    random = np.random.default_rng(7)
    axis = random.random(80)
    values = 3 * axis + 0.1 * random.normal(size=80)
    slope, interval = value_trend(axis.tolist(), values.tolist(), list(range(80)))
    assert slope == pytest.approx(np.polyfit(axis, values, 1)[0])
    assert interval.low < slope < interval.high
    assert interval.high - interval.low < 0.3
    assert value_trend([1.0, 2.0], [1.0, 2.0], [0, 1]) is None
    assert not math.isnan(slope)


def test_bands_hold_every_turn_once() -> None:
    """A place on an edge belongs to the band that begins there; what lies below the first edge is not lost."""
    found = band_counts([0.0, 4.9, 5.0, 99.0, -1.0], [True, False, True, False, True], [0.0, 5.0, 10.0])
    assert found == [(2, 3), (1, 1), (0, 1)]
