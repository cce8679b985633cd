"""Laws of attribution: whatever turns and readings there are, nothing is given out twice."""

import math
from bisect import bisect_right

from hypothesis import given, settings
from hypothesis import strategies as st

from soak.check.attribution import SHARED, Span, attribute
from soak.check.engine import deltas
from soak.facts import EngineSample

MOMENTS = st.integers(0, 400).map(lambda tenth: tenth / 10)
SPANS = st.lists(st.tuples(MOMENTS, st.integers(0, 80).map(lambda tenth: tenth / 10)), max_size=12).map(
    lambda drawn: [Span(begin=begin, end=begin + length) for begin, length in drawn]
)
READINGS = st.lists(st.tuples(MOMENTS, st.sampled_from((0.0, 0.1, 0.7))), min_size=1, max_size=25)
GROWTH = st.lists(st.integers(0, 50), min_size=6, max_size=6)


def reading(at: float, took_s: float, counts: list[float], process: float = 1.0) -> EngineSample:
    return EngineSample(
        arm="a",
        at=at,
        asked_at=at - took_s,
        **dict(zip(SHARED, counts, strict=False)),
        accepted_per_position=(counts[5],),
        success={"stop": 0.0},
        preemptions=counts[0],
        process_start_at=process,
    )


def in_order(drawn: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Readings of one after the other: none is asked for before the one before it has come."""
    kept: list[tuple[float, float]] = []
    for at, took_s in sorted(drawn):
        if not kept or at - took_s >= kept[-1][0]:
            kept.append((at, took_s))
    return kept


@settings(max_examples=100, deadline=None)
@given(spans=SPANS, drawn=READINGS, growth=st.lists(st.tuples(st.booleans(), GROWTH), min_size=25, max_size=25))
def test_what_is_given_out_never_exceeds_what_moved(
    spans: list[Span], drawn: list[tuple[float, float]], growth: list[tuple[bool, list[int]]]
) -> None:
    """The shares of all turns add up to no more than the counters moved, restarts or not, and none is negative."""
    samples, totals, process = list[EngineSample](), [0.0] * 6, 1.0
    for (at, took_s), (restart, grown) in zip(in_order(drawn), growth, strict=False):
        if restart:
            totals, process = [0.0] * 6, process + 1
        totals = [total + more for total, more in zip(totals, grown, strict=True)]
        samples.append(reading(at, took_s, totals, process))
    shares = attribute(samples, spans)
    whole = deltas(samples)
    moved = [getattr(whole, name) or 0.0 for name in SHARED] + [sum(whole.accepted_per_position or (0.0,))]
    for place, most in enumerate(moved):
        given_out = [share.amounts[place] for share in shares if share.amounts]
        assert all(amount >= 0 for amount in given_out)
        assert sum(given_out) <= most * (1 + 1e-9)


def counted(spans: list[Span], at: float) -> list[float]:
    """What an engine has counted at a moment that makes ten steps a second for each turn in flight, and none else."""
    steps = sum(math.floor(10 * max(0.0, min(at, span.end) - span.begin)) for span in spans)
    return [float(steps * place) for place in range(1, 7)]


@settings(max_examples=100, deadline=None)
@given(
    lengths=st.lists(st.tuples(st.integers(1, 30), st.integers(1, 80)), min_size=1, max_size=6),
    drawn=READINGS,
    more=READINGS,
    data=st.data(),
)
def test_reading_more_often_changes_nothing_for_a_lone_turn(
    lengths: list[tuple[int, int]],
    drawn: list[tuple[float, float]],
    more: list[tuple[float, float]],
    data: st.DataObject,
) -> None:
    """A turn that is alone between two readings has exactly its own counts, however many readings lie in between."""
    spans, at = list[Span](), 1.0
    for pause, length in lengths:
        at += pause / 10
        spans.append(Span(begin=at, end=at + length / 10))
        at = spans[-1].end
    coarse = in_order(drawn)
    fine = in_order([*coarse, *((at, 0.0) for at, _ in more if clear_of(coarse, at))])
    few, many = (
        attribute([reading(at, 0.0, counted(spans, at)) for at, _ in readings], spans) for readings in (coarse, fine)
    )
    for span, before, after in zip(spans, few, many, strict=True):
        if before.attributed == "alone":
            assert after.attributed == "alone"
            assert after.amounts == before.amounts == counted([span], span.end)


def clear_of(readings: list[tuple[float, float]], at: float) -> bool:
    """Whether a reading at this moment leaves all the others in the order they are kept in."""
    moments = [moment for moment, _ in readings]
    place = bisect_right(moments, at)
    return at not in moments and (place == len(readings) or at <= readings[place][0] - readings[place][1])
