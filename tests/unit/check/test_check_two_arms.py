"""What a comparison says besides counts: time in parts, makespan, latency, survival, trends, noise, evidence."""

import math

import pytest
from check_histories import arm_records, finished, key, manifest, records, side

from soak.check import Stated, compare
from soak.check.makespan import list_makespan
from soak.facts import Build, Capabilities, Decide, Record, TurnKey, Usage

LOOP = "garbage_loop"


def pair_of(bad: dict[int, str], other: dict[int, str], turns: int = 100):
    return side("baseline", arm_records("baseline", turns, bad)), side(
        "candidate", arm_records("candidate", turns, other)
    )


def timed(
    arm: str, e2e_ms: float, tokens: int = 200, ttft_ms: float = 100.0, turns: int = 100
) -> dict[TurnKey, Record]:
    return records(
        *(
            finished(i, arm=arm, e2e_ms=e2e_ms + i, ttft_ms=ttft_ms, usage=Usage(prompt=100, completion=tokens))
            for i in range(turns)
        )
    )


def test_the_change_in_time_is_split_into_parts_that_sum_to_it() -> None:
    """Twice the tokens at the same speed is tokens; a later first token is first_token; the sum is the change."""
    first, second = timed("baseline", 2100.0, tokens=200), timed("candidate", 4150.0, tokens=400, ttft_ms=150.0)
    clock = compare(side("baseline", first), side("candidate", second)).wall_clock
    assert sum(clock.explained_by_part.values()) == pytest.approx(clock.candidate_s - clock.baseline_s)
    assert clock.explained_by_part["first_token"] == pytest.approx(5.0)
    assert clock.explained_by_part["tokens"] == pytest.approx(200.0, rel=0.03)
    assert abs(clock.explained_by_part["speed"]) < 5
    assert clock.turn_ratio == pytest.approx(4150 / 2100, rel=0.05)
    assert (clock.slower_episodes, clock.faster_episodes) == (4, 0)


def test_a_time_margin_makes_equivalence_possible() -> None:
    """1 % longer is equivalent within 5 %, and without a stated margin a clear change is a regression."""
    first, second = timed("baseline", 2000.0), timed("candidate", 2020.0)
    sides = side("baseline", first), side("candidate", second)
    assert compare(*sides, Stated(time_margin=0.05)).wall_clock.result == "equivalent"
    assert compare(*sides).wall_clock.result == "regression"


def test_cut_turns_make_the_ratio_a_bound() -> None:
    """If only the candidate was cut the ratio is at least what it is; if both were, nothing is claimed."""
    cut = finished(3, "error", arm="candidate", ending="deadline_turn", censored=True)
    first, second = arm_records("baseline", 60), {**arm_records("candidate", 60), **records(cut)}
    assert compare(side("baseline", first), side("candidate", second)).wall_clock.bound == "at_least"
    mine = finished(9, "error", arm="baseline", ending="deadline_turn", censored=True)
    both = compare(side("baseline", {**first, **records(mine)}), side("candidate", second)).wall_clock
    assert (both.bound, both.result) == ("unknown", "inconclusive")
    assert compare(side("baseline", first), side("candidate", first_as("candidate"))).wall_clock.bound == "exact"


def first_as(arm: str) -> dict[TurnKey, Record]:
    return arm_records(arm, 60)


def test_list_scheduling_fills_the_places_as_they_come_free() -> None:
    """Six, one, one, five in two places end after 7: the five begins when the second one ends."""
    lengths = {("a", 0): 6.0, ("b", 0): 1.0, ("c", 0): 1.0, ("d", 0): 5.0}
    assert list_makespan(lengths, 2) == 7.0
    assert list_makespan(lengths, 1) == 13.0
    assert list_makespan(lengths, 9) == 6.0


def test_loops_off_the_critical_path_save_no_time() -> None:
    """One short conversation with a loop beside a long one: turn time falls, the makespan does not."""

    def arm(name: str, *, loops: bool) -> dict[TurnKey, Record]:
        long_ones = [finished(i, arm=name, e2e_ms=60_000.0, started_at=60.0 * i) for i in range(25)]
        short = [
            finished(
                25 + i,
                LOOP if loops and i == 0 else "ok",
                arm=name,
                e2e_ms=300_000.0 if loops and i == 0 else 2000.0,
                started_at=5.0 + 12 * i,
            )
            for i in range(25)
        ]
        return records(*long_ones, *short)

    span = compare(
        side("baseline", arm("baseline", loops=True)), side("candidate", arm("candidate", loops=False))
    ).wall_clock.makespan
    assert span.in_flight == 2
    assert span.baseline_s == pytest.approx(span.candidate_s)
    assert span.critical_change_s == pytest.approx(0.0)
    assert span.candidate_observed_s == pytest.approx(1500.0)


