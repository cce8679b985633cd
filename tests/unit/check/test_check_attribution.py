"""Whose the movement of counters is."""

import math

import pytest

from soak.check.attribution import Share, Span, attribute
from soak.facts import EngineSample


def reading(at: float, drafts: float, *, asked_at: float | None = None, **fields: object) -> EngineSample:
    """A reading at `at`, of a page that was asked for at `asked_at` (at once if that is not said)."""
    return EngineSample(arm="a", at=at, asked_at=at if asked_at is None else asked_at, drafts=drafts, **fields)  # type: ignore[arg-type]


def shares(samples: list[EngineSample], *times: tuple[float, float], **span: object) -> list[Share]:
    return attribute(samples, [Span(begin=begin, end=end, **span) for begin, end in times])  # type: ignore[arg-type]


def test_a_lone_turn_has_what_moved_between_the_readings_around_it() -> None:
    """Two turns one after the other with a reading between them: each has its own, exactly."""
    first, second = shares([reading(0, 5), reading(10, 25), reading(20, 32)], (1, 9), (11, 19))
    assert [(one.attributed, one.amounts[0]) for one in (first, second)] == [("alone", 20), ("alone", 7)]


def test_turns_in_flight_together_share_by_their_time() -> None:
    """Of 30 drafts in a window, a turn that was there three times as long as the other has three quarters."""
    long, short = shares([reading(0, 0), reading(10, 40)], (1, 7), (5, 7))
    assert [(one.attributed, one.amounts[0], one.others) for one in (long, short)] == [
        ("overlap", 30, 1),
        ("overlap", 10, 1),
    ]


def test_two_lone_turns_without_a_reading_between_them_overlap() -> None:
    """Turns that never met but share a window cannot be told apart by it."""
    assert [one.attributed for one in shares([reading(0, 0), reading(10, 40)], (1, 3), (5, 7))] == ["overlap"] * 2


@pytest.mark.parametrize("times", [(-1, 5), (5, 11), (-1, 11)])
def test_a_turn_that_the_readings_do_not_surround_is_not_attributed(times: tuple[float, float]) -> None:
    """Without a reading before its beginning and one after its end, nothing is said of a turn."""
    (share,) = shares([reading(0, 0), reading(10, 40)], times)
    assert share.attributed is None


def test_a_page_asked_for_before_the_end_does_not_hold_the_turn() -> None:
    """A page that was on its way when the turn ended may be older than its end: the next one closes it."""
    samples = [reading(0, 0), reading(10, 30, asked_at=8), reading(20, 40, asked_at=19)]
    (share,) = shares(samples, (1, 9))
    assert (share.attributed, share.amounts[0]) == ("alone", 40)
    (share,) = shares(samples[:2], (1, 9))
    assert share.attributed is None


def test_somebody_elses_requests_make_a_turn_less_than_alone() -> None:
    """Where more requests ended than the turn had sent, what moved is not called its own."""
    samples = [reading(0, 0, success={"stop": 4.0}), reading(10, 30, success={"stop": 6.0})]
    (share,) = shares(samples, (1, 9))
    assert (share.attributed, share.others) == ("overlap", 0)
    (share,) = shares(samples, (1, 9), requests=2)
    assert share.attributed == "alone"


def test_a_restart_befalls_who_was_in_flight_when_it_came() -> None:
    """A turn that had ended before is not hit, one that was broken off or outlived it is, and none is exact."""
    samples = [reading(0, 50, process_start_at=-9.0), reading(10, 5, process_start_at=6.0)]
    ended, outlived = shares(samples, (1, 4), (2, 8))
    (broken,) = shares(samples, (1, 4), answered=False)
    assert [one.restarts for one in (ended, outlived, broken)] == [0, 1, 1]
    assert broken.attributed == "overlap"
    assert broken.amounts[0] == 5, "what the new process counted is kept, the old one's last moments are not guessed"


def test_rare_events_are_not_shared_out() -> None:
    """A preemption is shown to all turns it may have hit; NaN only to those that ended where it was counted."""
    samples = [
        reading(0, 0, preemptions=0.0, corrupted=0.0),
        reading(10, 0, preemptions=1.0, corrupted=0.0),
        reading(20, 0, preemptions=1.0, corrupted=1.0),
    ]
    first, second = shares(samples, (1, 9), (2, 19))
    assert [(one.preemptions, one.corrupted) for one in (first, second)] == [(1, 0), (1, 1)]


def test_what_is_not_exported_stays_unknown() -> None:
    """A counter that the page lacks is NaN in a share, not 0."""
    (share,) = shares([reading(0, 0), reading(10, 4)], (1, 9))
    assert share.amounts[0] == 4
    assert all(math.isnan(value) for value in (*share.amounts[1:], share.preemptions, share.corrupted))


def test_a_reading_that_lacks_a_counter_is_passed_over() -> None:
    """A page with a broken line does not move what happened before it into the window behind it."""
    samples = [reading(0, 0), EngineSample(arm="a", at=5, prefix_hits=1.0), reading(10, 40)]
    first, second = shares(samples, (1, 4), (6, 9))
    assert [first.attributed, second.attributed] == ["overlap"] * 2
    assert first.amounts[0] + second.amounts[0] == 40


def test_other_traffic_of_ours_counts_as_company() -> None:
    """A start that came to nothing was in flight too: the turn beside it is not alone."""
    turn, _ = attribute([reading(0, 0), reading(10, 40)], [Span(begin=1, end=9), Span(begin=2, end=math.inf)])
    assert turn.attributed == "overlap"
