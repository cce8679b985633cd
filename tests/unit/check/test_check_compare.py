"""Two arms side by side: pairing, tests, intervals, results, wall clock, validity first, and the sentence."""

import json
import textwrap
from collections.abc import Mapping

import pytest
from check_histories import arm_records, finished, key, manifest, records, side, unfinished

from soak.check import Stated, compare, exit_code_of
from soak.facts import Build, Comparison, Expect, Record, Sampling, TurnKey, encode

CONTRACT_CLASS = {
    "baseline", "candidate", "discordant", "difference", "ci95", "rate_ratio", "rate_ratio_ci95", "p_value", "test",
    "turns_needed_80", "result",
}  # fmt: skip
LOOP = "garbage_loop"
BASELINE_BAD = {45 * i: LOOP for i in range(11)}
CANDIDATE_BAD = {**{45 * i: LOOP for i in range(3)}, **{100 * i + 17: LOOP for i in range(4)}}


def compared(
    baseline_bad: Mapping[int, str], candidate_bad: Mapping[int, str], turns: int = 500, margin: float | None = None
) -> Comparison:
    return compare(
        side("baseline", arm_records("baseline", turns, baseline_bad)),
        side("candidate", arm_records("candidate", turns, candidate_bad)),
        Stated(margin=margin),
    )


def test_the_json_has_every_field_of_the_contract() -> None:
    """`soak.comparison/1` as encoded holds each name that the contract lists, at its place."""
    found = json.loads(encode(compared(BASELINE_BAD, CANDIDATE_BAD)))
    assert found["schema"] == "soak.comparison/1"
    assert {
        "baseline",
        "candidate",
        "pairs",
        "unpaired",
        "clusters",
        "classes",
        "wall_clock",
        "invalid",
        "verdict",
    } <= found.keys()
    assert "sentence" in found
    assert set(found["classes"]) == {"garbage_loop", "early_stop", "max_tokens", "error", "any_failure"}
    loop = found["classes"]["garbage_loop"]
    assert loop.keys() >= CONTRACT_CLASS
    assert loop["baseline"].keys() == loop["candidate"].keys() == {"events", "turns"}
    assert loop["discordant"].keys() == {"baseline_only", "candidate_only"}
    assert found["wall_clock"].keys() >= {"baseline_s", "candidate_s", "ratio", "ci95", "explained_by"}


def test_the_worked_example_is_not_evidence() -> None:
    """11 → 7 of 500 with 3 shared: p 0.388, RR 0.64 (0.26 to 1.58), 4,335 turns per arm, inconclusive, exit 3."""
    found = compared(BASELINE_BAD, CANDIDATE_BAD)
    loop = found.classes[LOOP]
    assert (loop.baseline.events, loop.candidate.events, loop.both) == (11, 7, 3)
    assert (loop.discordant.baseline_only, loop.discordant.candidate_only) == (8, 4)
    assert loop.p_value == pytest.approx(0.388, abs=5e-4)
    assert loop.difference == pytest.approx(-0.008)
    assert loop.rate_ratio == pytest.approx(0.636, abs=5e-4)
    assert loop.rate_ratio_ci95 == pytest.approx((0.26, 1.58), abs=0.005)
    assert (loop.turns_needed_80, loop.turns_needed_80_paired) == (4335, 2941)
    assert (loop.result, found.verdict, exit_code_of(found)) == ("inconclusive", "unknown", 3)


def test_the_worked_example_reads_as_the_design_words_it() -> None:
    """The sentence has counts, ratio, interval, p, shared failures, the conclusion and the turns needed."""
    sentence = compared(BASELINE_BAD, CANDIDATE_BAD).sentence
    assert sentence.startswith(
        "Garbage loops 11 → 7 of 500 paired turns in 20 episodes (RR 0.64, 95 % 0.26–1.58; p = 0.39 by McNemar exact;"
        " 3 failed in both). Not distinguishable from no change. At these rates 80 % power needs about"
        " 4,340 turns per arm (2,950 if failures recur on the same turns as they did here); 2,950 take about 19.6 min"
        " here; with 500 you could have seen 11 → 1."
    )
    assert "improve" not in sentence.lower()