def test_two_arms_of_one_run_have_no_observed_makespan() -> None:
    """They shared the clock, so only the simulation tells them apart."""
    mixed = {**arm_records("baseline", 60), **arm_records("candidate", 60, {3: LOOP})}
    content = manifest(("baseline", "candidate"))
    span = compare(side("baseline", mixed, content), side("candidate", mixed, content)).wall_clock.makespan
    assert span.baseline_observed_s is None
    assert span.candidate_s > span.baseline_s


def test_latency_counts_what_was_cut_as_longer() -> None:
    """A fifth of the answers cut leaves p50 known and p95 unknown, with the number that were cut."""
    second = {
        **arm_records("candidate", 100),
        **records(
            *(finished(5 * i, "error", arm="candidate", ending="deadline_turn", censored=True) for i in range(20))
        ),
    }
    found = compare(side("baseline", arm_records("baseline", 100)), side("candidate", second)).latency
    assert set(found) == {"ttft_ms", "tpot_ms", "e2e_ms"}
    assert found["e2e_ms"].candidate["p50"].value == pytest.approx(2000.0)
    assert found["e2e_ms"].candidate["p95"].value is None
    assert (found["e2e_ms"].baseline_censored, found["e2e_ms"].candidate_censored) == (0, 20)
    assert found["ttft_ms"].ratio == pytest.approx(1.0)


def test_a_turn_without_a_first_token_waited_at_least_as_long() -> None:
    """A first-chunk deadline is a censored TTFT, not a missing one."""
    late = finished(3, "error", arm="candidate", ending="deadline_first_chunk", ttft_ms=None, censored=True)
    second = {**arm_records("candidate", 60), **records(late)}
    found = compare(side("baseline", arm_records("baseline", 60)), side("candidate", second)).latency["ttft_ms"]
    assert found.candidate_censored == 1


def test_goodput_counts_ok_turns_within_the_stated_limits() -> None:
    """Loops are never within limits; without limits there is no share."""
    sides = pair_of({0: LOOP, 50: LOOP}, {})
    assert compare(*sides).goodput["baseline"].within_limits is None
    found = compare(*sides, Stated(ttft_limit_ms=200.0, tpot_limit_ms=20.0)).goodput
    assert (found["baseline"].within_limits, found["candidate"].within_limits) == (0.98, 1.0)
    assert compare(*sides, Stated(ttft_limit_ms=50.0)).goodput["candidate"].within_limits == 0.0
    assert found["baseline"].wasted_tokens == 400


def test_survival_tells_how_far_conversations_came() -> None:
    """A conversation that fails at its fifth turn came five turns, a thousand tokens and their time."""
    found = {one.unit: one for one in compare(*pair_of({4: LOOP}, {})).survival}
    assert found["turns"].baseline.curve == [(5.0, 0.75)]
    assert found["tokens"].baseline.curve == [(1000.0, 0.75)]
    assert found["s"].baseline.curve[0][0] == pytest.approx(4 * 2 + 200)
    assert (found["turns"].baseline.failed, found["turns"].candidate.failed) == (1, 0)
    assert found["turns"].p_value == pytest.approx(1.0)


def test_failures_that_rise_along_the_conversation_are_a_trend_of_that_arm() -> None:
    """Failures late in every conversation give the candidate a rising slope by turn, and the baseline none."""
    bad = {25 * i + turn: LOOP for i in range(12) for turn in (20, 23)}
    found = {one.axis: one for one in compare(*pair_of({}, bad, turns=300)).trends}
    assert found["turn"].candidate.slope > 0
    assert found["turn"].candidate.p_value < 0.05
    assert found["turn"].baseline.slope is None
    assert [(band.low, band.high) for band in found["turn"].bands] == [(0, 5), (5, 10), (10, 20), (20, 40)]
    assert sum(band.candidate.events for band in found["turn"].bands) == 24
    assert found["depth_tokens"].bands[0].baseline.turns == 300


