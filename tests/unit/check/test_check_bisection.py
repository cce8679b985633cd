"""A search for the first bad build, simulated turn by turn: what is tested, what is found, and how it is said."""

import random
from collections.abc import Sequence

import msgspec
import pytest

from soak.check import Due, RateDecider, bisection_of, due, rates_between
from soak.facts import (
    Bisecting,
    BisectOrder,
    BisectStep,
    BuildFile,
    Decide,
    Judgement,
    NamedBuild,
    Rates,
    Record,
    TurnKey,
)


def order_of(count: int, **changes: object) -> BisectOrder:
    file = BuildFile(engine="url", about="x", url="http://127.0.0.1:1")
    fields: dict[str, object] = {"good_rate": 0.025, "bad_rate": 0.12, "turns_per_step": 1000}
    return BisectOrder(
        builds=tuple(NamedBuild(name=f"b{number}", file=file) for number in range(count)),
        scenario="s",
        digest="d",
        alpha=0.001,
        beta=0.001,
        **(fields | changes),  # type: ignore[arg-type]
    )


def key(number: int) -> TurnKey:
    return TurnKey(episode="e", turn=number, pass_=0, arm="candidate")


def record(number: int, class_: str | None) -> Record:
    judged = None if class_ is None else Judgement(class_=class_, reason="r")  # type: ignore[arg-type]
    outcome = "indeterminate" if class_ is None else "finished"
    return Record(key=key(number), outcome=outcome, at=0.0, judgement=judged)  # type: ignore[arg-type]


def stepped(tested: Due, rate: float, turns_max: int, dice: random.Random) -> BisectStep:
    """What a run of a build that fails at this rate tells."""
    decider = RateDecider(tested.decide)
    for number in range(turns_max):
        decider.begun(key(number))
        if decider.take(record(number, "garbage_loop" if dice.random() < rate else "ok")):
            break
    limits = decider.interval
    closed = decider.closed()
    outcome = closed.outcome if closed else "undecided"
    return BisectStep(
        build=f"b{tested.number}",
        index=tested.number,
        outcome=outcome,  # type: ignore[arg-type]
        text="",
        turns=decider.turns,
        failures=decider.failures,
        turns_sent=decider.turns,
        log_ratio=decider.log_ratio,
        rate_low=limits.low,
        rate_high=limits.high,
    )


def simulated(order: BisectOrder, rates: Sequence[float], seed: int) -> Bisecting:
    """The whole search over builds that fail at these rates."""
    dice, state = random.Random(seed), Bisecting(order=order)
    while (tested := due(state)) is not None:
        step = stepped(tested, rates[tested.number], order.turns_per_step, dice)
        state = msgspec.structs.replace(state, steps=(*state.steps, step))
    return state


@pytest.mark.parametrize("stated", [True, False])
def test_the_right_build_is_found_in_fifty_of_fifty_seeds(stated: bool) -> None:
    """Five to nine builds, a fault of 15 % or more from one of them on, and up to 2 % of failures in the good ones."""
    for seed in range(50):
        dice = random.Random(seed)
        count = dice.randint(5, 9)
        first_bad, noise, fault = dice.randint(1, count - 1), dice.choice((0.0, 0.01, 0.02)), dice.uniform(0.15, 0.4)
        rates = [fault if number >= first_bad else noise for number in range(count)]
        order = order_of(count, **({} if stated else {"good_rate": None, "bad_rate": None}))
        found = bisection_of(simulated(order, rates, seed), "r")
        assert (found.outcome, found.first_bad) == ("found", f"b{first_bad}"), (seed, found.sentence)
        assert found.error_bound <= 0.006
        assert found.turns == sum(step.turns for step in found.steps)


def test_the_bad_end_comes_first_then_the_good_one() -> None:
    """Nothing can be found where the bad end does not fail; then the middle."""
    state = simulated(order_of(5), [0.01, 0.01, 0.2, 0.2, 0.2], 1)
    assert [step.index for step in state.steps] == [4, 0, 2, 1]


def test_ends_that_are_trusted_are_not_tested() -> None:
    """The first one tested is the middle."""
    state = simulated(order_of(5, trust_ends=True), [0.01, 0.01, 0.2, 0.2, 0.2], 1)
    assert [step.index for step in state.steps] == [2, 1]
    assert bisection_of(state, "r").first_bad == "b2"


@pytest.mark.parametrize(
    ("rates", "outcome", "said"),
    [
        ([0.01, 0.01, 0.01], "bad_is_good", "there is nothing to find"),
        ([0.3, 0.3, 0.3], "good_is_bad", "there is no first bad build after it"),
    ],
)
def test_an_end_that_is_not_what_it_was_said_to_be_ends_the_search(rates: list[float], outcome: str, said: str) -> None:
    """It is said which end, and nothing else is tested."""
    found = bisection_of(simulated(order_of(3), rates, 2), "r")
    assert found.outcome == outcome
    assert said in found.sentence
    assert found.first_bad is None
    assert found.suspects == []


