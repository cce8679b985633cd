"""Load shapes and think time."""

import itertools

import pytest

from soak.facts import Load, ThinkTime, Turn
from soak.plan import arrivals, in_flight_at, think_time_s


def test_arrivals_are_poisson_with_the_given_rate() -> None:
    """Gaps average 60 / rate seconds, vary as an exponential does, and follow from the seed alone."""
    load = Load(shape="arrival", rate_per_min=30)
    times = list(itertools.islice(arrivals(load, 7), 4001))
    gaps = [right - left for left, right in itertools.pairwise(times)]
    mean = sum(gaps) / len(gaps)
    spread = (sum((gap - mean) ** 2 for gap in gaps) / len(gaps)) ** 0.5
    assert times[0] == 0.0
    assert min(gaps) >= 0
    assert mean == pytest.approx(2.0, rel=0.1)
    assert spread == pytest.approx(mean, rel=0.1)
    assert times[:50] == list(itertools.islice(arrivals(load, 7), 50))
    assert times[1:50] != list(itertools.islice(arrivals(load, 8), 50))[1:]


def test_arrivals_need_a_rate() -> None:
    """A closed load has no arrival times."""
    with pytest.raises(ValueError, match="no arrival rate"):
        next(arrivals(Load(), 7))


def test_ramp_rises_evenly_and_stays() -> None:
    """A ramp from 2 to 16 over an hour is at its ends and middle where it should be, and never falls."""
    load = Load(shape="ramp", from_in_flight=2, in_flight=16, over_s=3600)
    assert [in_flight_at(load, at) for at in (-5, 0, 1800, 3599, 3600, 90000)] == [2, 2, 9, 15, 16, 16]
    steps = [in_flight_at(load, at) for at in range(0, 4000, 10)]
    assert steps == sorted(steps)


@pytest.mark.parametrize("load", [Load(in_flight=5), Load(shape="arrival", rate_per_min=1, in_flight=5)])
def test_other_shapes_are_constant(load: Load) -> None:
    """Closed and arrival loads have the same limit at any time."""
    assert {in_flight_at(load, at) for at in (0, 10, 1e6)} == {5}


@pytest.mark.parametrize(
    ("think", "index", "wait_s", "pause_s"),
    [
        (ThinkTime(), 3, 9.0, 0.0),
        (ThinkTime(mode="fixed", fixed_s=2.5), 3, 9.0, 2.5),
        (ThinkTime(mode="fixed", fixed_s=2.5), 0, 9.0, 0.0),
        (ThinkTime(mode="recorded"), 3, 9.0, 9.0),
        (ThinkTime(mode="recorded", max_s=5), 3, 9.0, 5.0),
        (ThinkTime(mode="recorded"), 3, None, 0.0),
        (ThinkTime(mode="recorded"), 3, -4.0, 0.0),
    ],
)
def test_think_time(think: ThinkTime, index: int, wait_s: float | None, pause_s: float) -> None:
    """None, fixed and recorded pauses; never before the first turn, never above the limit or below zero."""
    assert think_time_s(think, Turn(index=index, prefix=0, wait_s=wait_s)) == pause_s
