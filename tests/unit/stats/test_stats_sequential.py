"""Anytime-valid evidence: its arithmetic, its error rate under continuous looking, forecasts, and intervals."""

import math

import numpy as np
import pytest

from soak.stats import DifferenceMeter, EvidenceMeter, anytime_rate, log_evidence

BETS = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)


def direct(differences: list[int]) -> float:
    """The definition: the mean over bets and directions of the product of exp(λD)/cosh(λD)."""
    products = [
        math.prod(math.exp(sign * bet * d) / math.cosh(bet * d) for d in differences)
        for bet in BETS
        for sign in (1, -1)
    ]
    return sum(products) / len(products)


def fed(differences: list[int]) -> EvidenceMeter:
    meter = EvidenceMeter()
    for difference in differences:
        meter.add(difference)
    return meter


@pytest.mark.parametrize("differences", [[], [0], [-1, -1, 0, 2], [-3] * 6, [1, -1] * 5])
def test_the_e_value_is_the_mean_of_the_bets(differences: list[int]) -> None:
    """Meter and path give what the definition gives, one by one and at the end."""
    assert math.exp(fed(differences).log_e) == pytest.approx(direct(differences))
    path = [math.exp(value) for value in log_evidence(differences)]
    assert path == pytest.approx([direct(differences[: i + 1]) for i in range(len(differences))])


def test_one_conversation_has_mean_one_under_either_sign() -> None:
    """A difference and its mirror image average to 1: the game is fair if the arms are alike."""
    for difference in (0, 1, 2, 7):
        assert (direct([difference]) + direct([-difference])) / 2 == pytest.approx(1.0)


def test_the_worked_example_has_the_evidence_of_the_design() -> None:
    """11 against 7 spread over 20 conversations gives E = 1.34, clustered in four 0.50."""
    spread = [b - a for a, b in zip([1] * 11 + [0] * 9, [0] * 5 + [1] * 7 + [0] * 8, strict=True)]
    assert math.exp(fed(spread).log_e) == pytest.approx(1.34, abs=0.005)
    assert math.exp(fed([-5, 1, -2, 2]).log_e) == pytest.approx(0.50, abs=0.005)


def test_looking_after_every_conversation_keeps_the_error_rate() -> None:
    """With whole conversations going wrong in one arm or the other, E ever reaches 20 in at most 5 % of runs."""
    random = np.random.default_rng(5)
    alarms = 0
    for _ in range(400):
        sizes = random.integers(1, 25, 300) * (random.random(300) < 0.1)
        alarms += max(log_evidence((sizes * random.choice((-1, 1), 300)).tolist())) >= math.log(20)
    assert alarms / 400 <= 0.05


def test_direction_is_of_the_candidate() -> None:
    """More events of the candidate speak for 1, fewer for −1, none for 0."""
    assert (fed([1, 1]).direction, fed([-2]).direction, fed([0, 0]).direction) == (1, -1, 0)


def test_the_factor_needed_reaches_the_bar_and_no_less_does() -> None:
    """That many times the same conversations come to the bar; a little fewer do not."""
    seen = [-1, -1, -1, 1]
    factor = fed(seen).factor_needed(20.0)
    logs = [sum(s * bet * d - math.log(math.cosh(bet * d)) for d in seen) for bet in BETS for s in (1, -1)]

    def after(times: float) -> float:
        return sum(math.exp(times * log) for log in logs) / len(logs)

    assert after(factor) == pytest.approx(20.0, rel=1e-6)
    assert after(0.99 * factor) < 20.0
    assert fed([-1, 1]).factor_needed(20.0) is None
    assert fed([-5] * 9).factor_needed(20.0) == 1.0


def test_what_can_still_happen_is_not_given_up() -> None:
    """Nothing seen in a hundredth of the budget may still be decided; nothing in half of it may not; a trend may."""
    nothing = fed([0] * 10)
    assert nothing.reachable(20.0, 100.0, 0.95)
    assert not nothing.reachable(20.0, 2.0, 0.95)
    assert fed([-1, -1, -1, -1]).reachable(20.0, 2.0, 0.95)
    assert not fed([-1, 1] * 20).reachable(20.0, 1.2, 0.95)


@pytest.mark.parametrize(
    ("events", "turns", "low", "high"),
    [(11, 500, 0.006, 0.054), (7, 500, 0.0025, 0.041), (0, 500, 0.0, 0.013), (0, 3000, 0.0, 0.0025)],
)
def test_anytime_rates_are_those_of_the_design(events: int, turns: int, low: float, high: float) -> None:
    """Beta mixture intervals of the worked example and of zero events."""
    assert anytime_rate(events, turns) == pytest.approx((low, high), abs=0.0006)


def test_anytime_rate_knows_nothing_before_the_first_turn() -> None:
    """No turns leave every rate possible; all turns failing reach 1."""
    assert anytime_rate(0, 0) == (0.0, 1.0)
    assert anytime_rate(5, 5).high == 1.0


def test_the_anytime_difference_narrows_with_exposure() -> None:
    """Clean conversations bound the difference: ± 1 before the first, 1.3 % after 500 turns in each arm."""
    meter = DifferenceMeter()
    assert meter.interval() == (-1.0, 1.0)
    for _ in range(20):
        meter.add(25, 0, 0)
    interval = meter.interval()
    assert interval.low == -interval.high
    assert interval.high == pytest.approx(0.0155, abs=0.001)
    assert meter.narrowest(10) < interval.high / 5


def test_the_anytime_difference_covers_at_every_look() -> None:
    """A true difference of half a per cent is missed at any of 100 looks in at most 5 % of runs."""
    random = np.random.default_rng(8)
    missed = 0
    for _ in range(60):
        meter, out = DifferenceMeter(), False
        for look in range(100):
            meter.add(30, int(random.binomial(30, 0.01)), int(random.binomial(30, 0.005)))
            out = out or (look % 10 == 9 and meter.interval().excludes(-0.005))
        missed += out
    assert missed <= 3