def test_the_paragraph_is_short_enough_to_paste() -> None:
    """With every class, two builds and a change in time the paragraph fills at most eight lines of 100."""
    mixed = dict(enumerate(["error", "early_stop", "max_tokens", LOOP] * 6, 40))
    builds = [
        Build(
            engine="vllm",
            version=f"0.32.{i}",
            model="Qwen3.6-35B-A3B",
            target="http://t",
            speculative={"method": "mtp", "num_speculative_tokens": 2 + i},
        )
        for i in range(2)
    ]
    found = compare(
        side("baseline", arm_records("baseline", 500, mixed), manifest(("baseline",), build=builds[0])),
        side(
            "candidate",
            arm_records("candidate", 500, {7: LOOP, 90: "error"}),
            manifest(("candidate",), build=builds[1]),
        ),
    )
    assert len(textwrap.wrap(found.sentence, 100)) <= 8
    for part in (
        "Garbage loops 6 → 1 of 500",
        "Early stops 6 → 0",
        "Turn time",
        "in garbage loops",
        "0.32.0 → 0.32.1",
        "tokens 2 → 3",
    ):
        assert part in found.sentence, part
    assert [text.split(" 6 → ")[0] for text in found.details[:3]] == [
        "Early stops",
        "Turns cut at max_tokens",
        "Errors",
    ]
    assert found.details[3].startswith("Failures of any class 24 → 2 of 500 paired turns")


def test_another_class_that_got_worse_is_told_in_the_paragraph() -> None:
    """A regression in errors stands in the paragraph with its interval and p-value, though garbage is the headline."""
    found = compared({}, {41 * i: "error" for i in range(12)})
    assert found.classes["error"].result == "regression"
    assert "Errors 0 → 12 (difference +2.4 points" in found.sentence
    assert "The candidate has more" in found.sentence


def test_failures_that_only_together_are_worse_are_told() -> None:
    """Where no class by itself is a regression but any failure is, the paragraph says what the verdict rests on."""
    names = ["error", "early_stop", "max_tokens", LOOP]
    found = compared({}, {41 * i: names[i % 4] for i in range(12)})
    assert {one.result for name, one in found.classes.items() if name != "any_failure"} == {"inconclusive"}
    assert (found.classes["any_failure"].result, found.verdict) == ("regression", "fail")
    assert "Failures of any class 0 → 12 (difference +2.4 points" in found.sentence


def test_reasons_beyond_the_first_are_counted() -> None:
    """Of several reasons that void a comparison the paragraph tells the first and how many more there are."""
    found = compare(
        side("baseline", arm_records("baseline", 5)), side("candidate", arm_records("candidate", 5), manifest(seed=8))
    )
    assert len(found.invalid) > 1
    assert f"(and {len(found.invalid) - 1} more)" in found.sentence
    assert found.invalid[-1] not in found.sentence


def test_a_clear_gain_is_an_improvement() -> None:
    """12 scattered loops → 0: the interval excludes no change, the verdict is pass."""
    found = compared({41 * i: LOOP for i in range(12)}, {})
    loop = found.classes[LOOP]
    assert (loop.result, found.verdict, exit_code_of(found)) == ("improvement", "pass", 0)
    assert loop.ci95[1] < 0
    assert "The candidate has fewer" in found.sentence


def test_a_clear_loss_is_a_regression() -> None:
    """0 → 12 scattered loops fails, and a ratio without baseline events is null."""
    found = compared({}, {41 * i: LOOP for i in range(12)})
    assert (found.classes[LOOP].result, found.verdict, exit_code_of(found)) == ("regression", "fail", 1)
    assert found.classes[LOOP].rate_ratio is found.classes[LOOP].rate_ratio_ci95 is None
    assert "difference +2.4 points" in found.sentence


def test_failures_of_one_episode_are_not_twelve_pieces_of_evidence() -> None:
    """Twelve loops in a row in one conversation are inconclusive, tested by episode, and the notes say why."""
    found = compared({}, {50 + i: LOOP for i in range(12)})
    assert found.classes[LOOP].result == "inconclusive"
    assert found.classes[LOOP].test.startswith("sign-flip over episodes")
    assert found.classes[LOOP].ci95[0] <= 0
    assert any("1 of 20 episodes; they come together" in note for note in found.notes)


def test_nothing_seen_is_bounded_and_not_equivalent_without_a_margin() -> None:
    """0 → 0 of 299 says below 1.0 %, and stays unknown unless a margin was stated."""
    plain, stated = compared({}, {}, turns=299), compared({}, {}, turns=299, margin=0.02)
    assert "Garbage loops 0 → 0 of 299 paired turns in 12 episodes: below 1.0 % in each arm" in plain.sentence
    assert (plain.classes[LOOP].result, plain.verdict) == ("inconclusive", "unknown")
    assert (stated.classes[LOOP].result, stated.verdict) == ("equivalent", "pass")


def test_a_margin_inside_the_interval_is_not_equivalence() -> None:
    """A margin narrower than the interval cannot be met."""
    assert compared({}, {}, turns=299, margin=0.005).classes[LOOP].result == "inconclusive"


