"""Clusters: intervals, diagnostics of dependence, the choice of test, wall-clock ratio, power, quantiles."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from soak.stats import (
    ClusterCounts,
    Interval,
    PairedEvents,
    PairedTurns,
    adjacency_p,
    cluster_difference,
    cluster_ratio,
    detectable_rate,
    envelope,
    paired_test,
    quantile,
    sign_clustering_p,
    total_ratio,
    turns_needed_paired,
    turns_needed_unpaired,
)

SPREAD = list(zip([1] * 11 + [0] * 9, [0] * 5 + [1] * 7 + [0] * 8, strict=True))
CLUSTERED = list(zip([6, 3, 2] + [0] * 17, [1, 4, 0, 2] + [0] * 16, strict=True))


def counts(pairs: list[tuple[int, int]]) -> list[ClusterCounts]:
    return [ClusterCounts(25, a, b) for a, b in pairs]


def test_the_cluster_ratio_equals_the_worked_example() -> None:
    """Spread failures give 0.35 to 1.16, clustered ones 0.17 to 2.33: the same counts, other evidence."""
    assert cluster_ratio(counts(SPREAD), freedom=19) == pytest.approx((0.35, 1.16), abs=0.005)
    assert cluster_ratio(counts(CLUSTERED), freedom=19) == pytest.approx((0.17, 2.33), abs=0.005)


def test_the_cluster_ratio_is_unknown_without_events_in_an_arm() -> None:
    """A log ratio with a zero has no value; neither has one from a single cluster."""
    assert cluster_ratio(counts([(1, 0), (2, 0)])) is None
    assert cluster_ratio(counts([(1, 1)])) is None
    assert cluster_difference(counts([(1, 1)])) is None


def test_the_cluster_difference_is_the_t_interval_for_equal_clusters() -> None:
    """With clusters of one size it is the mean of the differences ± t(G−1) standard errors."""
    differences = np.array([b - a for a, b in CLUSTERED]) / 25
    half = 2.093024 * differences.std(ddof=1) / math.sqrt(20)
    expected = (differences.mean() - half, differences.mean() + half)
    assert cluster_difference(counts(CLUSTERED), freedom=19) == pytest.approx(expected, abs=1e-6)


def test_an_envelope_holds_both_intervals() -> None:
    """The envelope reaches as far as either; an unknown one adds nothing."""
    assert envelope(Interval(0, 2), Interval(1, 3)) == (0, 3)
    assert envelope(None, Interval(1, 3)) == envelope(Interval(1, 3), None) == (1, 3)
    assert envelope(None, None) is None


def test_adjacency_is_exact() -> None:
    """The p-value equals full enumeration of where the failures of each conversation could stand."""
    sequences = [[True, True, False, True, False, False], [False, True, True, False]]
    chances = []
    for choice in itertools.product(itertools.combinations(range(6), 3), itertools.combinations(range(4), 2)):
        chances.append(sum(b - a == 1 for turns in choice for a, b in itertools.pairwise(turns)))
    seen = 2
    assert adjacency_p(sequences) == pytest.approx(sum(n >= seen for n in chances) / len(chances))


def test_adjacency_of_long_conversations_does_not_overflow() -> None:
    """A conversation of 5,000 turns with 2,000 failures in a row has a p-value, and it is tiny."""
    assert adjacency_p([[True] * 2000 + [False] * 3000]) < 1e-9
    alternating = adjacency_p([[True, False] * 2500, [True, False] * 2500])
    assert alternating > 0.99


def test_adjacency_cannot_tell_without_two_failures() -> None:
    """A single failure per conversation says nothing about neighbours."""
    assert adjacency_p([[True, False], [False, True]]) is None


def test_sign_clustering_is_seen_and_seeded() -> None:
    """Clusters that lean to one arm have a small p-value, mixed ones a large one; equal input, equal output."""
    leaning = [(5, 0), (0, 5), (4, 0), (0, 4)]
    mixed = [(2, 2), (2, 2), (1, 2), (2, 1)]
    assert sign_clustering_p(leaning) < 0.01
    assert sign_clustering_p(mixed) > 0.5
    assert sign_clustering_p(leaning) == sign_clustering_p(leaning)


@pytest.mark.parametrize("discordant", [[(1, 1), (1, 0)], [(5, 0), (3, 0)], [(1, 0), (0, 1), (1, 0), (0, 1)]])
def test_sign_clustering_cannot_tell_from_too_little(discordant: list[tuple[int, int]]) -> None:
    """Fewer than four, all on one side, or no cluster with two: None."""
    assert sign_clustering_p(discordant) is None


def outcomes(baseline: set[int], candidate: set[int], *, size: int = 25, turns: int = 500) -> PairedEvents:
    places = PairedTurns(
        [i // size for i in range(turns)], [(i // size, 0) for i in range(turns)], [i % size for i in range(turns)]
    )
    return places.events([i in baseline for i in range(turns)], [i in candidate for i in range(turns)])


def test_scattered_failures_are_tested_by_turn() -> None:
    """Where diagnostics are silent the test is McNemar's."""
    tested = paired_test(outcomes({i * 45 for i in range(11)}, {i * 70 + 13 for i in range(7)}))
    assert not tested.by_cluster
    assert "McNemar" in tested.test
    assert tested.p_value == pytest.approx(0.481, abs=5e-4)


