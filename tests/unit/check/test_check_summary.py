"""One run's summary: counts, measures, verdict and reasons."""

import json

import msgspec
import pytest
from check_histories import arm_records, finished, key, manifest, records, summary, two_readings, unfinished
from msgspec import structs

from soak.check import exit_code_of
from soak.errors import RunFolderError
from soak.facts import Attempt, Build, Capabilities, Event, Finding, Judgement, Record, Thresholds, Usage, encode

CONTRACT_ARM = {
    "build": ["engine", "version", "model", "speculative", "target", "settings"],
    "turns": [
        "planned",
        "finished",
        "ok",
        "garbage_loop",
        "early_stop",
        "max_tokens",
        "error",
        "skipped",
        "indeterminate",
    ],
    "busy_s": ["ok", "garbage_loop", "early_stop", "max_tokens", "error"],
    "tokens": ["prompt", "cached", "completion", "usable"],
    "ttft_ms": ["p50", "p95", "p99"],
    "tpot_ms": ["p50", "p95", "p99"],
    "e2e_ms": ["p50", "p95", "p99"],
    "speculation": ["acceptance_length", "acceptance_rate", "per_position"],
    "prefix_cache": ["hit_rate"],
}
GATE = Thresholds(min_turns=30, pass_if=("rate.garbage_loop <= 0.5%",))


def test_the_json_has_every_field_of_the_contract() -> None:
    """`soak.summary/1` as encoded holds each name that the contract lists, at its place."""
    found = json.loads(encode(summary(arm_records("candidate", 40))))
    assert found["schema"] == "soak.summary/1"
    assert {"run", "scenario", "verdict", "reasons", "plan", "arms"} <= found.keys()
    assert {"episodes", "turns", "passes", "seed", "hash"} <= found["plan"].keys()
    arm = found["arms"]["candidate"]
    assert {"valid", "invalid_reasons", "wall_s", *CONTRACT_ARM} <= arm.keys()
    for name, members in CONTRACT_ARM.items():
        assert set(members) <= arm[name].keys(), name


def test_notes_on_the_server_are_counted_and_told() -> None:
    """Unknown finish reasons and usage that cannot be true stand in the reasons with their turns, and in `kinds`."""
    odd = [noted(0, "unknown_finish_reason", "usage_cached"), noted(1, "unknown_finish_reason")]
    found = summary(records(*odd, *(finished(i) for i in range(2, 40))))
    assert found.arms["candidate"].kinds == {"unknown_finish_reason": 2, "usage_cached": 1}
    assert found.verdict == "pass"
    text = " ".join(found.reasons)
    assert "2 turns ended with a finish reason that is not known" in text
    assert "1 turn came with more cached tokens" in text


def noted(index: int, *kinds: str) -> Record:
    """A finished turn that is ok, with notes of these kinds."""
    judgement = Judgement(class_="ok", reason="noted", findings=tuple(Finding(kind=kind) for kind in kinds))
    return structs.replace(finished(index), judgement=judgement)


def test_turns_are_counted_by_class_and_outcome() -> None:
    """Planned is finished plus skipped plus indeterminate plus what was never reached."""
    found = records(
        finished(0),
        finished(1, "garbage_loop"),
        finished(2, "early_stop"),
        finished(3, "max_tokens"),
        finished(4, "error"),
        unfinished(5, "skipped", "its prefix of 9,000 tokens does not fit"),
        unfinished(6, "skipped", "its prefix of 12,345 tokens does not fit"),
        unfinished(7, "indeterminate"),
    )
    arm = summary(found, planned=12, open_starts={"candidate": 1}, repeated_starts={"candidate": 3}).arms["candidate"]
    turns = arm.turns
    assert (turns.planned, turns.finished, turns.skipped, turns.indeterminate, turns.not_reached) == (12, 5, 2, 2, 3)
    assert (turns.ok, turns.garbage_loop, turns.early_stop, turns.max_tokens, turns.error) == (1, 1, 1, 1, 1)
    assert turns.repeated_starts == 3
    assert arm.skipped_reasons == {"its prefix of 9,000 to 12,345 tokens does not fit": 2}


