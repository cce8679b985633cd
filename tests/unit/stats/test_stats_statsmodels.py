"""Against statsmodels: what scipy has no routine for."""

import math
import warnings

import numpy as np
import pytest

from soak.stats import (
    ClusterCounts,
    PairedCounts,
    clopper_pearson,
    cluster_ratio,
    holm,
    mcnemar_exact,
    turns_needed_unpaired,
    wilson,
)

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import statsmodels.api as sm
    from statsmodels.stats.contingency_tables import mcnemar
    from statsmodels.stats.multitest import multipletests
    from statsmodels.stats.power import NormalIndPower
    from statsmodels.stats.proportion import proportion_confint

SPREAD = list(zip([1] * 11 + [0] * 9, [0] * 5 + [1] * 7 + [0] * 8, strict=True))
CROWDED = list(zip([6, 3, 2] + [0] * 17, [1, 4, 0, 2] + [0] * 16, strict=True))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("arms", [SPREAD, CROWDED])
def test_the_cluster_ratio_is_a_gee_with_independence(arms: list[tuple[int, int]]) -> None:
    """The interval by clusters is the Poisson GEE's sandwich times the factor G/(G−1), with t(19)."""
    failed, arm, group = [], [], []
    for i, counts in enumerate(arms):
        for side, events in enumerate(counts):
            failed += [1] * events + [0] * (25 - events)
            arm += [side] * 25
            group += [i] * 25
    model = sm.GEE(
        np.array(failed), sm.add_constant(np.array(arm, float)), groups=np.array(group), family=sm.families.Poisson()
    )
    found = model.fit()
    half = 2.093024 * float(found.bse[1]) * math.sqrt(20 / 19)
    centre = float(found.params[1])
    expected = (math.exp(centre - half), math.exp(centre + half))
    assert cluster_ratio([ClusterCounts(25, *counts) for counts in arms], freedom=19) == pytest.approx(
        expected, rel=1e-3
    )


def test_counts_agree() -> None:
    """McNemar, Holm, Wilson and Clopper–Pearson are theirs."""
    cells = PairedCounts(both=3, baseline_only=8, candidate_only=4, neither=485)
    theirs = mcnemar([[cells.both, cells.baseline_only], [cells.candidate_only, cells.neither]], exact=True).pvalue
    assert mcnemar_exact(8, 4) == pytest.approx(theirs)
    assert holm([0.03, 0.20, 0.04, 0.5]) == pytest.approx(multipletests([0.03, 0.20, 0.04, 0.5], method="holm")[1])
    assert wilson(7, 500) == pytest.approx(proportion_confint(7, 500, method="wilson"))
    assert clopper_pearson(7, 500) == pytest.approx(proportion_confint(7, 500, method="beta"))


def test_planned_turns_are_near_theirs() -> None:
    """Turns for 2.2 % against 1.1 % lie within 4 % of the arcsine approximation's."""
    effect = 2 * (math.asin(math.sqrt(0.022)) - math.asin(math.sqrt(0.011)))
    theirs = NormalIndPower().solve_power(effect, alpha=0.05, power=0.8)
    assert turns_needed_unpaired(0.022, 0.011) == pytest.approx(theirs, rel=0.04)
