"""Arms that went their own ways in the same clusters: intervals and a test whose unit is the cluster."""

import numpy as np
import pytest

from soak.stats import ArmsInCluster, cluster_difference, swapped_clusters, uneven_difference, uneven_ratio
from soak.stats.clusters import ClusterCounts

CLUSTERS = [
    ArmsInCluster(10, 2, 14, 1), ArmsInCluster(22, 0, 9, 0), ArmsInCluster(31, 5, 40, 2), ArmsInCluster(8, 1, 8, 0),
    ArmsInCluster(17, 0, 25, 1), ArmsInCluster(12, 3, 12, 1),
]  # fmt: skip


def swapped(cluster: ArmsInCluster) -> ArmsInCluster:
    """Return a cluster with its arms exchanged."""
    return ArmsInCluster(
        cluster.candidate_turns, cluster.candidate_events, cluster.baseline_turns, cluster.baseline_events
    )


def test_swapping_the_arms_turns_everything_round() -> None:
    """The difference changes its sign, the ratio becomes its inverse, the p-value stays."""
    other = [swapped(cluster) for cluster in CLUSTERS]
    one, two = uneven_difference(CLUSTERS), uneven_difference(other)
    assert one is not None and two is not None
    assert (one.low, one.high) == pytest.approx((-two.high, -two.low))
    first, second = uneven_ratio(CLUSTERS), uneven_ratio(other)
    assert first is not None and second is not None
    assert (first.low, first.high) == pytest.approx((1 / second.high, 1 / second.low))
    assert swapped_clusters(CLUSTERS) == pytest.approx(swapped_clusters(other))


def test_with_equal_turns_it_is_the_paired_interval() -> None:
    """Where both arms have the same turns in each cluster, the interval is that of paired clusters."""
    even = [(10, 2, 1), (22, 0, 3), (31, 5, 2), (8, 1, 0)]
    paired = cluster_difference([ClusterCounts(*cell) for cell in even])
    uneven = uneven_difference([ArmsInCluster(n, b, n, c) for n, b, c in even])
    assert paired == pytest.approx(uneven)


def test_nothing_to_compare_gives_nothing() -> None:
    """No turns, one cluster, an arm without an event: None, not a number."""
    assert swapped_clusters([]) is None
    assert uneven_difference(CLUSTERS[:1]) is None
    assert uneven_difference([ArmsInCluster(0, 0, 5, 1), ArmsInCluster(0, 0, 5, 1)]) is None
    assert uneven_ratio([ArmsInCluster(5, 0, 5, 1), ArmsInCluster(5, 0, 5, 1)]) is None
    assert swapped_clusters([ArmsInCluster(5, 0, 5, 0)]) == 1.0


def test_no_more_false_alarms_than_promised() -> None:
    """Clusters with rates and lengths of their own, arms alike: p < 0.05 in at most 8 % of 300 runs, interval too."""
    random = np.random.default_rng(11)
    alarms = missed = 0
    for _ in range(300):
        clusters = []
        for rate in random.beta(0.3, 6, 24):
            turns = 1 + random.poisson(random.choice((4, 12, 30)), 2)
            events = random.binomial(turns, rate)
            clusters.append(ArmsInCluster(int(turns[0]), int(events[0]), int(turns[1]), int(events[1])))
        alarms += (swapped_clusters(clusters) or 1.0) < 0.05
        interval = uneven_difference(clusters)
        missed += interval is not None and not interval.low <= 0.0 <= interval.high
    assert alarms <= 24
    assert missed <= 24


def test_a_real_difference_is_seen() -> None:
    """Five times the rate in 40 clusters is far outside chance."""
    random = np.random.default_rng(3)
    turns = random.integers(5, 40, (40, 2))
    clusters = [
        ArmsInCluster(int(n), int(random.binomial(n, 0.10)), int(m), int(random.binomial(m, 0.02))) for n, m in turns
    ]
    p_value, interval = swapped_clusters(clusters), uneven_difference(clusters)
    assert p_value is not None and p_value < 0.01
    assert interval is not None and interval.high < 0
