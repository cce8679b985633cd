"""The sequential test between two rates: its ratio, its bounds, and how often it is wrong."""

import math

import numpy as np
import pytest

from soak.stats import RateTest

TEST = RateTest(good=0.02, bad=0.15, alpha=0.01, beta=0.02)
NEAR = RateTest(good=0.06, bad=0.07, alpha=0.01, beta=0.02, likely_good=0.02, likely_bad=0.15)


def test_the_ratio_is_that_of_the_two_likelihoods() -> None:
    """Three failures in ten turns have the ratio of their binomial likelihoods."""
    plain = (0.15 / 0.02) ** 3 * (0.85 / 0.98) ** 7
    assert TEST.log_ratio(3, 10) == pytest.approx(math.log(plain))
    assert TEST.log_ratio(0, 0) == 0


def test_it_speaks_at_its_bounds_and_not_before() -> None:
    """Bad is said once the ratio has reached 1/alpha, good once it is down at beta."""
    clean = next(turns for turns in range(1, 1000) if TEST.said(0, turns) == "good")
    assert TEST.log_ratio(0, clean) <= math.log(0.02) < TEST.log_ratio(0, clean - 1)
    assert TEST.said(0, clean - 1) is None
    assert [TEST.said(failures, failures) for failures in (1, 2, 3)] == [None, None, "bad"]


def test_likely_rates_further_apart_make_it_speak_sooner() -> None:
    """A clean build is called good sooner where good ones are likely to be clean, a broken one bad sooner."""
    keen = TEST._replace(likely_good=0.001, likely_bad=0.5)
    for failing, which in ((0, "good"), (1, "bad")):
        plain, sooner = (
            next(turns for turns in range(1, 1000) if test.said(failing * turns, turns) == which)
            for test in (TEST, keen)
        )
        assert sooner <= plain
    assert keen.turns_expected("bad") < TEST.turns_expected("bad")
    assert keen.log_ratio(5, 10) > 0 > keen.log_ratio(0, 10)


def wrong(rate: float, right: str, test: RateTest = TEST, runs: int = 4000) -> tuple[float, float]:
    """The share of runs that said the other thing, and the mean number of turns, at a true rate; seeded."""
    failures = (np.random.default_rng(7).random((runs, 600)) < rate).cumsum(axis=1)
    turns = np.arange(1, 601)
    for_bad, for_good = (
        failures * math.log(likely / other) + (turns - failures) * math.log((1 - likely) / (1 - other))
        for likely, other in ((test.likely_bad or test.bad, test.good), (test.likely_good or test.good, test.bad))
    )
    bad, good = for_bad >= -math.log(test.alpha), for_good >= -math.log(test.beta)
    ended, tells = (bad | good).argmax(axis=1), (bad | good).any(axis=1)
    assert tells.mean() > 0.95
    said_bad = bad[np.arange(runs), ended]
    return float(np.mean(tells & (said_bad if right == "good" else ~said_bad))), float(np.mean(ended + 1))


@pytest.mark.parametrize("rate", [0.0, 0.01, 0.02])
def test_a_good_build_is_called_bad_no_more_often_than_stated(rate: float) -> None:
    """At the good rate or below, at most alpha of 4,000 runs end as bad."""
    assert wrong(rate, "good")[0] <= TEST.alpha
    assert wrong(rate, "good", NEAR)[0] <= NEAR.alpha


@pytest.mark.parametrize("rate", [0.15, 0.3])
def test_a_bad_build_is_called_good_no_more_often_than_stated(rate: float) -> None:
    """At the bad rate or above, at most beta of 4,000 runs end as good."""
    assert wrong(rate, "bad")[0] <= TEST.beta
    assert wrong(rate, "bad", NEAR)[0] <= NEAR.beta


@pytest.mark.parametrize(("rate", "which"), [(0.02, "good"), (0.15, "bad")])
def test_the_turns_expected_are_about_those_it_takes(rate: float, which: str) -> None:
    """Wald's approximation is within a quarter of the simulated mean."""
    assert TEST.turns_expected(which) == pytest.approx(wrong(rate, which)[1], rel=0.25)  # type: ignore[arg-type]
