"""What worked at first and was lost in mid-run makes an arm invalid; a total that rose once does not hide it."""

from collections.abc import Sequence
from typing import Any

import pytest
from check_histories import arm_records, finished, key, manifest, records, summary, two_readings

from soak.check.stretches import Stretch, stretches
from soak.facts import ArmSummary, Build, EngineSample, Expect, Record, Summary, TurnKey, Usage


def build(method: str | None = None, **settings: Any) -> Build:
    speculative = {"method": method} if method else None
    return Build(engine="vllm", version="1", model="m", target="http://t", speculative=speculative, settings=settings)


PLAIN = build()


def readings(values: Sequence[float | None], name: str = "drafts", **fixed: Any) -> list[EngineSample]:
    """One reading every ten seconds."""
    return [
        EngineSample(arm="candidate", at=10.0 * i, **{name: value}, **fixed)
        for i, value in enumerate(values)
    ]  # fmt: skip


def turns(count: int, tokens: int = 201, class_: str = "ok") -> dict[TurnKey, Record]:
    """Turns of half a second, one after another: turn i begins a quarter after second i."""
    usage = Usage(prompt=1000, completion=tokens)
    return records(
        *(finished(i, class_, usage=usage, started_at=i + 0.25, e2e_ms=500.0, ttft_ms=100.0) for i in range(count))
    )


def told(found: dict[TurnKey, Record], samples: list[EngineSample], of: Build, expect: Expect | None = None) -> Summary:
    return summary(found, of=manifest(build=of, expect=expect), samples={"candidate": samples})


def arm_of(found: Summary) -> ArmSummary:
    return found.arms["candidate"]


@pytest.mark.parametrize(
    ("flag", "name"), [("speculation_on", "speculation"), ("prefix_cache_on", "prefix cache")]
)  # fmt: skip
def test_a_feature_that_goes_off_in_mid_run_is_invalid(flag: str, name: str) -> None:
    """On at one reading and off at a later one, even if it comes back: invalid, though counters moved."""
    counters = {"drafts": 900.0, "prefix_hits": 900.0}
    said = (True, None, False, True)
    samples = [EngineSample(arm="candidate", at=10.0 * i, **{flag: word}) for i, word in enumerate(said)]
    samples += [EngineSample(arm="candidate", at=50.0 + i, **{c: i * v for c, v in counters.items()}) for i in (0, 1)]
    found = told(arm_records("candidate", 40), samples, PLAIN)
    assert found.verdict == "unknown"
    assert arm_of(found).invalid_reasons == [f"{name} was on and then off during the run, as the engine says itself"]


def test_a_feature_that_comes_on_is_not_lost() -> None:
    """Off first and on later is no loss."""
    samples = two_readings(drafts=900.0, speculation_on=True)
    samples[0] = EngineSample(arm="candidate", at=0.0, drafts=0.0, speculation_on=False)
    assert arm_of(told(arm_records("candidate", 40), samples, PLAIN)).valid


@pytest.mark.parametrize("method", ["mtp", "deepseek_mtp", "eagle3"])
def test_a_draft_head_that_falls_silent_is_invalid(method: str) -> None:
    """Two hundred tokens without one draft cannot be with a draft head: invalid, and the reason says since when."""
    found = told(turns(40), readings([0.0, 100.0, 200.0, 200.0]), build(method))
    assert found.verdict == "unknown"
    (why,) = arm_of(found).invalid_reasons
    assert why == (
        "speculation stopped working during the run: after 20 s its draft counter stood still for 10 s,"
        " in which 2,000 tokens were generated"
    )


def test_the_draft_token_counter_serves_where_drafts_are_not_exported() -> None:
    """An engine that counts only draft tokens is held to the same rule."""
    assert not arm_of(told(turns(40), readings([0.0, 9.0, 9.0], "draft_tokens"), build("mtp"))).valid


@pytest.mark.parametrize(("tokens", "valid"), [(20, True), (21, False)])
def test_a_draft_head_is_given_199_tokens(tokens: int, valid: bool) -> None:
    """Below 200 tokens after the first of each answer a stretch says nothing, from there on it does."""
    samples = readings([0.0, 100.0, 100.0])
    assert arm_of(told(turns(20, tokens), samples, build("mtp"))).valid is valid


@pytest.mark.parametrize("of", [build("ngram"), build("suffix"), build(None, speculation=True)])
@pytest.mark.parametrize(("tokens", "valid"), [(200, True), (201, False)])
def test_a_lookup_is_given_1999_tokens(of: Build, tokens: int, valid: bool) -> None:
    """A method that drafts where the text repeats, or is not known, may pause for 1,990 tokens, not for 2,000."""
    assert arm_of(told(turns(20, tokens), readings([0.0, 100.0, 100.0]), of)).valid is valid


