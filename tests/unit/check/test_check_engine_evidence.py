"""The engine's evidence: findings of turns, acceptance of groups, drift, alarms."""

import msgspec
import pytest
from check_histories import finished, manifest, records, summary
from engine_facts import readings, told, turn

from soak.check import Span, TurnFact, spans_elsewhere, turns_with_findings
from soak.check.engine_evidence import engine_evidence
from soak.facts import ArmSummary, Build, Drafted, EngineEvidence, EngineSample, EngineTurn, evaluate
from soak.scenario import parse_threshold, threshold_problem


def only(facts: list[TurnFact], samples: list[EngineSample]) -> EngineTurn:
    (found,) = turns_with_findings(facts, samples)
    return found


def kinds(found: EngineTurn) -> list[str]:
    return [finding.kind for finding in found.findings]


def test_everything_accepted_at_every_position_is_a_finding_of_the_turn() -> None:
    """A lone turn whose drafts are all accepted is told as the loop it looks like, with its numbers."""
    found = only([turn(0, 1, 9)], readings([(0, 10, (4, 2)), (10, 210, (203, 200))]))
    assert (found.attributed, found.acceptance_rate, found.acceptance_length) == ("alone", 0.9925, pytest.approx(2.985))
    assert kinds(found) == ["acceptance_full"]
    assert found.findings[0].text == (
        "the engine accepted 99 % of 400 draft tokens (at each position: 100 %, 99 %):"
        " text that is predicted without fail, as a loop is"
    )


@pytest.mark.parametrize(
    ("drafts", "accepted"), [(200, (200, 180)), (99, (99, 99)), (200, (120, 60))], ids=["position", "few", "healthy"]
)
def test_less_than_everything_is_no_finding(drafts: int, accepted: tuple[int, int]) -> None:
    """One position below the limit, too few drafts, or a healthy draft head: nothing is told."""
    assert kinds(only([turn(0, 1, 9)], readings([(0, 0, (0, 0)), (10, drafts, accepted)]))) == []


def test_a_lookup_with_short_drafts_is_judged_by_all_its_tokens() -> None:
    """Where drafts are shorter than there are positions, a late position is rare and not refused."""
    short = Drafted(drafts=200, draft_tokens=250, accepted_tokens=249, per_position=(200, 49))
    assert kinds(only([turn(0, 1, 9, drafted=short)], [])) == ["acceptance_full"]


def test_what_the_answer_tells_goes_before_the_counters() -> None:
    """In company the engine's own word about a request is exact, and said to be that."""
    facts = [turn(0, 1, 9, drafted=told(100, 50, 20)), turn(1, 2, 8)]
    first, second = turns_with_findings(facts, readings([(0, 0, (0, 0)), (10, 300, (299, 299))]))
    assert (first.told, first.exact, first.drafts, first.per_position) == (True, True, 100, (0.5, 0.2))
    assert (second.told, second.exact) == (False, False)
    assert second.findings[0].attributed == "overlap"
    assert second.findings[0].text.endswith("(one of up to 2 turns between the same readings: shared out by overlap)")


def test_nothing_accepted_is_told_with_its_band() -> None:
    """Drafts of long prompts collapse: the turns say so, and the alarm names the band and what the others accept."""
    deep = [turn(number, 0, 1, prompt=20_000, drafted=told(300, 0, 0)) for number in range(4)]
    shallow = [turn(number, 0, 1, prompt=900, drafted=told(300, 150, 60)) for number in range(4, 8)]
    found = turns_with_findings([*deep, *shallow], [])
    assert [kinds(one) for one in found] == [["acceptance_none"]] * 4 + [[]] * 4
    assert found[0].findings[0].text == (
        "the engine accepted none of 600 draft tokens;"
        " so it is for prompts of 16,384 to 32,767 tokens (0 % of 2400 draft tokens)"
    )
    evidence = engine_evidence([*deep, *shallow], [])
    assert evidence.alarms == [
        "acceptance has collapsed for prompts of 16,384 to 32,767 tokens (0 % of 2400 draft tokens);"
        " elsewhere 35 % are accepted"
    ]
    assert [(band.low, band.high, band.acceptance.acceptance_rate) for band in evidence.by_depth] == [
        (0, 1024, 0.35),
        (16_384, 32_768, 0.0),
    ]