def test_p_values_are_corrected_for_the_classes_that_occurred() -> None:
    """One class with events is asked once; with two, any_failure makes a third question."""
    one = compared({41 * i: LOOP for i in range(6)}, {})
    assert one.classes[LOOP].p_adjusted == one.classes[LOOP].p_value == one.classes["any_failure"].p_adjusted
    assert one.classes["error"].p_adjusted is None
    two = compared({**{41 * i: LOOP for i in range(6)}, 7: "error"}, {})
    assert two.classes[LOOP].p_adjusted == pytest.approx(two.classes[LOOP].p_value * 2)
    assert two.classes["any_failure"].p_adjusted == pytest.approx(two.classes["any_failure"].p_value * 3)


def test_time_is_explained_by_the_worse_class_of_each_pair() -> None:
    """Eight loops less and four more of 198 s each explain the whole change, and ok pairs did not change."""
    clock = compared(BASELINE_BAD, CANDIDATE_BAD).wall_clock
    assert clock.baseline_s == pytest.approx(489 * 2 + 11 * 200)
    assert clock.candidate_s == pytest.approx(493 * 2 + 7 * 200)
    assert clock.explained_by == pytest.approx({LOOP: -4 * 198.0, "ok": 0.0})
    assert clock.ratio_ok == pytest.approx(1.0)
    assert clock.ci95[0] < clock.ratio < clock.ci95[1]


def test_censored_pairs_are_counted() -> None:
    """A pair of which one turn was cut by a deadline has times that are lower bounds."""
    cut = finished(3, "error", arm="candidate", ending="deadline_turn", censored=True)
    found = compare(
        side("baseline", arm_records("baseline", 60)),
        side("candidate", {**arm_records("candidate", 60), **records(cut)}),
    )
    assert found.wall_clock.censored_pairs == 1
    assert "ratio at least 1.00" in found.sentence


def test_turns_of_one_arm_alone_are_counted_and_left_out() -> None:
    """A candidate that did not get as far leaves unpaired turns, noted with what was bad among them."""
    found = compare(
        side("baseline", arm_records("baseline", 100, {99: LOOP})), side("candidate", arm_records("candidate", 90))
    )
    assert (found.pairs, found.unpaired) == (90, 10)
    assert found.classes[LOOP].baseline.events == 0
    assert "10 turns finished only in runs/baseline (1 not ok), left out here" in found.notes


def test_without_any_pair_arms_are_compared_unpaired() -> None:
    """Two halves of a corpus are compared by Fisher's test; of pairs nothing is told, not even that there were none."""
    first = {at: record for at, record in arm_records("baseline", 100, {1: LOOP}).items() if at.episode < "e002"}
    second = {at: record for at, record in arm_records("candidate", 100).items() if at.episode >= "e002"}
    found = compare(side("baseline", first), side("candidate", second))
    assert (found.pairs, found.unpaired, found.invalid) == (0, 100, [])
    assert found.classes[LOOP].test.startswith("Fisher exact")
    assert found.classes[LOOP].both is found.classes[LOOP].discordant is None
    assert found.wall_clock.ratio is None
    assert "turns (unpaired)" in found.sentence


def both(turns: int = 60) -> tuple[dict[TurnKey, Record], dict[TurnKey, Record]]:
    return arm_records("baseline", turns), arm_records("candidate", turns)


def test_an_invalid_arm_voids_the_comparison() -> None:
    """The sentence opens with it, the verdict is unknown whatever the counts."""
    first, _ = both()
    insists = manifest(("candidate",), expect=Expect(speculation=True))
    bad = arm_records("candidate", 60, {2 * i: LOOP for i in range(30)})
    found = compare(side("baseline", first), side("candidate", bad, insists))
    assert (found.verdict, exit_code_of(found)) == ("unknown", 3)
    assert found.invalid[0].startswith("runs/candidate is invalid: speculation could not be confirmed")
    assert found.sentence.startswith("No conclusion may be drawn: runs/candidate is invalid")


def test_what_is_invalid_gets_no_conclusion() -> None:
    """Beside "no conclusion may be drawn" no class is told to have fewer or more, nor to be equivalent."""
    insists = manifest(("candidate",), expect=Expect(speculation=True))
    worse = arm_records("candidate", 500, {41 * i: LOOP for i in range(12)})
    found = compare(side("baseline", arm_records("baseline", 500)), side("candidate", worse, insists))
    alike = compare(
        side("baseline", arm_records("baseline", 500)),
        side("candidate", arm_records("candidate", 500), insists),
        Stated(margin=0.05),
    )
    assert found.classes[LOOP].result == "regression"
    assert "What that would mean is open." in found.sentence
    assert "The candidate has" not in " ".join([found.sentence, *found.details])
    assert "equivalent" not in alike.sentence.lower()