def test_what_the_embedded_model_cannot_hold_is_explained() -> None:
    """Where most turns are deeper than the embedded model's context, the run says so and that nothing is broken."""
    deep = "not sent: its prompt has {} tokens, the model's context holds 8192"
    found = records(finished(0), *(unfinished(turn, "skipped", deep.format(9000 + turn)) for turn in range(1, 5)))
    content = manifest()
    card = msgspec.structs.replace(
        content.arms[0], given_target="local", capabilities=Capabilities(model="m", context_tokens=8192)
    )
    local = summary(found, of=msgspec.structs.replace(content, arms=(card,)), planned=5)
    (told,) = [reason for reason in local.reasons if "expected" in reason]
    assert told.startswith("4 of the skipped turns are deeper than the 8,192 tokens that the embedded model holds")
    kinds = local.arms["candidate"].skipped_reasons
    assert kinds == {"not sent: its prompt has 9,001 to 9,004 tokens, the model's context holds 8,192": 4}
    assert not any("expected" in reason for reason in summary(found, planned=5).reasons)


def test_only_ok_turns_give_usable_tokens() -> None:
    """Speed counts completion tokens of ok turns over the run's time; loops add nothing."""
    found = records(finished(0), finished(1, "garbage_loop", usage=Usage(prompt=10, completion=20000)))
    arm = summary(found).arms["candidate"]
    assert (arm.tokens.completion, arm.tokens.usable, arm.tokens.cached) == (20200, 200, 900)
    assert arm.usable_tokens_per_s == 2.0


def test_what_no_server_reported_is_null() -> None:
    """Without usage, metrics or answers, tokens, times and counters are None and not 0."""
    arm = summary(records(finished(0, "error", usage=None, ending="reset", ttft_ms=None, e2e_ms=None))).arms[
        "candidate"
    ]
    assert arm.tokens.prompt is arm.tokens.completion is arm.tokens.usable is None
    assert arm.e2e_ms.p50 is arm.ttft_ms.p95 is arm.tpot_ms.p99 is None
    assert arm.speculation.acceptance_length is arm.prefix_cache.hit_rate is arm.usable_tokens_per_s is None


def test_censored_times_are_counted_and_left_out_of_quantiles() -> None:
    """A turn cut by a deadline is busy time and censored, but no e2e value."""
    found = records(finished(0), finished(1, "error", ending="deadline_turn", censored=True, e2e_ms=60_000.0))
    arm = summary(found).arms["candidate"]
    assert arm.censored == 1
    assert arm.e2e_ms.p99 == 2000.0
    assert arm.busy_s["error"] == 60.0


def test_turn_time_includes_failed_attempts_and_pauses() -> None:
    """Two seconds of a refused attempt and a pause of three count as busy."""
    attempts = (
        Attempt(started_at=0, took_ms=2000, status=503, wait_s=3.0),
        Attempt(started_at=5, took_ms=900, status=200),
    )
    arm = summary(records(finished(0, attempts=attempts, e2e_ms=1000.0))).arms["candidate"]
    assert arm.busy_s["ok"] == 6.0
    assert arm.attempts == 2


def test_acceptance_is_measured_over_the_run() -> None:
    """Acceptance length is 1 + accepted/drafts, positions are per draft, hits are per query."""
    moved = two_readings(
        drafts=100.0,
        draft_tokens=200.0,
        accepted_tokens=150.0,
        accepted_per_position=(90.0, 60.0),
        prefix_hits=5.0,
        prefix_queries=10.0,
    )
    moved[0] = type(moved[0])(
        arm="candidate",
        at=0,
        drafts=0,
        draft_tokens=0,
        accepted_tokens=0,
        accepted_per_position=(0, 0),
        prefix_hits=0,
        prefix_queries=0,
    )
    arm = summary(arm_records("candidate", 30), samples={"candidate": moved}).arms["candidate"]
    assert arm.speculation.acceptance_length == 2.5
    assert arm.speculation.acceptance_rate == 0.75
    assert arm.speculation.per_position == [0.9, 0.6]
    assert arm.prefix_cache.hit_rate == 0.5


