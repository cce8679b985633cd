"""Whole conversations: counted apart from turns, compared by episode, and never beside recorded ones."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from check_histories import manifest

from soak.check import ArmHistory, ConversationFact, Stated, TurnFact, compare, summarise
from soak.check.conversations import conversation_sentences, measure_conversations
from soak.check.pairing import invalid_reasons, pair_up
from soak.check.summary import HistoryView
from soak.facts import ConversationEnd, ConversationLoop, Live, PlanCard, TurnKey

LOOP = ConversationLoop(
    kind="same_calls", onset_turn=2, last_turn=6, period=1, copies=5.0, to_end=True, unit="bash(ls)", text="ls 5 times"
)


def fact(episode: str, turns: int, *, arm: str = "candidate", looped: bool = False) -> ConversationFact:
    """Return a conversation that ended."""
    end = ConversationEnd(
        episode=episode, pass_=0, arm=arm, reason="loop" if looped else "answered", turns=turns, counts={"exact": turns}
    )
    return ConversationFact(end=end, loops=(LOOP,) if looped else ())


def turns_of(facts: Sequence[ConversationFact], bad: int = 0) -> list[TurnFact]:
    """Return the turns of these conversations, ten seconds each, the first `bad` of each a garbage loop."""
    return [
        TurnFact(
            key=TurnKey(episode=one.end.episode, turn=turn, pass_=0, arm=one.end.arm),
            outcome="finished",
            class_="garbage_loop" if turn < bad else "ok",
            turn_s=10.0,
        )
        for one in facts
        for turn in range(one.end.turns)
    ]


def arm(facts: list[ConversationFact], *, bad: int = 0, replay: str = "live", live: Live | None = None) -> ArmHistory:
    """Return one side of a comparison."""
    card = manifest(replay=replay, live=live or Live())
    turns = turns_of(facts, bad)
    view = HistoryView(turns=turns, conversations={"candidate": facts})
    plan = PlanCard(episodes=len(facts), turns=len(turns), passes=1, seed=7, hash="sha256:0")
    summary = summarise(card, view, run="r", state="complete", plan=plan, wall_s=100.0)
    return ArmHistory(
        label=f"{replay}-{bad}",
        manifest=card,
        arm="candidate",
        turns=turns,
        summary=summary.arms["candidate"],
        conversations=facts,
    )


def test_conversations_are_counted_apart() -> None:
    """Loops, ends by reason, turns per task and calls: in a structure of their own, and no class changes."""
    facts = [fact("a", 4), fact("b", 7, looped=True), fact("c", 10)]
    found = measure_conversations(facts, turns_of([*facts, fact("d", 2)]))
    assert (found.begun, found.ended, found.loops) == (4, 3, 1)
    assert found.loop_rate == pytest.approx(1 / 3)
    assert found.reasons == {"answered": 2, "loop": 1}
    assert found.turns is not None
    assert (found.turns.p50, found.turns.max) == (7.0, 10.0)
    assert found.looped[0].conversation == "b:0:candidate"
    said = " ".join(conversation_sentences(found))
    assert "conversation loops: 1 of 3 tasks" in said
    assert "1 still open" in said
    assert arm(facts).summary.turns.ok == 21
    assert arm(facts).summary.conversations is not None


def test_no_live_turn_is_ever_paired() -> None:
    """Turns with one key in both arms are not one question: the unit is the episode; unequal lengths are no fault."""
    base = arm([fact(name, 12) for name in "abcdefgh"], bad=3)
    other = arm([fact(name, 5 + i) for i, name in enumerate("abcdefgh")], bad=0)
    found = compare(base, other)
    assert (found.pairs, found.unpaired, found.clusters) == (0, 96 + 68, 8)
    loops = found.classes["garbage_loop"]
    assert (loops.baseline.events, loops.candidate.events, loops.failing_episodes) == (24, 0, 8)
    assert "episodes" in loops.test
    assert loops.p_value is not None
    assert loops.p_value < 0.02
    assert loops.result == "improvement"
    assert found.conversations is not None
    assert found.conversations.turns_ratio == pytest.approx(68 / 96)
    assert found.conversations.time_ratio == pytest.approx(68 / 96)


def test_episodes_of_one_arm_alone_are_left_out_and_told() -> None:
    """Counts are those of the episodes that the test and the interval are about, so a rate lies in its interval."""
    base = arm([fact(name, 12) for name in "abcdefghxyz"], bad=3)
    found = compare(base, arm([fact(name, 12) for name in "abcdefgh"], bad=3))
    loops = found.classes["garbage_loop"]
    assert (loops.baseline.events, loops.baseline.turns, loops.difference) == (24, 96, 0.0)
    assert found.clusters == 8
    assert f"36 turns of episodes that only {base.label} ran, left out of the classes" in found.notes
    assert "24 → 24 of 96 turns in 8 episodes" in found.sentence


def test_no_event_at_all_is_no_equivalence_of_live_arms() -> None:
    """Where no turn failed in either arm the interval is as wide as that many turns allow, not a point."""
    found = compare(
        arm([fact(name, 12) for name in "abcdefgh"]), arm([fact(name, 6) for name in "abcdefgh"]), Stated(margin=0.01)
    )
    loops = found.classes["garbage_loop"]
    assert loops.ci95 is not None
    assert (loops.ci95[0] < -0.03, loops.ci95[1] > 0.06) == (True, True)
    assert (loops.result, found.verdict) == ("inconclusive", "unknown")


def test_one_episode_decides_nothing() -> None:
    """However many turns of one conversation failed, one episode is one piece of evidence."""
    base = arm([fact("a", 40), *(fact(name, 10) for name in "bcd")])
    base = ArmHistory(
        label="base",
        manifest=base.manifest,
        arm="candidate",
        turns=[*turns_of([fact("a", 40)], 30), *turns_of([fact(name, 10) for name in "bcd"])],
        summary=base.summary,
        conversations=base.conversations,
    )
    found = compare(base, arm([fact("a", 40), *(fact(name, 10) for name in "bcd")]))
    assert found.classes["garbage_loop"].p_value == 1.0
    assert found.classes["garbage_loop"].result == "inconclusive"


def reasons(one: ArmHistory, other: ArmHistory) -> str:
    """Return why these two may not be compared."""
    return " ".join(invalid_reasons(one, other, pair_up(one, other), min_turns=1))


def test_modes_and_their_settings_must_match() -> None:
    """Live beside recorded is invalid; so are two limits of turns, which do not matter in any other mode."""
    facts = [fact(name, 20) for name in "abc"]

    mixed = compare(arm(facts), arm(facts, replay="recorded"))
    assert mixed.verdict == "unknown"
    assert any("modes of replay: live and recorded" in why for why in mixed.invalid)
    assert mixed.pairs == 0
    assert "live replay" in reasons(arm(facts), arm(facts, live=Live(max_turns=3)))
    for mode in ("recorded", "agent"):
        assert "live replay" not in reasons(arm(facts, replay=mode), arm(facts, replay=mode, live=Live(match=0.5)))


def test_agents_and_their_limits_must_match() -> None:
    """Two agent runs with other limits, or with another release of the agent, void the comparison by name."""
    facts = [fact(name, 20) for name in "abc"]
    one, recorded = arm(facts, replay="agent"), arm(facts, replay="recorded")

    def changed(side: ArmHistory, **changes: Any) -> ArmHistory:
        return replace(side, manifest=msgspec.structs.replace(side.manifest, **changes))

    limited = {"agent": {"step_limit": 5}}
    assert "agent settings" in reasons(one, changed(one, scenario={**one.manifest.scenario, **limited}))
    other = changed(recorded, scenario={**recorded.manifest.scenario, **limited})
    assert "agent settings" not in reasons(recorded, other)
    old, new = (changed(one, environment={"mini-swe-agent": version}) for version in ("2.4.6", "2.4.7"))
    assert "mini-swe-agent 2.4.6 and 2.4.7" in reasons(old, new)
    assert "mini-swe-agent" not in reasons(old, old) + reasons(one, new)


def test_an_agents_tasks_come_after_what_voids_them() -> None:
    """The paragraph opens with the reason that no conclusion may be drawn; the tasks' result is then left out."""

    def agent(resolved: int, seed: int = 7) -> ArmHistory:
        """Return an arm that ended twelve tasks."""
        ends = [
            ConversationEnd(
                episode=f"t{i:02}",
                pass_=0,
                arm="candidate",
                reason="submitted",
                turns=3,
                counts={"resolved": i < resolved},
            )
            for i in range(12)
        ]
        one = arm([ConversationFact(end=end) for end in ends], replay="agent")
        return replace(one, ends=ends, manifest=msgspec.structs.replace(one.manifest, seed=seed))

    sound, void = compare(agent(10), agent(1)), compare(agent(10), agent(1, seed=8))
    assert sound.sentence.startswith("Both arms ran the same build")
    assert "Tasks resolved: 10 → 1 of 12 (9 only in the baseline, 0 only in the candidate" in sound.sentence
    assert (": regression." in sound.sentence, sound.verdict) == (True, "fail")
    assert void.sentence.startswith("No conclusion may be drawn: different seeds")
    assert "regression" not in void.sentence
    assert void.verdict == "unknown"