def test_uptime_begins_anew_where_the_engine_was_restarted() -> None:
    """Turns after the second birth of the engine are young again."""
    import dataclasses

    sides = [dataclasses.replace(one, engine_starts_at=(-10.0, 50.0)) for one in pair_of({}, {55: LOOP})]
    uptime = next(one for one in compare(*sides).trends if one.axis == "uptime_s")
    assert uptime.bands[-1].high is None
    assert sum(band.candidate.turns for band in uptime.bands) == 100
    assert uptime.bands[0].candidate.events == 1  # turn 55 started 5 s after the restart


def test_drift_of_the_time_per_token_is_measured_per_hour() -> None:
    """Time per token that doubles in an hour drifts by 100 per cent per hour."""

    def arm(name: str, factor: float) -> dict[TurnKey, Record]:
        return records(
            *(
                finished(i, arm=name, started_at=36.0 * i, e2e_ms=100.0 + 2000.0 * factor ** (i / 100))
                for i in range(100)
            )
        )

    found = compare(side("baseline", arm("baseline", 1.0)), side("candidate", arm("candidate", 2.0))).drift
    assert found["candidate"].tpot_percent_per_hour == pytest.approx(100.0, rel=0.01)
    assert found["baseline"].tpot_percent_per_hour == pytest.approx(0.0, abs=1e-6)


def test_nothing_is_told_per_hour_of_a_run_of_seconds() -> None:
    """Below half an hour of ok turns drift is too short to say and the trend along uptime has a test but no slope."""
    slowing = {
        index: finished(index, LOOP if index % 25 == 24 else "ok", e2e_ms=2000.0 + 9 * index) for index in range(400)
    }
    found = compare(side("baseline", arm_records("baseline", 400)), side("candidate", records(*slowing.values())))
    assert found.drift["candidate"].tpot_percent_per_hour is found.drift["candidate"].ci95 is None
    assert found.drift["candidate"].unknown_because.startswith("too short to say (384 ok turns over 6.")
    uptime = next(one for one in found.trends if one.axis == "uptime_s").candidate
    assert uptime.slope is uptime.slope_ci95 is None
    assert uptime.p_value is not None


def test_a_slope_per_hour_needs_half_an_hour_of_the_same_arm() -> None:
    """The other arm's long run lends no slope to an arm of which a few minutes are known."""
    bad = {index: LOOP for index in range(400) if index % 25 == 24}
    long = records(
        *(finished(i, bad.get(i, "ok"), arm="baseline", started_at=10.0 * i) for i in range(400)),
    )
    found = compare(side("baseline", long), side("candidate", arm_records("candidate", 400, bad)))
    uptime = next(one for one in found.trends if one.axis == "uptime_s")
    assert uptime.baseline.slope is not None
    assert uptime.candidate.slope is None
    assert uptime.candidate.p_value is not None


def test_the_noise_floor_of_an_a_a_run() -> None:
    """Two runs of one build: flips, factors between turn times, and half-widths; two builds have none."""
    build = Build(engine="vllm", version="1", model="m", target="http://t")
    found = compare(
        side("baseline", arm_records("baseline", 100, {5: LOOP}), manifest(("baseline",), build=build)),
        side("candidate", arm_records("candidate", 100, {70: LOOP}), manifest(("candidate",), build=build)),
    )
    assert (found.noise_floor.class_flips, found.noise_floor.class_flip_rate) == (2, 0.02)
    assert found.noise_floor.turn_time_factor_p50 == pytest.approx(1.0)
    assert found.noise_floor.rate_half_width > 0
    assert found.sentence.startswith("Both arms ran the same build (A/A), as far as their servers tell: what differs")
    assert "Noise floor: 2 pairs of one class" in found.sentence
    assert compare(*pair_of({}, {})).noise_floor is None


def test_other_environments_are_warned_of_before_any_number() -> None:
    """Another client library or another context length is told first, and does not void the comparison."""
    import msgspec

    def content(arm: str, uvloop: str, context: int):
        made = manifest((arm,))
        card = msgspec.structs.replace(
            made.arms[0], capabilities=Capabilities(model="m", context_tokens=context, token_ids=True)
        )
        return msgspec.structs.replace(made, environment={"uvloop": uvloop, "python": "3.11"}, arms=(card,))

    found = compare(
        side("baseline", arm_records("baseline", 60), content("baseline", "0.21", 8192)),
        side("candidate", arm_records("candidate", 60), content("candidate", "0.22", 4096)),
    )
    assert found.warnings == [
        "the runs were made in different environments: uvloop 0.21 and 0.22",
        "the servers can do different things: context tokens 8192 and 4096",
    ]
    assert found.sentence.startswith("The runs were made in different environments")
    assert found.invalid == []