def test_a_clean_run_passes_and_states_its_bound() -> None:
    """0 of 299 passes, and the reason says what that shows and what the limit would take."""
    found = summary(arm_records("candidate", 299), of=manifest(thresholds=GATE))
    assert (found.verdict, exit_code_of(found)) == ("pass", 0)
    assert any(
        "garbage_loop 0 of 299 finished turns: rate below 1.0 % with 95 % confidence" in why for why in found.reasons
    )
    assert any("takes 598 clean turns" in why for why in found.reasons)


def test_a_broken_threshold_fails_with_counts_and_interval() -> None:
    """11 of 500 against 0.5 % is a fail whose first reason can be pasted."""
    found = summary(
        arm_records("candidate", 500, {i * 45: "garbage_loop" for i in range(11)}), of=manifest(thresholds=GATE)
    )
    assert (found.verdict, exit_code_of(found)) == ("fail", 1)
    assert found.reasons[0] == (
        "garbage_loop 11 of 500 finished turns: rate 2.2 % (95 % 1.2 % to 3.9 %); rate.garbage_loop <= 0.5% is broken"
    )


def test_too_few_turns_are_unknown_even_if_all_are_bad() -> None:
    """29 finished turns are below the 30 asked for: neither pass nor fail."""
    found = summary(
        arm_records("candidate", 29, dict.fromkeys(range(29), "garbage_loop")), of=manifest(thresholds=GATE)
    )
    assert (found.verdict, exit_code_of(found)) == ("unknown", 3)


def test_nothing_finished_is_unknown() -> None:
    """An empty history is not green."""
    found = summary({}, planned=10)
    assert found.verdict == "unknown"
    assert "no turn finished" in found.reasons
    assert found.arms["candidate"].rate["garbage_loop"] is None


def test_a_threshold_on_something_unmeasured_is_unknown() -> None:
    """No samples: a threshold on the acceptance length cannot be judged."""
    gate = Thresholds(pass_if=("speculation.acceptance_length >= 1.5",))
    found = summary(arm_records("candidate", 40), of=manifest(thresholds=gate))
    assert found.verdict == "unknown"
    assert any("was not measured" in why for why in found.reasons)


@pytest.mark.parametrize("state", ["running", "interrupted", "engine_gone"])
def test_an_unfinished_run_is_unknown_unless_already_broken(state: str) -> None:
    """A clean half is no pass; a broken threshold stays broken, since more turns do not mend it."""
    clean = summary(arm_records("candidate", 40), of=manifest(thresholds=GATE), state=state)
    broken = summary(arm_records("candidate", 40, {3: "garbage_loop"}), of=manifest(thresholds=GATE), state=state)
    assert (clean.verdict, broken.verdict) == ("unknown", "fail")


def test_a_run_stopped_by_its_threshold_fails() -> None:
    """A stop_if that holds for a valid arm is a fail; one that no longer holds leaves it unknown."""
    gate = Thresholds(stop_if=("turns.garbage_loop >= 2",))
    bad = arm_records("candidate", 40, {3: "garbage_loop", 4: "garbage_loop"})
    assert summary(bad, of=manifest(thresholds=gate), state="stopped").verdict == "fail"
    assert summary(arm_records("candidate", 40), of=manifest(thresholds=gate), state="stopped").verdict == "unknown"


def test_too_much_skipped_or_broken_off_is_unknown() -> None:
    """More than half skipped, or more than a tenth indeterminate, is too little of the question."""
    skipped = {**arm_records("candidate", 40), **records(*(unfinished(i, "skipped") for i in range(40, 90)))}
    lost = {**arm_records("candidate", 40), **records(*(unfinished(i, "indeterminate") for i in range(40, 50)))}
    few = {**arm_records("candidate", 40), **records(unfinished(40, "indeterminate"), unfinished(41, "skipped"))}
    assert [summary(found).verdict for found in (skipped, lost, few)] == ["unknown", "unknown", "pass"]


