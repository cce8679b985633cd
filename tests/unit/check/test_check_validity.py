"""An arm that tested nothing is invalid, and its verdict unknown."""

from typing import Any

import pytest
from check_histories import arm_records, finished, manifest, records, summary, two_readings

from soak.facts import ArmCard, Build, Capabilities, EngineSample, Expect, Manifest, Summary, Usage

MTP = Build(engine="vllm", version="1", model="m", target="http://t", speculative={"method": "mtp"})
CACHED = Build(engine="vllm", version="1", model="m", target="http://t", settings={"prefix_cache": True})
PLAIN = Build(engine="vllm", version="1", model="m", target="http://t")


def judged(build: Build, samples: list[EngineSample] | None, expect: Expect | None = None, **view: Any) -> Summary:
    found = arm_records("candidate", 40)
    return summary(found, of=manifest(build=build, expect=expect), samples={"candidate": samples or []}, **view)


@pytest.mark.parametrize(
    ("build", "samples", "expect", "why"),
    [
        (MTP, two_readings(drafts=0.0, draft_tokens=0.0), None, "draft counter did not move"),
        (MTP, two_readings(speculation_on=False), None, "speculation is on in the build's settings"),
        (PLAIN, two_readings(drafts=0.0, speculation_on=True), None, "draft counter did not move"),
        (PLAIN, two_readings(drafts=0.0), Expect(speculation=True), "draft counter did not move"),
        (PLAIN, [], Expect(speculation=True), "could not be confirmed"),
        (PLAIN, two_readings(speculation_on=False), Expect(speculation=True), "engine says that it is off"),
        (MTP, two_readings(drafts=5.0), Expect(speculation=False), "should be off by the scenario"),
        (CACHED, two_readings(prefix_hits=0.0, prefix_queries=9.0), None, "hits did not rise although 38 turns"),
        (PLAIN, two_readings(prefix_hits=0.0, prefix_cache_on=True), None, "hits did not rise"),
        (PLAIN, [], Expect(prefix_cache=True), "could not be confirmed"),
        (CACHED, two_readings(prefix_hits=7.0), Expect(prefix_cache=False), "should be off by the scenario"),
    ],
)
def test_an_arm_that_tested_nothing_is_invalid(
    build: Build, samples: list[EngineSample], expect: Expect | None, why: str
) -> None:
    """Speculation or prefix cache silently off, or unconfirmed where the scenario insists: invalid and unknown."""
    found = judged(build, samples, expect)
    arm = found.arms["candidate"]
    assert not arm.valid
    assert why in " ".join(arm.invalid_reasons)
    assert found.verdict == "unknown"
    assert found.reasons[0].startswith("invalid: ")


@pytest.mark.parametrize(
    ("build", "samples", "expect"),
    [
        (MTP, two_readings(drafts=9.0, draft_tokens=18.0), None),
        (PLAIN, two_readings(drafts=0.0, prefix_hits=0.0), None),
        (MTP, two_readings(drafts=0.0), Expect(speculation=False)),
        (CACHED, two_readings(prefix_hits=3.0, prefix_queries=9.0), None),
        (CACHED, two_readings(prefix_hits=0.0), Expect(prefix_cache=False)),
    ],
)
def test_an_arm_that_did_what_it_should_is_valid(
    build: Build, samples: list[EngineSample], expect: Expect | None
) -> None:
    """Moving counters, nothing claimed, or off as expected: valid."""
    found = judged(build, samples, expect)
    assert found.arms["candidate"].valid
    assert found.verdict == "pass"


def test_without_metrics_an_auto_arm_is_valid_with_a_note() -> None:
    """A server without metrics is judged by its turns, and the reasons say what is not known."""
    found = judged(MTP, [])
    assert found.arms["candidate"].valid
    assert any("engine metrics were not read" in why for why in found.reasons)
    assert any("speculation could not be confirmed" in why for why in found.reasons)


@pytest.mark.parametrize("build", [MTP, PLAIN], ids=["by settings", "by counters alone"])
@pytest.mark.parametrize(
    ("drafted", "accepted", "told"),
    [(1200.0, 3.0, True), (1000.0, 0.0, True), (999.0, 0.0, False), (1000.0, 10.0, False), (9000.0, 3000.0, False)],
)
def test_drafts_that_are_never_accepted_are_told(build: Build, drafted: float, accepted: float, told: bool) -> None:
    """Below one in a hundred of at least 1,000 draft tokens is a reason to look, and changes neither verdict."""
    found = judged(build, two_readings(drafts=drafted / 3, draft_tokens=drafted, accepted_tokens=accepted))
    assert (found.verdict, found.arms["candidate"].valid) == ("pass", True)
    assert ("drafts are almost never accepted" in " ".join(found.reasons)) is told


def test_prefixes_that_do_not_repeat_need_no_hits() -> None:
    """Single-turn conversations, and prefixes within a block, cannot hit the cache."""
    content = manifest(build=CACHED)
    samples = {"candidate": two_readings(prefix_hits=0.0)}
    single = records(*(finished(i * 25) for i in range(40)))
    short = records(*(finished(i, usage=Usage(prompt=64, completion=9)) for i in range(40)))
    assert all(summary(found, of=content, samples=samples).arms["candidate"].valid for found in (single, short))


def test_capabilities_speak_where_there_are_no_samples() -> None:
    """What the target said before the run counts if its metrics were never read."""
    content = manifest(build=PLAIN)
    card = ArmCard(name="candidate", build=PLAIN, capabilities=Capabilities(model="m", speculation_on=True))
    content = Manifest(**{**{f: getattr(content, f) for f in content.__struct_fields__}, "arms": (card,)})
    found = summary(arm_records("candidate", 40), of=content)
    assert any("speculation could not be confirmed" in why for why in found.reasons)


def test_an_invalid_arm_cannot_fail_a_threshold() -> None:
    """All turns bad in an arm that tested something else is unknown, not fail."""
    from soak.facts import Thresholds

    content = manifest(build=MTP, thresholds=Thresholds(pass_if=("rate.garbage_loop <= 1%",)))
    bad = arm_records("candidate", 40, dict.fromkeys(range(40), "garbage_loop"))
    found = summary(bad, of=content, samples={"candidate": two_readings(drafts=0.0)})
    assert found.verdict == "unknown"


def test_an_arm_without_finished_turns_is_not_called_invalid() -> None:
    """Counters that stood still while nothing finished prove nothing."""
    found = summary({}, of=manifest(build=MTP), samples={"candidate": two_readings(drafts=0.0)}, planned=5)
    assert found.arms["candidate"].valid
    assert found.verdict == "unknown"