def test_an_arm_that_accepts_nothing_has_no_collapsed_band() -> None:
    """Where nothing is accepted anywhere, no length is to blame; `validity` says that of the arm."""
    facts = [turn(number, 0, 1, prompt=600 * 4**number, drafted=told(600, 0, 0)) for number in range(3)]
    assert engine_evidence(facts, []).alarms == []


def test_everything_accepted_everywhere_is_an_alarm() -> None:
    """An arm at K + 1 whatever the prompt loops throughout or does not verify; one healthy band silences it."""
    full = [turn(number, 0, 1, prompt=600 * 4**number, drafted=told(600, 600, 599)) for number in range(3)]
    (alarm,) = engine_evidence(full, []).alarms
    assert alarm.startswith("nearly every draft is accepted, whatever the prompt: 3597 of 3600 draft tokens")
    healthy = turn(3, 0, 1, prompt=90_000, drafted=told(20, 10, 5))
    assert engine_evidence([*full, healthy], []).alarms == []


@pytest.mark.parametrize(
    ("others", "text"),
    [
        (0, "the engine preempted this turn 2 times and computed it again"),
        (
            1,
            "the engine preempted 2 requests while this turn was in flight"
            " (one of up to 2 turns between the same readings: which of them it hit is not told)",
        ),
    ],
)
def test_a_preemption_is_told_as_far_as_it_is_this_turns(others: int, text: str) -> None:
    """Alone it was this turn; in company it was one of those in flight."""
    samples = readings([(0, 0, (0, 0)), (10, 4, (1, 0))])
    samples[1] = msgspec.structs.replace(samples[1], preemptions=2.0)
    found = turns_with_findings([turn(number, 1, 9) for number in range(1 + others)], samples)
    assert [one.findings[0].text for one in found] == [text] * (1 + others)


def test_nan_and_restart_are_findings_too() -> None:
    """A turn in whose logits the engine found NaN, and one that outlived the engine, say so."""
    samples = [
        EngineSample(arm="a", at=0.0, corrupted=0.0, process_start_at=-5.0),
        EngineSample(arm="a", at=10.0, corrupted=1.0, process_start_at=-5.0),
        EngineSample(arm="a", at=20.0, corrupted=0.0, process_start_at=15.0),
    ]
    first, second = turns_with_findings([turn(0, 1, 9), turn(1, 11, 19)], samples)
    assert [finding.text for finding in first.findings] == ["the engine found NaN in the logits of this turn"]
    assert [finding.text for finding in second.findings] == ["the engine was restarted while this turn was in flight"]


def test_what_was_not_measured_is_not_counted_as_none() -> None:
    """Counts of findings name only what the engine could have shown: no drafts, no NaN counter, no readings."""
    quiet = engine_evidence([turn(0, 1, 9)], readings([(0, 0, (0, 0)), (10, 9, (4, 2))]))
    assert quiet.findings == {"restart": 0, "preemption": 0, "acceptance_none": 0, "acceptance_full": 0}
    blind = engine_evidence([turn(0, 1, 9)], [])
    assert (blind.findings, blind.by_depth, blind.unread) == ({}, [], 1)


def test_many_findings_of_one_kind_do_not_hide_another() -> None:
    """Of a hundred full turns and one without acceptance the list of twenty shows that one first."""
    facts = [turn(number, 0, 1, drafted=told(200, 200, 200)) for number in range(100)]
    evidence = engine_evidence([*facts, turn(100, 0, 1, drafted=told(200, 0, 0))], [])
    assert evidence.findings["acceptance_full"] == 100
    assert [one.finding.kind for one in evidence.seen] == ["acceptance_none", *["acceptance_full"] * 19]


def test_acceptance_by_class_and_how_much_of_it_is_exact() -> None:
    """Each class has its own rate; the share that is known turn by turn is told beside it."""
    facts = [
        turn(0, 1, 9, class_="garbage_loop", drafted=told(200, 200, 200)),
        turn(1, 11, 19, drafted=told(100, 50, 0)),
        turn(2, 21, 29),
        turn(3, 21, 29),
    ]
    samples = readings([(20, 0, (0, 0)), (30, 100, (70, 30))])
    groups = engine_evidence(facts, samples).by_class
    assert {name: (group.acceptance_rate, group.exact) for name, group in groups.items()} == {
        "garbage_loop": (1.0, 1.0),
        "ok": (150 / 400, 0.5),
    }


