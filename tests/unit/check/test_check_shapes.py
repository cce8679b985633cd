"""What load shapes do to a summary and a comparison: aborted turns count nowhere, a foreign word fails the arm."""

from soak.check.measures import busy_s, turn_counts
from soak.check.shapes import canary_counts, recall_notes, shape_opinions, word_warnings
from soak.check.turns import TurnFact, final_turns
from soak.facts import (
    ArmSummary,
    Build,
    CanaryCounts,
    Event,
    Load,
    Observation,
    PrefixCache,
    Pressure,
    Quantiles,
    Record,
    Scenario,
    Speculation,
    TokenCounts,
    TurnCounts,
    TurnKey,
)


def key(turn: int) -> TurnKey:
    return TurnKey(episode="e", turn=turn, pass_=0, arm="a")


def fact(turn: int, *kinds: str) -> TurnFact:
    return TurnFact(
        key=key(turn), outcome="finished", class_="error" if "contamination" in kinds else "ok", kinds=kinds
    )


def arm(canaries: CanaryCounts | None = None, preemptions: float | None = None, aborted: int = 0) -> ArmSummary:
    counts = TurnCounts(
        planned=9, finished=9 - aborted, ok=9 - aborted, garbage_loop=0, early_stop=0, max_tokens=0, error=0, skipped=0,
        indeterminate=0, aborted=aborted,
    )  # fmt: skip
    return ArmSummary(
        build=Build(model="m", target="http://x"), valid=True, invalid_reasons=[], turns=counts, wall_s=1.0, busy_s={},
        tokens=TokenCounts(), ttft_ms=Quantiles(), tpot_ms=Quantiles(), e2e_ms=Quantiles(), speculation=Speculation(),
        prefix_cache=PrefixCache(), canaries=canaries, engine={"preemptions": preemptions},
    )  # fmt: skip


def scenario(load: Load | None = None) -> Scenario:
    return Scenario(name="n", question="q", duration="d", corpus="c", load=load or Load())


def test_an_aborted_turn_counts_as_planned_and_in_no_class_and_no_time() -> None:
    """Planned = finished + skipped + indeterminate + not reached + aborted, and no second of it is saved or spent."""
    seen = Observation(key=key(0), started_at=0.0, ending="aborted", max_tokens=9, content="half", e2e_ms=5000.0)
    records = [Record(key=key(0), outcome="aborted", at=0.0, observation=seen, reason="closed by us")]
    turns = final_turns(records)
    counts = turn_counts(turns, planned=3)
    assert (counts.planned, counts.finished, counts.aborted, counts.ok, counts.not_reached) == (3, 0, 1, 0, 2)
    assert turns[0].class_ is None
    assert not any(busy_s(turns).values())


def test_one_foreign_word_fails_the_arm_whatever_the_thresholds() -> None:
    """The sentence counts the answers and says that each is certain; none found is said, too."""
    found = canary_counts([fact(0, "contamination"), fact(1), fact(2, "contamination", "canary_lost")])
    assert (found.contaminated, found.asked, found.recalled) == (2, 1, 0)
    verdicts = [opinion for opinion in shape_opinions(scenario(), arm(found), ()) if opinion.verdict == "fail"]
    assert [opinion.reasons for opinion in verdicts] == [
        ("contamination: 2 answers held another conversation's secret word; each one is certain",)
    ]
    clean = shape_opinions(scenario(), arm(canary_counts([fact(0)])), ())
    assert [opinion.verdict for opinion in clean] == ["pass"]


def test_recall_is_a_rate_with_its_interval_and_decides_nothing() -> None:
    """Forgotten words leave the verdict alone: the share and its exact interval are told."""
    found = canary_counts([fact(i, "canary_recalled" if i < 3 else "canary_lost") for i in range(10)])
    assert found.recall_rate == 0.3
    assert found.recall_ci95 is not None
    assert 0.06 < found.recall_ci95[0] < 0.07
    opinions = shape_opinions(scenario(), arm(found), ())
    assert {opinion.verdict for opinion in opinions} == {"pass"}
    assert "3 of 10 turns that asked for their own secret word got it" in opinions[-1].reasons[0]


def test_a_comparison_warns_of_foreign_words_and_sets_recall_side_by_side() -> None:
    """The warning names the arm; recall comes with an exact p-value, and not at all where an arm was never asked."""
    clean, leaky = (
        CanaryCounts(contaminated=0, asked=20, recalled=18),
        CanaryCounts(contaminated=1, asked=20, recalled=6),
    )
    assert word_warnings({"a": clean, "b": leaky, "c": None}) == [
        "b: 1 answer held another conversation's secret word; each one is certain"
    ]
    (note,) = recall_notes(clean, leaky)
    assert note.startswith("secret words recalled: 18 of 20 → 6 of 20 turns that asked (Fisher exact p = 0.0002)")
    assert recall_notes(clean, None) == recall_notes(clean, CanaryCounts(contaminated=0, asked=0, recalled=0)) == []


def test_pressure_without_a_preemption_is_unknown() -> None:
    """What was asked was not tried: unknown, in plain words; a preemption makes it a pass; no counter is unknown."""
    asked = scenario(Load(pressure=Pressure(cap=64)))
    for preemptions, verdict, said in (
        (0.0, "unknown", "no preemption seen: what happens under pressure was not tried"),
        (None, "unknown", "no counter of preemptions was read"),
        (3.0, "pass", "the engine preempted 3 requests"),
    ):
        (opinion,) = shape_opinions(asked, arm(preemptions=preemptions), ())
        assert opinion.verdict == verdict
        assert said in opinion.reasons[0]
    assert shape_opinions(scenario(), arm(preemptions=0.0), ()) == []


def test_what_a_sitting_says_of_its_load_is_told() -> None:
    """Events of the load and the number of aborted turns are among the reasons, and speak against nothing."""
    events = [Event(at=0.0, kind="shaped", text="pressure: no preemption seen on a"), Event(at=0.0, kind="resumed")]
    opinions = shape_opinions(scenario(), arm(aborted=4), events)
    assert [opinion.reasons[0] for opinion in opinions] == [
        "pressure: no preemption seen on a",
        "4 turns aborted by us, as planned: load and no evidence, in no class",
    ]