def test_failures_in_episodes_are_tested_by_episode() -> None:
    """Ten failures in a row in one conversation of one arm are one event: p is 1, not 0.002."""
    tested = paired_test(outcomes(set(), set(range(100, 110))))
    assert tested.by_cluster
    assert tested.p_value == 1.0


def test_the_adaptive_rule_keeps_its_error_rate() -> None:
    """With arm-specific episodes inside conversations and no true difference it alarms in at most 6 % of runs."""
    random = np.random.default_rng(11)

    def arm() -> set[int]:
        failing = set(np.flatnonzero(random.random(500) < 0.004))
        for conversation in np.flatnonzero(random.random(20) < 0.065):
            start = int(random.integers(0, 25))
            failing |= {int(conversation) * 25 + k for k in range(start, 25) if random.random() < 0.7}
        return {int(i) for i in failing}

    alarms = sum(paired_test(outcomes(arm(), arm())).p_value < 0.05 for _ in range(150))
    assert alarms / 150 <= 0.06


def test_the_total_ratio_has_the_interval_of_its_formula() -> None:
    """The interval is exp(log R ± t · sqrt(G/(G−1) Σ u²)) with (Σu²)²/Σu⁴ degrees of freedom; one cluster has none."""
    a, b = [10.0, 20.0, 30.0], [9.0, 15.0, 30.0]
    found = total_ratio(a, b)
    u = np.array(b) / 54 - np.array(a) / 60
    freedom = (u**2).sum() ** 2 / (u**4).sum()
    half = stats.t.ppf(0.975, freedom) * math.sqrt(1.5 * (u**2).sum())
    assert found.ratio == pytest.approx(0.9)
    assert found.interval == pytest.approx((0.9 * math.exp(-half), 0.9 * math.exp(half)), rel=1e-6)
    assert total_ratio([1.0], [2.0]).interval is None
    assert total_ratio([], []) is None
    with pytest.raises(ValueError, match="equally many"):
        total_ratio([1.0], [])


def test_the_total_ratio_covers_the_truth_with_few_clusters() -> None:
    """With ten paired lognormal clusters the 95 % interval covers the true ratio in at least 92 % of draws."""
    random = np.random.default_rng(2)
    covered = 0
    for _ in range(600):
        z = random.normal(size=(10, 2))
        a = 600 * np.exp(0.6 * z[:, 0])
        b = 0.8 * 600 * np.exp(0.6 * (0.9 * z[:, 0] + math.sqrt(0.19) * z[:, 1]))
        covered += not total_ratio(list(a), list(b)).interval.excludes(0.8)
    assert covered / 600 >= 0.92


@pytest.mark.parametrize(("rate", "needed"), [(0.014, 4335), (0.011, 2105), (0.0066, 932), (0.0022, 478), (0.0, 352)])
def test_planning_numbers_are_those_of_the_design(rate: float, needed: int) -> None:
    """From 2.2 % to a lower rate with 80 % power."""
    assert turns_needed_unpaired(0.022, rate) == needed


def test_paired_planning_is_smaller_where_failures_recur() -> None:
    """If half of the candidate's failures recur on the same turns, 2,696 pairs do instead of 4,335."""
    assert turns_needed_paired(0.022 - 0.007, 0.007) == 2696
    assert turns_needed_paired(0.01, 0.01) is None
    assert turns_needed_unpaired(0.01, 0.01) is None


def test_five_hundred_turns_show_eleven_to_one() -> None:
    """The largest drop that 500 turns miss with 80 % power lies between one event and two."""
    assert 1 < detectable_rate(0.022, 500) * 500 < 2
    assert turns_needed_unpaired(0.022, detectable_rate(0.022, 500)) <= 500
    assert detectable_rate(0.022, 100) is None


def test_quantiles_interpolate_and_are_unknown_for_nothing() -> None:
    """Linear interpolation between order statistics; None for no values."""
    assert quantile([1.0, 2.0, 3.0, 4.0], 0.5) == 2.5
    assert quantile([7.0], 0.99) == 7.0
    assert quantile([], 0.5) is None
