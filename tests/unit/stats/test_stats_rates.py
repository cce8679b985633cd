"""Rates and their intervals, against published values, scipy.stats and the worked example 11/500 against 7/500."""

import math

import numpy as np
import pytest
from scipy import stats

from soak.stats import (
    PairedCounts,
    clopper_pearson,
    newcombe_paired,
    newcombe_unpaired,
    ratio_conditional,
    ratio_score,
    upper_bound,
    wilson,
)

GRID = [(0, 1), (1, 1), (0, 299), (7, 500), (11, 500), (3, 10), (10, 10), (499, 500)]


@pytest.mark.parametrize(("events", "turns"), GRID)
def test_wilson_equals_scipy(events: int, turns: int) -> None:
    """The score interval of a rate is scipy's."""
    theirs = stats.binomtest(events, turns).proportion_ci(0.95, method="wilson")
    assert wilson(events, turns) == pytest.approx((theirs.low, theirs.high), abs=1e-12)


@pytest.mark.parametrize(("events", "turns"), GRID)
def test_clopper_pearson_equals_scipy(events: int, turns: int) -> None:
    """The exact interval of a rate is scipy's."""
    theirs = stats.binomtest(events, turns).proportion_ci(0.95, method="exact")
    assert clopper_pearson(events, turns) == pytest.approx((theirs.low, theirs.high), abs=1e-9)


def test_no_event_in_299_bounds_the_rate_below_one_per_cent() -> None:
    """0 of 299 is the least number of clean turns that shows a rate below 1 % with 95 % confidence."""
    assert upper_bound(0, 299) < 0.01 < upper_bound(0, 298)
    assert upper_bound(0, 299) == pytest.approx(1 - 0.05 ** (1 / 299))


@pytest.mark.parametrize(("turns", "bound"), [(500, 0.006), (1000, 0.003), (3000, 0.001)])
def test_zero_events_follow_the_rule_of_three(turns: int, bound: float) -> None:
    """The bound for no events is about 3/n."""
    assert upper_bound(0, turns) == pytest.approx(bound, rel=0.01)


def test_the_upper_bound_is_the_rate_that_leaves_five_per_cent() -> None:
    """At the bound, seeing so few events has probability 5 %."""
    assert stats.binom.cdf(7, 500, upper_bound(7, 500)) == pytest.approx(0.05)


def test_without_turns_nothing_is_known() -> None:
    """No turns give None, not 0."""
    assert wilson(0, 0) is None
    assert clopper_pearson(0, 0) is None
    assert upper_bound(0, 0) is None
    assert newcombe_unpaired((0, 0), (1, 5)) is None
    assert newcombe_paired(PairedCounts(0, 0, 0, 0)) is None
    assert ratio_score((0, 0), (1, 5)) is None


def test_newcombe_unpaired_equals_the_published_example() -> None:
    """56/70 against 48/80 gives 0.0524 to 0.3339 (Newcombe 1998, table II a)."""
    interval = newcombe_unpaired((48, 80), (56, 70))
    assert interval == pytest.approx((0.0524, 0.3339), abs=5e-5)


def test_newcombe_paired_equals_the_published_example() -> None:
    """Cells 20, 12, 2, 16 give 0.0562 to 0.3292 (Newcombe 1998, method 10)."""
    interval = newcombe_paired(PairedCounts(both=20, baseline_only=2, candidate_only=12, neither=16))
    assert interval == pytest.approx((0.0562, 0.3292), abs=5e-5)


def test_newcombe_paired_covers_the_true_difference() -> None:
    """Over all outcomes of 40 pairs the interval covers the true difference in at least 93 % of the probability."""
    random = np.random.default_rng(5)
    cells = (0.05, 0.15, 0.08, 0.72)
    draws = random.multinomial(40, cells, size=3000)
    covered = 0
    for draw in draws:
        interval = newcombe_paired(PairedCounts(*map(int, draw)))
        covered += not interval.excludes(cells[2] - cells[1])
    assert covered / len(draws) > 0.93


def test_the_worked_example_has_the_score_interval_of_the_design() -> None:
    """7/500 over 11/500 has the score interval 0.26 to 1.58 and the conditional exact one 0.21 to 1.80."""
    assert ratio_score((11, 500), (7, 500)) == pytest.approx((0.26, 1.58), abs=0.005)
    assert ratio_conditional((11, 500), (7, 500)) == pytest.approx((0.21, 1.80), abs=0.005)


def test_a_ratio_without_events_on_one_side_is_open_there() -> None:
    """No baseline event leaves the ratio unbounded above; no candidate event lets it be 0; neither says nothing."""
    assert ratio_score((0, 100), (5, 100)).high == math.inf
    assert ratio_score((0, 100), (5, 100)).low > 1
    assert ratio_score((5, 100), (0, 100)).low == 0
    assert ratio_score((5, 100), (0, 100)).high < 1
    assert ratio_score((0, 100), (0, 100)) == (0.0, math.inf)
    assert ratio_conditional((0, 100), (0, 100)) is None


def test_the_score_interval_ends_where_the_score_statistic_is_1_96() -> None:
    """At both limits the score test of that ratio has p = 0.05, by maximising the likelihood numerically."""
    x1, n1, x2, n2 = 11, 500, 7, 500
    for ratio in ratio_score((x1, n1), (x2, n2)):
        grid = np.linspace(1e-6, min(1, 1 / ratio) - 1e-6, 2_000_001)
        grid = grid[grid < 0.2]
        likelihood = (
            x1 * np.log(grid)
            + (n1 - x1) * np.log1p(-grid)
            + x2 * np.log(ratio * grid)
            + (n2 - x2) * np.log1p(-ratio * grid)
        )
        p1 = grid[likelihood.argmax()]
        p2 = ratio * p1
        variance = p2 * (1 - p2) / n2 + ratio**2 * p1 * (1 - p1) / n1
        assert (x2 / n2 - ratio * x1 / n1) ** 2 / variance == pytest.approx(3.8415, rel=1e-3)