def test_salad_owes_a_lookup_no_draft() -> None:
    """Tokens of turns that are not ok do not count for a lookup, so that a broken build fails and is not excused."""
    bad = {**turns(20), **{at: one for at, one in turns(40, 5000, "garbage_loop").items() if at >= key(20)}}
    samples = readings([0.0, 100.0, 200.0, 200.0, 200.0])
    assert arm_of(told(bad, samples, build("ngram"))).valid
    assert not arm_of(told(bad, samples, build("mtp"))).valid


def test_turns_that_reach_over_the_edge_of_a_stretch_say_nothing_of_it() -> None:
    """Drafts of a turn that began before the counter stood still may have been made before it."""
    long = records(
        *(
            finished(i, usage=Usage(prompt=9, completion=5000), started_at=8.0, e2e_ms=9000.0, ttft_ms=10.0)
            for i in range(30)
        )
    )
    assert arm_of(told(long, readings([0.0, 100.0, 100.0]), build("mtp"))).valid


def test_what_did_not_speculate_owes_nothing() -> None:
    """Speculation that should be off, or that nothing calls on, may stand still."""
    samples = readings([0.0, 0.0, 0.0])
    assert arm_of(told(turns(30), samples, build("mtp"), Expect(speculation=False))).valid
    assert arm_of(told(turns(30), samples, PLAIN)).valid


@pytest.mark.parametrize(("count", "valid"), [(31, True), (32, False)])
def test_a_prefix_cache_that_stops_hitting_is_invalid(count: int, valid: bool) -> None:
    """Twenty turns in a row that go on from one before them and hit nothing: the cache was lost; nineteen may miss."""
    samples = readings([0.0, 500.0, 500.0, 500.0, 500.0], "prefix_hits", prefix_cache_on=True)
    found = told(turns(count), samples, PLAIN)
    assert arm_of(found).valid is valid
    if not valid:
        assert "its hit counter stood still for 30 s, in which 20 turns" in arm_of(found).invalid_reasons[0]


def test_a_cache_that_goes_on_hitting_is_valid() -> None:
    """Counters that rise from reading to reading are what a working arm looks like."""
    samples = [
        EngineSample(arm="candidate", at=10.0 * i, drafts=9.0 * i, prefix_hits=99.0 * i, prefix_cache_on=True)
        for i in range(12)
    ]
    found = told(turns(100), samples, build("mtp"))
    assert (arm_of(found).valid, found.verdict) == (True, "pass")


def test_a_restart_ends_a_stretch() -> None:
    """What the old process did after its last reading is not known, so a stretch never spans two processes."""
    samples = [
        EngineSample(arm="candidate", at=at, drafts=drafts, process_start_at=born)
        for at, drafts, born in (
            (0.0, 5.0, 1.0),
            (10.0, 5.0, 1.0),
            (20.0, 5.0, 2.0),
            (30.0, None, 2.0),
            (40.0, 5.0, 2.0),
        )
    ]
    found = stretches(samples, lambda sample: sample.drafts)
    assert list(found) == [Stretch(0.0, 10.0), Stretch(20.0, 40.0)]


@pytest.mark.parametrize(
    ("of", "samples", "says"),
    [
        (
            build("mtp"),
            two_readings(drafts=1234.0, draft_tokens=2468.0, accepted_tokens=1500.0),
            "speculation: on (1234 drafts, 1500 of 2468 draft tokens accepted)",
        ),
        (
            PLAIN,
            two_readings(speculation_on=False),
            "speculation: off (no counters were read): this run says nothing about it",
        ),
        (PLAIN, [], "speculation: unknown (no counters were read): this run says nothing about it"),
        (build("mtp"), [], "speculation: unknown (no counters were read): this run says nothing about it"),
        (
            build(None, speculation=False),
            [],
            "speculation: off (no counters were read): this run says nothing about it",
        ),
        (
            PLAIN,
            two_readings(prefix_hits=900.0, prefix_queries=1000.0),
            "prefix cache: on (hits 900 of 1000 tokens)",
        ),
        (
            PLAIN,
            two_readings(prefix_cache_on=False, prefix_hits=0.0, prefix_queries=9.0),
            "prefix cache: off (hits 0 of 9 tokens): this run says nothing about it",
        ),
        (PLAIN, [], "prefix cache: unknown (no counters were read): this run says nothing about it"),
    ],
)
def test_the_reasons_say_what_was_on(of: Build, samples: list[EngineSample], says: str) -> None:
    """Each arm's reasons hold one sentence for speculation and one for the prefix cache, counters included."""
    found = told(arm_records("candidate", 40), samples, of)
    assert says in found.reasons
    assert sum(why.startswith("speculation: ") for why in found.reasons) == 1
    assert sum(why.startswith("prefix cache: ") for why in found.reasons) == 1


def test_an_arm_without_finished_turns_still_says_what_was_on() -> None:
    """Where nothing finished, the states are told all the same."""
    found = summary({}, of=manifest(build=PLAIN), planned=5)
    assert any(why.startswith("speculation: unknown") for why in found.reasons)
