"""Exact tests, against scipy.stats and the worked example 11/500 against 7/500."""

import itertools

import numpy as np
import pytest
from scipy import stats

from soak.stats import fisher, holm, mcnemar_exact, mcnemar_midp, sign_flip


@pytest.mark.parametrize(
    ("baseline", "candidate"),
    [
        ((11, 500), (7, 500)),
        ((0, 10), (5, 10)),
        ((3, 7), (9, 40)),
        ((0, 5), (0, 9)),
        ((5, 5), (0, 5)),
        ((40, 1000), (70, 900)),
    ],
)
def test_fisher_equals_scipy(baseline: tuple[int, int], candidate: tuple[int, int]) -> None:
    """Fisher's two-sided p-value is scipy's."""
    table = [[x, n - x] for x, n in (baseline, candidate)]
    assert fisher(baseline, candidate) == pytest.approx(stats.fisher_exact(table).pvalue, rel=1e-9)


@pytest.mark.parametrize(("b", "c"), [(8, 4), (11, 7), (0, 6), (5, 5), (1, 0), (40, 71)])
def test_mcnemar_equals_the_binomial_test(b: int, c: int) -> None:
    """McNemar's exact p-value is that of the binomial test of the discordant pairs."""
    assert mcnemar_exact(b, c) == pytest.approx(stats.binomtest(b, b + c).pvalue, rel=1e-12)


def test_the_worked_example_has_the_p_values_of_the_design() -> None:
    """11/500 against 7/500: Fisher 0.477; McNemar with 0, 3, 5, 7 shared failures 0.481, 0.388, 0.289, 0.125."""
    assert fisher((11, 500), (7, 500)) == pytest.approx(0.477, abs=5e-4)
    exact = [mcnemar_exact(11 - both, 7 - both) for both in (0, 3, 5, 7)]
    midp = [mcnemar_midp(11 - both, 7 - both) for both in (0, 3, 5, 7)]
    assert exact == pytest.approx([0.481, 0.388, 0.289, 0.125], abs=5e-4)
    assert midp == pytest.approx([0.359, 0.267, 0.180, 0.062], abs=6e-4)


def test_from_eleven_failures_mcnemar_needs_two_or_fewer() -> None:
    """11 against 2 is significant (0.022), 11 against 3 is not (0.057)."""
    assert mcnemar_exact(11, 2) == pytest.approx(0.022, abs=5e-4)
    assert mcnemar_exact(11, 3) == pytest.approx(0.057, abs=5e-4)


def test_nothing_discordant_is_no_evidence() -> None:
    """Without discordant pairs or differing clusters p is 1."""
    assert mcnemar_exact(0, 0) == mcnemar_midp(0, 0) == sign_flip([]) == sign_flip([0, 0]) == 1.0
    assert fisher((0, 0), (1, 2)) is None


def test_sign_flip_equals_full_enumeration() -> None:
    """The convolution gives what flipping all signs one by one gives."""
    random = np.random.default_rng(3)
    for _ in range(20):
        differences = [int(d) for d in random.integers(-4, 5, size=9)]
        sums = [
            abs(sum(s * d for s, d in zip(signs, differences, strict=True)))
            for signs in itertools.product((1, -1), repeat=9)
        ]
        share = sum(total >= abs(sum(differences)) for total in sums) / len(sums)
        assert sign_flip(differences) == pytest.approx(share)


def test_sign_flip_of_the_worked_example() -> None:
    """11 against 7 spread over 20 conversations gives 0.219, clustered in four 0.75."""
    spread = [b - a for a, b in zip([1] * 11 + [0] * 9, [0] * 5 + [1] * 7 + [0] * 8, strict=True)]
    assert sign_flip(spread) == pytest.approx(0.219, abs=5e-4)
    assert sign_flip([1 - 6, 4 - 3, -2, 2]) == pytest.approx(0.75)


def test_sign_flip_of_very_many_failures_is_near_its_normal_limit() -> None:
    """Above the size where it is convolved, p goes on smoothly from where it is exact."""
    exact = sign_flip([50] * 220 + [-50] * 180)
    approximate = sign_flip([51] * 220 + [-51] * 180)
    assert approximate == pytest.approx(exact, abs=0.01)


def test_holm_adjusts_step_by_step() -> None:
    """0.03, 0.20, 0.04 become 0.09, 0.20, 0.09, and the order asked in does not matter."""
    assert holm([0.03, 0.20, 0.04]) == pytest.approx([0.09, 0.20, 0.09])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []
