"""Properties of metrics reading and of reset-aware deltas."""

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from soak.check.engine import deltas
from soak.facts import EngineSample
from soak.scrape import parse_metrics

PLAIN = [
    *("drafts", "draft_tokens", "accepted_tokens", "prefix_queries"),
    *("prefix_hits", "prompt_tokens", "generation_tokens", "preemptions"),
]
COUNTS = st.integers(0, 1000)
# One step of an engine: by how much each counter grows before the reading, and whether it restarted before growing.
STEPS = st.lists(st.tuples(st.booleans(), st.lists(COUNTS, min_size=12, max_size=12)), min_size=1, max_size=12)
EXPORTED = st.sets(st.sampled_from([*PLAIN, "accepted_per_position", "success"]))


def readings(steps: list[tuple[bool, list[int]]], exported: set[str], start_known: bool) -> list[EngineSample]:
    """Simulate an engine: what a scraper would read after each step."""
    samples, totals, process = list[EngineSample](), [0.0] * 12, 1.0
    for number, (restart, growth) in enumerate(steps):
        if restart:
            totals, process = [0.0] * 12, process + 1
        totals = [total + grown for total, grown in zip(totals, growth, strict=True)]
        fields = {name: totals[i] for i, name in enumerate(PLAIN) if name in exported}
        samples.append(
            EngineSample(
                arm="a",
                at=float(number),
                **fields,
                accepted_per_position=tuple(totals[8:10]) if "accepted_per_position" in exported else None,
                success={"stop": totals[10], "length": totals[11]} if "success" in exported else None,
                process_start_at=process if start_known else None,
            )
        )
    return samples


def test_deltas_are_the_growth_between_the_first_and_last_reading() -> None:
    """Without restarts a delta is last minus first, and one reading alone measures nothing."""
    samples = readings([(False, [5] * 12), (False, [7] * 12)], {"drafts", "success"}, True)
    delta = deltas(samples)
    assert (delta.drafts, delta.success, delta.prompt_tokens) == (7, {"stop": 7, "length": 7}, None)
    assert (delta.samples, delta.restarts) == (2, 0)
    assert deltas(samples[:1]).drafts is None
    assert deltas([]) == msgspec.convert({}, type(delta))


@settings(max_examples=100, deadline=None)
@given(steps=STEPS, exported=EXPORTED)
def test_restarts_lose_nothing_that_was_read(steps: list[tuple[bool, list[int]]], exported: set[str]) -> None:
    """With any restarts, the delta of each exported counter is the sum of its growth after the first reading."""
    samples = readings(steps, exported, start_known=True)
    delta = deltas(samples)
    grown = [float(sum(growth[i] for _, growth in steps[1:])) for i in range(12)]
    measured = len(steps) > 1
    for i, name in enumerate(PLAIN):
        assert getattr(delta, name) == (grown[i] if measured and name in exported else None)
    positions = tuple(grown[8:10]) if measured and "accepted_per_position" in exported else None
    assert delta.accepted_per_position == positions
    success = {"stop": grown[10], "length": grown[11]} if measured and "success" in exported else None
    assert delta.success == success
    assert delta.restarts == sum(restart for restart, _ in steps[1:])
    assert delta.samples == len(steps)


@settings(max_examples=100, deadline=None)
@given(steps=STEPS, exported=EXPORTED.filter(bool))
def test_a_fall_is_a_restart_where_the_process_start_is_unknown(
    steps: list[tuple[bool, list[int]]], exported: set[str]
) -> None:
    """Without a process start no delta is negative, and none exceeds what the engine really counted."""
    delta = deltas(readings(steps, exported, start_known=False))
    for i, name in enumerate(PLAIN):
        moved = getattr(delta, name)
        if name in exported and len(steps) > 1:
            assert 0 <= moved <= sum(growth[i] for _, growth in steps[1:])
        else:
            assert moved is None


@settings(max_examples=100, deadline=None)
@given(steps=STEPS, exported=EXPORTED, known=st.booleans(), data=st.data())
def test_deltas_are_additive(
    steps: list[tuple[bool, list[int]]], exported: set[str], known: bool, data: st.DataObject
) -> None:
    """The deltas of two spans that share a reading add up to the delta of the whole."""
    samples = readings(steps, exported, known)
    cut = data.draw(st.integers(0, len(samples) - 1))
    whole, first, second = deltas(samples), deltas(samples[: cut + 1]), deltas(samples[cut:])
    for name in PLAIN:
        parts = [getattr(part, name) for part in (first, second) if getattr(part, name) is not None]
        assert getattr(whole, name) == (sum(parts) if parts else None)
    assert whole.restarts == first.restarts + second.restarts
    for reason, moved in (whole.success or {}).items():
        assert moved == sum((part.success or {}).get(reason, 0) for part in (first, second))


@settings(max_examples=100, deadline=None)
@given(gaps=st.lists(st.booleans(), min_size=2, max_size=10), growth=st.lists(COUNTS, min_size=10, max_size=10))
def test_a_counter_missing_from_some_readings_loses_nothing(gaps: list[bool], growth: list[int]) -> None:
    """Readings in which a counter is None are bridged: the delta is last known minus first known."""
    totals = [float(sum(growth[: i + 1])) for i in range(len(gaps))]
    samples = [
        EngineSample(arm="a", at=float(i), drafts=None if gap else totals[i], process_start_at=1.0)
        for i, gap in enumerate(gaps)
    ]
    known = [totals[i] for i, gap in enumerate(gaps) if not gap]
    assert deltas(samples).drafts == (known[-1] - known[0] if len(known) > 1 else None)


def test_a_finish_reason_that_appears_later_counts_from_zero() -> None:
    """A label first seen in mid-run was created then: its whole count is movement."""
    samples = [
        EngineSample(arm="a", at=float(i), success=s)
        for i, s in enumerate([{"stop": 5.0}, {"stop": 6.0, "abort": 3.0}])
    ]
    assert deltas(samples).success == {"stop": 1.0, "abort": 3.0}


LINE = st.one_of(
    st.text(max_size=60),
    st.builds(
        lambda name, labels, value: f"{name}{labels}{value}",
        st.sampled_from(
            ["vllm:prompt_tokens_total", "vllm:request_success_total", "vllm:cache_config_info", "# TYPE x"]
        ),
        st.sampled_from(["", " ", "{", "{}", '{a="b"}', '{finished_reason="stop"}', '{"a"="b"}', '{a="\\'])
        | st.text(max_size=20),
        st.sampled_from([" 1", " 1e400", " 0x1", "1", " nan", " 1 2 3", " # {", ""]) | st.text(max_size=10),
    ),
)


@settings(max_examples=100, deadline=None)
@given(st.lists(LINE, max_size=20).map("\n".join))
def test_any_text_is_read_without_a_crash(text: str) -> None:
    """Whatever the page, reading it gives a sample that can be stored, with no counter below zero."""
    sample = parse_metrics(text, arm="a", at=0.0)
    assert msgspec.json.decode(msgspec.json.encode(sample), type=EngineSample) == sample
    assert all((getattr(sample, name) or 0) >= 0 for name in PLAIN)