def test_builds_are_named_with_the_settings_in_which_they_differ() -> None:
    """Speculation on in one arm only is part of both names."""
    builds = [
        Build(engine="vllm", version="1", model="m", target="http://t", speculative=speculative)
        for speculative in (None, {"method": "ngram"})
    ]
    found = compare(
        side("baseline", arm_records("baseline", 60), manifest(("baseline",), build=builds[0])),
        side("candidate", arm_records("candidate", 60), manifest(("candidate",), build=builds[1])),
    )
    assert found.builds == {
        "baseline": "vllm 1 m speculative=none",
        "candidate": "vllm 1 m speculative=method:ngram",
    }
    assert found.sentence.endswith("Builds: vllm 1 m, speculative none → method:ngram; soak 0.1.0.")


def test_what_would_settle_it_counts_clustering_and_hours() -> None:
    """Needed turns are the paired ones times the design effect; hours follow the pace of the runs."""
    found = compare(*pair_of({0: LOOP, 1: LOOP, 2: LOOP, 30: LOOP, 60: LOOP}, {80: LOOP, 81: LOOP}))
    loop = found.classes[LOOP]
    assert loop.design_effect > 1
    assert loop.needed.turns == math.ceil(loop.turns_needed_80_paired * loop.design_effect)
    assert loop.needed.episodes == math.ceil(loop.needed.turns / 25)
    assert loop.needed.hours == pytest.approx(loop.needed.turns / (100 / 200.0) / 3600)
    assert loop.failing_episodes == 4
    assert loop.candidate_rate.upper95 > 0.02


def test_a_run_that_could_stop_by_its_evidence_is_judged_by_it_alone() -> None:
    """Ten losses in ten conversations decide; p = 0.002 without `decide` would, too, but five losses do not here."""
    content = manifest(("baseline", "candidate"), decide=Decide())

    def judged(losses: int):
        mixed = {
            **arm_records("baseline", 500),
            **arm_records("candidate", 500, {25 * i + 7: LOOP for i in range(losses)}),
        }
        return compare(side("baseline", mixed, content), side("candidate", mixed, content)).classes[LOOP]

    assert judged(6).result == "inconclusive"  # by the fixed test p = 0.03
    decided = judged(12)
    assert (decided.result, decided.evidence.direction) == ("regression", "regression")
    assert decided.evidence.bar == 20.0
    assert decided.evidence.decided_after <= 500
    assert decided.evidence.path[-1] == (500, pytest.approx(decided.evidence.e_value))
    assert key(0).episode == "e000"


def test_unpaired_episodes_are_compared_as_wholes() -> None:
    """Ten loops in one of many episodes of one arm are not ten pieces of evidence where no turn is paired."""
    first = {at: one for at, one in arm_records("baseline", 200).items() if at.episode < "e004"}
    second = {
        at: one
        for at, one in arm_records("candidate", 200, {100 + i: LOOP for i in range(10)}).items()
        if at.episode >= "e004"
    }
    loop = compare(side("baseline", first), side("candidate", second)).classes[LOOP]
    assert loop.test.startswith("permutation of whole episodes")
    assert loop.p_value > 0.5
    assert loop.ci95[0] < 0


@pytest.mark.parametrize(("e2e_ms", "ttft_ms"), [(-900.0, -1.0), (5.0, -5.0), (50.0, 100.0), (-500.0, 0.0)])
def test_times_below_nothing_break_no_comparison(e2e_ms: float, ttft_ms: float) -> None:
    """A history whose times cannot be (an edited one, a clock set back) still gets its counts compared."""
    found = compare(
        side("baseline", timed("baseline", 2000.0)), side("candidate", timed("candidate", e2e_ms, 200, ttft_ms))
    )
    assert found.pairs == 100
    assert (
        compare(side("baseline", timed("baseline", e2e_ms)), side("candidate", timed("candidate", 2000.0))).pairs == 100
    )
