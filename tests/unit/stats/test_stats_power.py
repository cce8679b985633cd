"""Planning: exact power against simulation and enumeration, design effects, and expected time to a decision."""

import numpy as np
import pytest
from scipy import stats

from soak.stats import (
    ClusterCounts,
    PairRates,
    clustering_factor,
    design_effect,
    intra_cluster_correlation,
    mcnemar_exact,
    pair_rates,
    power_paired,
    turns_for_power,
    turns_needed_paired,
    turns_to_decision,
)


def test_power_is_the_sum_over_all_outcomes() -> None:
    """Exact power equals the probability, by scipy's Poisson, of all tables that McNemar's test rejects."""
    b, c = np.arange(60), np.arange(60)
    weights = np.outer(stats.poisson.pmf(b, 500 * 0.02), stats.poisson.pmf(c, 500 * 0.004))
    rejected = [[mcnemar_exact(int(i), int(j)) < 0.05 for j in c] for i in b]
    assert power_paired(500, PairRates(0.02, 0.004)) == pytest.approx((weights * rejected).sum(), abs=1e-6)


def test_planned_turns_have_the_power_asked_for() -> None:
    """Turns planned for 80 % have it within a point, and are above the normal approximation's."""
    rates = pair_rates(0.022, 0.0066)
    turns = turns_for_power(rates)
    assert 0.795 <= power_paired(turns, rates) <= 0.82
    assert turns >= turns_needed_paired(*rates)
    assert turns_for_power(pair_rates(0.01, 0.01)) is None


def test_many_events_are_planned_by_the_approximation() -> None:
    """Close rates take so many events that the exact test costs nothing more."""
    rates = pair_rates(0.01, 0.009)
    assert turns_for_power(rates) == turns_needed_paired(*rates)


def test_correlated_pairs_disagree_less() -> None:
    """Correlation moves failures to the same turn, up to what the rates allow, and keeps both rates."""
    alone, together, most = (pair_rates(0.02, 0.01, rho) for rho in (0.0, 0.3, 1.0))
    assert alone.baseline_only == pytest.approx(0.02 * 0.99)
    assert alone.baseline_only > together.baseline_only > most.baseline_only == pytest.approx(0.01)
    for found in (alone, together, most):
        assert found.baseline_only - found.candidate_only == pytest.approx(0.01)
    assert most.candidate_only == 0.0


def test_the_design_effect_of_clusters_is_kishs() -> None:
    """30 turns with a correlation of 0.05 count as 30/2.45; a negative correlation gains nothing."""
    assert clustering_factor(30, 0.05) == pytest.approx(2.45)
    assert clustering_factor(30, -0.01) == 1.0


def test_the_estimated_correlation_is_the_one_drawn() -> None:
    """Beta-binomial clusters with a correlation of 0.2 are estimated at 0.2; identical turns of a cluster at 1."""
    random = np.random.default_rng(1)
    rates = random.beta(0.1 * 4, 0.9 * 4, 4000)
    failures = random.binomial(20, rates)
    assert intra_cluster_correlation([20] * 4000, failures.tolist(), failures.tolist()) == pytest.approx(0.2, abs=0.02)
    assert intra_cluster_correlation([5, 5], [5, 0], [5, 0]) == pytest.approx(1.0)
    assert intra_cluster_correlation([5], [1], [1]) is None
    assert intra_cluster_correlation([5, 5], [0, 0], [0, 0]) is None


def test_the_estimated_design_effect_is_one_for_scattered_pairs() -> None:
    """Events that fall singly have a design effect near 1, ten in one cluster near ten; three events tell nothing."""
    scattered = [ClusterCounts(25, i % 2, (i + 1) % 2) for i in range(40)]
    crowded = [ClusterCounts(25, 10, 0), ClusterCounts(25, 0, 10), *[ClusterCounts(25, 0, 0)] * 38]
    assert design_effect(scattered, 40) == pytest.approx(1.0, abs=0.05)
    assert design_effect(crowded, 20) == pytest.approx(10.0, rel=0.05)
    assert design_effect(scattered, 3) is None


def test_the_time_to_a_decision_grows_as_rates_come_near() -> None:
    """Turns to a decision grow from RR 0 to RR 0.5, are never for equal rates, and at least one episode."""
    expected = [turns_to_decision(pair_rates(0.022, second), bar=20.0) for second in (0.0, 0.0022, 0.0055, 0.011)]
    assert expected == sorted(expected)
    assert turns_to_decision(pair_rates(0.01, 0.01), bar=20.0) is None
    assert turns_to_decision(pair_rates(0.9, 0.0), bar=20.0, cluster_size=30) == 30


def test_the_time_to_a_decision_is_near_the_median_of_simulated_runs() -> None:
    """For RR 0.25 the simulated median of single-turn evidence lies within a third of the forecast."""
    from soak.stats import EvidenceMeter

    random = np.random.default_rng(2)
    needed = []
    for _ in range(60):
        meter, turns = EvidenceMeter(), 0
        while meter.log_e < np.log(20):
            turns += 30
            meter.add(int(random.binomial(30, 0.0055)) - int(random.binomial(30, 0.022)))
        needed.append(turns)
    assert np.median(needed) == pytest.approx(turns_to_decision(pair_rates(0.022, 0.0055), bar=20.0), rel=0.33)