def test_one_bad_arm_decides_and_is_named() -> None:
    """With two arms the worst verdict is the run's, and reasons say whose they are."""
    found = {**arm_records("a", 40), **arm_records("b", 40, {1: "garbage_loop"})}
    told = summary(found, of=manifest(("a", "b"), thresholds=GATE))
    assert told.verdict == "fail"
    assert told.reasons[0].startswith("b: garbage_loop 1 of 40")


def test_a_checker_that_crashes_makes_the_arm_unknown() -> None:
    """A threshold that cannot even be parsed leaves an answer, and the answer is not green."""
    found = summary(arm_records("candidate", 40), of=manifest(thresholds=Thresholds(pass_if=("nonsense",))))
    assert found.verdict == "unknown"
    assert any("thresholds checker crashed" in why for why in found.reasons)


def test_other_judgements_replace_the_stored_ones() -> None:
    """A new classifier's word counts where it has one."""
    found = arm_records("candidate", 30)
    again = {key(0): Judgement(class_="garbage_loop", reason="seen now", findings=(Finding(kind="loop"),))}
    content = manifest()
    from soak.check import HistoryView, summarise, turn_facts
    from soak.facts import PlanCard

    card = PlanCard(episodes=1, turns=30, passes=1, seed=7, hash="h")
    told = summarise(
        content,
        HistoryView(turns=list(turn_facts(found.values(), again))),
        run="r",
        state="complete",
        plan=card,
        wall_s=1.0,
    )
    assert told.arms["candidate"].turns.garbage_loop == 1
    assert told.arms["candidate"].worst[0].reason == "seen now"
    assert told.arms["candidate"].kinds == {"loop": 1}


def test_the_worst_turns_come_first_and_are_at_most_ten() -> None:
    """Loops before errors before stops before caps, longer before shorter."""
    found = records(
        *(finished(i, "max_tokens") for i in range(12)),
        finished(20, "error"),
        finished(21, "garbage_loop"),
        finished(22, "garbage_loop", usage=Usage(prompt=1, completion=9000)),
        finished(23, "early_stop"),
    )
    worst = summary(found).arms["candidate"].worst
    assert [turn.class_ for turn in worst[:5]] == ["garbage_loop", "garbage_loop", "error", "early_stop", "max_tokens"]
    assert (worst[0].turn, worst[0].tokens, len(worst)) == (str(key(22)), 9000, 10)


def test_a_manifest_without_a_scenario_is_a_damaged_run() -> None:
    """What is not a scenario ends as a RunFolderError with a hint."""
    broken = manifest()
    broken = type(broken)(**{**{f: getattr(broken, f) for f in broken.__struct_fields__}, "scenario": {"name": 3}})
    with pytest.raises(RunFolderError, match="scenario cannot be read"):
        summary({}, of=broken)


def test_an_unjudged_finished_record_is_not_counted_as_finished() -> None:
    """A finished record without a judgement is indeterminate: nothing vouches for it."""
    bare = finished(0)
    bare = type(bare)(key=bare.key, outcome="finished", at=0.0, observation=bare.observation)
    assert summary(records(bare)).arms["candidate"].turns.indeterminate == 1


def test_resumes_are_told() -> None:
    """A resume becomes a sentence and takes nothing from the verdict."""
    found = summary(arm_records("candidate", 40), events=(Event(at=0.0, kind="resumed"),))
    assert "the run was resumed 1 time" in found.reasons
    assert found.verdict == "pass"


def test_a_build_is_passed_through() -> None:
    """The arm shows the build of the manifest."""
    build = Build(engine="vllm", version="0.32.0", model="m", target="http://t", settings={"max_model_len": 8192})
    assert summary(arm_records("candidate", 30), of=manifest(build=build)).arms["candidate"].build == build
