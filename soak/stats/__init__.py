"""
The numbers behind a comparison: rates, intervals, exact tests, ratios, power. Pure functions of counts and times.

May touch: numpy and scipy, whose door it is. No facts, no I/O, no clock; what is random is seeded, so equal input gives
equal output. Only `scipy.special` is imported: it loads in a fraction of the time of `scipy.stats`.

Conventions: *baseline* comes before *candidate* in every signature; a difference is candidate − baseline and a ratio
candidate / baseline; intervals are 95 % unless `confidence` says otherwise; a p-value is two-sided. A quantity that
cannot be computed is None, never 0. Turns of one episode are one **cluster**.
"""

from soak.stats.clusters import ClusterCounts, cluster_difference, cluster_ratio, envelope
from soak.stats.dependence import adjacency_p, sign_clustering_p
from soak.stats.exact import fisher, holm, mcnemar_exact, mcnemar_midp, sign_flip
from soak.stats.paired import PairedOutcome, PairedTest, by_cluster, count_pairs, paired_test
from soak.stats.power import detectable_rate, turns_needed_paired, turns_needed_unpaired
from soak.stats.quantiles import quantile
from soak.stats.rates import (
    Interval,
    PairedCounts,
    clopper_pearson,
    newcombe_paired,
    newcombe_unpaired,
    ratio_conditional,
    ratio_score,
    upper_bound,
    wilson,
)
from soak.stats.totals import RatioEstimate, total_ratio

__all__ = [
    "ClusterCounts",
    "Interval",
    "PairedCounts",
    "PairedOutcome",
    "PairedTest",
    "RatioEstimate",
    "adjacency_p",
    "by_cluster",
    "clopper_pearson",
    "cluster_difference",
    "cluster_ratio",
    "count_pairs",
    "detectable_rate",
    "envelope",
    "fisher",
    "holm",
    "mcnemar_exact",
    "mcnemar_midp",
    "newcombe_paired",
    "newcombe_unpaired",
    "paired_test",
    "quantile",
    "ratio_conditional",
    "ratio_score",
    "sign_clustering_p",
    "sign_flip",
    "total_ratio",
    "turns_needed_paired",
    "turns_needed_unpaired",
    "upper_bound",
    "wilson",
]