def course(hours: float, change: float, *, conversations: int = 8, deep_late: bool = False) -> EngineEvidence:
    """An arm whose like turns change by `change` from the first to the second half; deep turns accept less."""
    facts = []
    for half in range(2):
        for number in range(conversations):
            begin = hours * 3600 * (half + number / (conversations + 1)) / 2
            for deep in (False, True):
                drafts = 400 if deep is (deep_late and half == 1) else 100
                rate = (0.3 if deep else 0.6) + half * change + 0.002 * (number % 3)
                accepted = (round(drafts * rate), round(drafts * rate))
                prompt = 9000 if deep else 500
                sent = turn(
                    800 * half + 4 * number + deep, begin, begin + 1, prompt=prompt, episode=f"e{number}",
                    drafted=told(drafts, *accepted),
                )  # fmt: skip
                facts.append(sent)
    return engine_evidence(facts, [])


def test_a_mix_that_becomes_deeper_is_no_drift() -> None:
    """Pooled acceptance falls by many points where deep turns become frequent; between like turns nothing changed."""
    drift = course(2.0, 0.0, deep_late=True).drift
    assert drift.pooled_change is not None
    assert drift.pooled_change < -0.1
    assert drift.change == pytest.approx(0.0, abs=0.005)
    assert drift.conversations == 8
    assert course(2.0, 0.0, deep_late=True).alarms == []


def test_a_real_drift_is_found_and_told() -> None:
    """Like turns that lose six points over the uptime raise the alarm, with the interval."""
    evidence = course(2.0, -0.06)
    assert evidence.drift.change == pytest.approx(-0.06, abs=0.005)
    assert evidence.drift.ci95 is not None
    assert evidence.drift.ci95[1] < 0
    (alarm,) = evidence.alarms
    assert alarm.startswith("acceptance fell by 6.0 points over the uptime between like turns (95 % -6.")


@pytest.mark.parametrize(
    ("hours", "conversations", "why"), [(0.4, 8, "too short to say"), (2.0, 4, "not enough to say: 4 conversations")]
)
def test_too_little_for_a_drift_is_said(hours: float, conversations: int, why: str) -> None:
    """Half an hour and five conversations with like turns in both halves are needed for an interval."""
    drift = course(hours, -0.06, conversations=conversations).drift
    assert (drift.change, drift.ci95) == (None, None)
    assert drift.unknown_because is not None
    assert drift.unknown_because.startswith(why)


def test_arms_on_one_server_are_each_others_company() -> None:
    """Two arms with the same target share its counters; a start that came to nothing is company as well."""
    same = manifest(("a", "b"))
    other = msgspec.structs.replace(
        same, arms=(same.arms[0], msgspec.structs.replace(same.arms[1], build=Build(model="m", target="http://other")))
    )
    turns = {"a": [turn(0, 1, 9)], "b": [turn(1, 3, 5)]}
    broken = {"a": [Span(begin=2, end=4)]}
    assert spans_elsewhere("a", same, turns, broken) == [Span(begin=3, end=5), Span(begin=2, end=4)]
    assert spans_elsewhere("a", other, turns, broken) == [Span(begin=2, end=4)]
    samples = readings([(0, 0, (0, 0)), (10, 9, (4, 2))])
    (alone,) = turns_with_findings(turns["a"], samples)
    (beside,) = turns_with_findings(turns["a"], samples, spans_elsewhere("a", same, turns, broken))
    assert (alone.attributed, beside.attributed) == ("alone", "overlap")


@pytest.mark.parametrize(
    "text", ["evidence.findings.preemption <= 3", "evidence.drift.change >= -5%", "evidence.by_class.ok.drafts >= 1"]
)
def test_a_gate_can_look_at_the_evidence(text: str) -> None:
    """Counts of findings, the drift and groups are fields of an arm; a drift may be negative."""
    assert threshold_problem(text) is None


def test_a_gate_on_what_was_not_measured_is_not_passed() -> None:
    """Without a NaN counter, `evidence.findings.corrupted` is unknown and not 0."""
    found = engine_evidence([turn(0, 1, 9)], readings([(0, 0, (0, 0)), (10, 9, (4, 2))]))
    threshold = parse_threshold("evidence.findings.corrupted <= 5")
    assert evaluate(threshold, arm_with(found)) is None
    assert evaluate(parse_threshold("evidence.findings.preemption <= 5"), arm_with(found)) is True


def arm_with(found: EngineEvidence) -> ArmSummary:
    (only_arm,) = summary(records(finished(0))).arms.values()
    return msgspec.structs.replace(only_arm, evidence=found)