def test_an_arm_without_turns_is_not_said_to_be_equal() -> None:
    """Where one arm finished nothing there is nothing to compare, and no rates that could be equal."""
    found = compare(
        side("baseline", arm_records("baseline", 60, {7: LOOP})), side("candidate", arm_records("candidate", 0))
    )
    assert "Garbage loops 1 → 0 of 60 and 0 turns (unpaired). There is nothing to compare it with." in found.sentence
    assert "equal" not in " ".join([found.sentence, *found.details])


def test_equal_counts_are_not_said_to_be_equal_rates() -> None:
    """Two of 500 in either arm do not say that the true rates are equal."""
    assert (
        "Were the true rates as equal as these, no number"
        in compared({3: LOOP, 90: LOOP}, {7: LOOP, 300: LOOP}).sentence
    )


def test_unpaired_arms_say_what_the_needed_turns_assume() -> None:
    """Without pairs nothing is known of how failures crowd, so that they are independent is said to be assumed."""
    first = {at: one for at, one in arm_records("baseline", 500, {31: LOOP, 62: LOOP}).items() if at.episode < "e010"}
    second = {at: one for at, one in arm_records("candidate", 500, {400: LOOP}).items() if at.episode >= "e010"}
    found = compare(side("baseline", first), side("candidate", second))
    assert "turns per arm if turns fail independently of one another" in found.sentence


def test_two_runs_of_one_build_have_no_winner() -> None:
    """A difference between two runs of one build asks what else differed; no arm is called the better one."""
    build = Build(engine="vllm", version="1", model="m", target="http://t")
    found = compare(
        side("baseline", arm_records("baseline", 500), manifest(("baseline",), build=build)),
        side(
            "candidate",
            arm_records("candidate", 500, {41 * i: LOOP for i in range(12)}),
            manifest(("candidate",), build=build),
        ),
    )
    assert "as two of one build do by chance at most 5.0 % of the time" in found.sentence
    assert "The candidate has" not in found.sentence


@pytest.mark.parametrize(
    ("other", "why"),
    [
        (manifest(("candidate",), digest="sha256:other"), "different corpora"),
        (manifest(("candidate",), seed=8), "different seeds (7 and 8)"),
        (manifest(("candidate",), sampling=Sampling(temperature=0.0)), "different sampling: temperature 1.0 and 0.0"),
        (manifest(("candidate",), salt="pass"), "different salt: none and pass"),
    ],
)
def test_unequal_plans_void_the_comparison(other: object, why: str) -> None:
    """Another corpus, seed, sampling or salt is named, and the verdict is unknown."""
    first, second = both()
    found = compare(side("baseline", first), side("candidate", second, other))  # type: ignore[arg-type]
    assert found.verdict == "unknown"
    assert any(text.startswith(why) for text in found.invalid)


def test_too_few_pairs_void_the_comparison() -> None:
    """29 pairs are below the scenario's 30, and enough if fewer are asked for."""
    first, second = both(29)
    assert "29 paired turns are below the 30" in compare(side("baseline", first), side("candidate", second)).invalid[0]
    assert compare(side("baseline", first), side("candidate", second), Stated(min_turns=10)).invalid == []


def test_turns_lost_in_one_arm_void_the_comparison() -> None:
    """If one arm skipped or broke off more than a tenth of what the other finished, the work was not the same."""
    first, second = both()
    lost = {**second, **records(*(unfinished(i, "indeterminate", arm="candidate") for i in range(10)))}
    found = compare(side("baseline", first), side("candidate", lost))
    assert any("10 of 60 turns were finished by one arm and skipped or broken off" in why for why in found.invalid)


def test_the_same_build_twice_is_named_a_noise_floor() -> None:
    """A/A is said to be A/A, whatever the targets' addresses."""
    builds = [Build(engine="vllm", version="1", model="m", target=f"http://{n}") for n in "ab"]
    first, second = both()
    found = compare(
        side("baseline", first, manifest(("baseline",), build=builds[0])),
        side("candidate", second, manifest(("candidate",), build=builds[1])),
    )
    assert any("same build (A/A)" in note for note in found.notes)


def test_two_arms_of_one_run_are_told_apart() -> None:
    """Records of both arms in one history are paired with each other, not with themselves."""
    first, second = both()
    mixed = {**first, **second, **records(finished(0, LOOP, arm="candidate"))}
    content = manifest(("baseline", "candidate"))
    found = compare(side("baseline", mixed, content), side("candidate", mixed, content))
    assert (found.pairs, found.unpaired) == (60, 0)
    assert found.classes[LOOP].discordant.candidate_only == 1
    assert key(0, "candidate") in mixed
