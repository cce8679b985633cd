"""Which cells failures gather in: exact cases, laws, and how often it is wrong."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from soak.stats import gatherings

HALVES = [[(True, True, False, False)]]
CORNERS = [[tuple(place == corner for place in range(4)) for corner in range(4)]]


def test_a_half_is_the_chance_of_so_many_on_one_side() -> None:
    """Seven blocks with one failure each, all in one half of four cells: 2 · 2⁻⁷, as counted by hand."""
    blocks = [[True, False, False, False]] * 4 + [[False, True, False, False]] * 3 + [[False] * 4] * 13
    (found,) = gatherings(blocks, HALVES, draws=20_000)
    assert found.p_value == pytest.approx(2 * 0.5**7, rel=0.15)
    assert found.inside


def test_a_corner_is_the_chance_of_all_in_any_of_the_four() -> None:
    """Four failures in one of four cells: 4 · 4⁻⁴; the corner that has them is the best condition."""
    blocks = [[False, False, True, False]] * 4 + [[False] * 4] * 16
    (found,) = gatherings(blocks, CORNERS, draws=20_000)
    assert found.p_value == pytest.approx(4 * 0.25**4, rel=0.15)
    assert (found.best, found.inside) == (2, True)


def test_failures_of_the_seed_say_nothing_of_the_cells() -> None:
    """Turns that fail with the same seeds in every cell are no evidence, however many fail."""
    blocks = [[True] * 4] * 10 + [[False] * 4] * 10
    assert gatherings(blocks, [*HALVES, *CORNERS], draws=99)[0].p_value == 1.0


def test_failures_outside_a_condition_are_told() -> None:
    """Where only one of four cells never fails, that cell is the best condition and failures lie outside it."""
    blocks = [[True, True, True, False], [False, True, True, False], [True, False, True, False]] * 8
    found = gatherings(blocks, CORNERS, draws=999)[0]
    assert (found.best, found.inside) == (3, False)
    assert found.p_value < 0.01


def test_missing_outcomes_are_left_out() -> None:
    """Cells without an outcome take no part: the same as if they had not been there."""
    full = [[True, False], [True, False], [False, False]] * 3
    padded = [[*block, None, None] for block in full]
    alone = gatherings(full, [[(True, False)]], draws=500)[0]
    among = gatherings(padded, [[(True, False, True, False)]], draws=500)[0]
    assert among.p_value == pytest.approx(alone.p_value, abs=0.03)
    assert among.log_likelihood == pytest.approx(alone.log_likelihood)


@given(st.lists(st.lists(st.sampled_from([True, False, None]), min_size=4, max_size=4), max_size=12))
@settings(max_examples=60, deadline=None)
def test_any_outcomes_give_probabilities(blocks: list[list[bool | None]]) -> None:
    """Whatever came back, p-values lie above 0 and at most at 1, and correction never lowers one."""
    blocks = blocks or [[None] * 4]
    for found in gatherings(blocks, [*HALVES, *CORNERS], draws=49):
        assert 0 < found.p_value <= found.p_adjusted <= 1