def test_ends_that_fail_alike_cannot_be_measured_apart() -> None:
    """A good end that fails as often as the bad one is told as such."""
    measured = order_of(3, good_rate=None, bad_rate=None)
    assert bisection_of(simulated(measured, [0.2, 0.2, 0.2], 3), "r").outcome == "good_is_bad"
    silent = bisection_of(simulated(measured, [0.0, 0.0, 0.0], 3), "r")
    assert silent.outcome == "ends_alike"
    assert "0 of 1,000 turns failed" in silent.sentence


def test_measured_rates_hold_the_true_ones_apart() -> None:
    """What is tested between lies between the rates of the ends, the good one at most half of the bad one."""
    state = simulated(order_of(5, good_rate=None, bad_rate=None), [0.01, 0.01, 0.01, 0.25, 0.25], 4)
    good, bad = rates_between(state) or (0.0, 0.0)
    assert 0.01 < good <= bad / 2
    assert bad < 0.25


def test_a_good_end_that_fails_as_well_but_less_is_told_from_the_bad_one() -> None:
    """At 10 % against 35 % its rate is not surely below half of the bad end's, but surely below it: that will do."""
    measured = order_of(3, good_rate=None, bad_rate=None)
    found = bisection_of(simulated(measured, [0.1, 0.1, 0.35], 5), "r")
    assert (found.outcome, found.first_bad) == ("found", "b2")
    assert found.good_rate is not None
    assert found.bad_rate is not None
    assert found.bad_rate / 2 < found.good_rate < found.bad_rate


def test_a_rate_in_between_is_undecided_and_gone_round() -> None:
    """Builds that fail at a rate in between do not tell; what is left is named with what was seen."""
    order = order_of(6, turns_per_step=60)
    state = Bisecting(
        order=order,
        steps=(
            _step(5, "bad", 8, 12),
            _step(0, "good", 0, 70),
            _step(2, "undecided", 4, 60),
            _step(3, "untestable", 0, 0),
            _step(1, "good", 0, 70),
            _step(4, "bad", 9, 14),
        ),
    )
    assert due(state) is None
    found = bisection_of(state, "r")
    assert (found.outcome, found.suspects, found.last_good) == ("narrowed", ["b2", "b3", "b4"], "b1")
    assert "one of 3 after b1" in found.sentence
    assert "b2 (4 of 60 turns failed" in found.sentence
    assert found.error_bound == pytest.approx(0.004)


def _step(index: int, outcome: str, failures: int, turns: int) -> BisectStep:
    return BisectStep(build=f"b{index}", index=index, outcome=outcome, text="t", turns=turns, failures=failures)  # type: ignore[arg-type]


def test_turns_count_in_the_order_in_which_they_began() -> None:
    """Answers that take long are waited for: good turns that end before a loop do not make the build good."""
    decide = Decide(alpha=0.001, beta=0.001, rates=Rates(good=0.02, bad=0.3))
    hasty, decider = RateDecider(decide), RateDecider(decide)
    for number in range(60):
        decider.begun(key(number))
    said = [decider.take(record(number, "ok")) for number in range(8, 60)]
    assert said == [None] * 52
    assert decider.turns == 0
    said = [decider.take(record(number, "garbage_loop")) for number in range(8)]
    assert [found.outcome for found in said if found] == ["bad"]
    for number in range(8, 60):
        hasty.begun(key(number))
        hasty.take(record(number, "ok"))
    assert hasty.decision is not None
    assert hasty.decision.outcome == "good"


def test_a_turn_that_was_broken_off_counts_where_it_begins_again() -> None:
    """Neither as a failure nor twice; and what never began, because it was skipped, does not count at all."""
    decider = RateDecider(Decide(rates=Rates(good=0.02, bad=0.3)))
    for number in (0, 1):
        decider.begun(key(number))
    decider.take(record(0, None))
    decider.begun(key(0))
    decider.take(record(0, "garbage_loop"))
    assert (decider.turns, decider.failures) == (0, 0)
    decider.take(record(1, "ok"))
    assert (decider.turns, decider.failures) == (2, 1)
    decider.take(Record(key=key(9), outcome="skipped", at=0.0, reason="long"))
    assert decider.turns == 2


def test_nothing_is_called_good_before_the_least_turns() -> None:
    """`min_turns` holds back good and not bad."""
    decide = Decide(alpha=0.01, beta=0.01, rates=Rates(good=0.02, bad=0.3, min_turns=50))
    clean, broken = RateDecider(decide), RateDecider(decide)
    for decider, class_ in ((clean, "ok"), (broken, "garbage_loop")):
        for number in range(60):
            decider.begun(key(number))
            decider.take(record(number, class_))
    assert (clean.turns, clean.decision and clean.decision.outcome) == (50, "good")
    assert (broken.turns, broken.decision and broken.decision.outcome) == (2, "bad")
