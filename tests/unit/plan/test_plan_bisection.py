"""Which build to test next."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from soak.plan import Told, search


def searched(count: int, first_bad: int, silent: set[int]) -> tuple[range, dict[int, Told]]:
    """The suspects that are left when every test tells the truth, but those of `silent` tell nothing; all tests."""
    told: dict[int, Told] = {}
    while (number := search(count, told).next) is not None:
        assert number not in told
        told[number] = "nothing" if number in silent else "bad" if number >= first_bad else "good"
    return search(count, told).suspects, told


@given(st.integers(2, 200).flatmap(lambda count: st.tuples(st.just(count), st.integers(1, count - 1))))
def test_the_first_bad_build_is_found_in_log2_steps(drawn: tuple[int, int]) -> None:
    """With tests that tell the truth it is the one suspect left, after at most log2 of the builds tests."""
    count, first_bad = drawn
    suspects, told = searched(count, first_bad, set())
    assert list(suspects) == [first_bad]
    assert len(told) <= math.ceil(math.log2(count - 1)) == search(count, {}).steps_left


@given(st.data())
def test_what_cannot_be_told_is_gone_round(data: st.DataObject) -> None:
    """The first bad build is among the suspects, and all suspects but the last were asked and told nothing."""
    count = data.draw(st.integers(2, 40))
    first_bad = data.draw(st.integers(1, count - 1))
    silent = data.draw(st.sets(st.integers(1, max(1, count - 2))))
    suspects, told = searched(count, first_bad, silent)
    assert first_bad in suspects
    assert all(told[number] == "nothing" for number in list(suspects)[:-1])


def test_the_next_one_is_nearest_to_the_middle() -> None:
    """Of nine builds the fifth; where that told nothing, its neighbour."""
    assert search(9, {}).next == 4
    assert search(9, {4: "nothing"}).next in (3, 5)
    assert search(9, {4: "good"}).next == 6


def test_one_build_is_no_search() -> None:
    """A good and a bad build are needed."""
    with pytest.raises(ValueError, match="two builds"):
        search(1, {})
