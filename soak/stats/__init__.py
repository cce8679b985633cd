"""
The numbers behind a comparison: rates, intervals, exact tests, ratios, power. Pure functions of counts and times.

May touch: numpy and scipy, whose door it is. No facts (but for the sub-room `lossless`), no I/O, no clock; what is
random is seeded, so equal input gives equal output. Only `scipy.special` is imported: it loads in a fraction of the
time of `scipy.stats`.

Conventions: *baseline* comes before *candidate* in every signature; a difference is candidate − baseline and a ratio
candidate / baseline; intervals are 95 % unless `confidence` says otherwise; a p-value is two-sided. A quantity that
cannot be computed is None, never 0. Turns of one episode are one **cluster**.
"""

from soak.stats.clusters import (
    ClusterCounts,
    Estimate,
    cluster_difference,
    cluster_difference_unpaired,
    cluster_mean,
    cluster_ratio,
    design_effect,
    envelope,
    intra_cluster_correlation,
)
from soak.stats.dependence import adjacency_p, sign_clustering_p
from soak.stats.exact import fisher, holm, mcnemar_exact, mcnemar_midp, sign_flip
from soak.stats.paired import (
    DEPENDENCE_ALPHA,
    PairedEvents,
    PairedTest,
    PairedTurns,
    by_cluster,
    cluster_differences,
    count_pairs,
    paired_test,
)
from soak.stats.power import (
    PairRates,
    clustering_factor,
    detectable_rate,
    pair_rates,
    power_paired,
    turns_for_power,
    turns_needed_paired,
    turns_needed_unpaired,
    turns_to_decision,
)
from soak.stats.quantiles import QuantileLimits, quantile, quantile_limits, quantiles_limits
from soak.stats.randomised import permuted_difference, sign_flip_sums
from soak.stats.rate_test import RateTest
from soak.stats.rates import (
    Interval,
    PairedCounts,
    clopper_pearson,
    newcombe_paired,
    newcombe_unpaired,
    prediction,
    ratio_conditional,
    ratio_score,
    upper_bound,
    wilson,
)
from soak.stats.sequential import DifferenceMeter, EvidenceMeter, anytime_rate, log_evidence
from soak.stats.survival import Lives, kaplan_meier, log_rank, log_rank_paired, median_life
from soak.stats.totals import RatioEstimate, total_ratio, totals_by_cluster
from soak.stats.trend import TrendEstimate, band_counts, event_trend, value_trend
from soak.stats.uneven import ArmsInCluster, swapped_clusters, uneven_difference, uneven_ratio

__all__ = [
    "DEPENDENCE_ALPHA",
    "ArmsInCluster",
    "ClusterCounts",
    "DifferenceMeter",
    "Estimate",
    "EvidenceMeter",
    "Interval",
    "Lives",
    "PairRates",
    "PairedCounts",
    "PairedEvents",
    "PairedTest",
    "PairedTurns",
    "QuantileLimits",
    "RateTest",
    "RatioEstimate",
    "TrendEstimate",
    "adjacency_p",
    "anytime_rate",
    "band_counts",
    "by_cluster",
    "clopper_pearson",
    "cluster_difference",
    "cluster_difference_unpaired",
    "cluster_differences",
    "cluster_mean",
    "cluster_ratio",
    "clustering_factor",
    "count_pairs",
    "design_effect",
    "detectable_rate",
    "envelope",
    "event_trend",
    "fisher",
    "holm",
    "intra_cluster_correlation",
    "kaplan_meier",
    "log_evidence",
    "log_rank",
    "log_rank_paired",
    "mcnemar_exact",
    "mcnemar_midp",
    "median_life",
    "newcombe_paired",
    "newcombe_unpaired",
    "pair_rates",
    "paired_test",
    "permuted_difference",
    "power_paired",
    "prediction",
    "quantile",
    "quantile_limits",
    "quantiles_limits",
    "ratio_conditional",
    "ratio_score",
    "sign_clustering_p",
    "sign_flip",
    "sign_flip_sums",
    "swapped_clusters",
    "total_ratio",
    "totals_by_cluster",
    "turns_for_power",
    "turns_needed_paired",
    "turns_needed_unpaired",
    "turns_to_decision",
    "uneven_difference",
    "uneven_ratio",
    "upper_bound",
    "value_trend",
    "wilson",
]
