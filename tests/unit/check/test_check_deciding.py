"""When a watched run may end: decisions, what cannot be decided, and what a conversation counts."""

from collections.abc import Iterable

import pytest

from soak.check import Allowed, Decider, Decision
from soak.facts import Decide, Judgement, Record, TurnKey

TURNS = 10
LOOP = "garbage_loop"


def decider(decide: Decide | None = None, *, turns: int | None = 6000, seconds: float | None = None) -> Decider:
    return Decider(
        decide or Decide(),
        arms=("baseline", "candidate"),
        turns_of={f"e{i}": TURNS for i in range(2000)},
        allowed=Allowed(turns=turns, seconds=seconds),
    )


def record(episode: int, turn: int, arm: str, class_: str | None = "ok", outcome: str = "finished") -> Record:
    judgement = Judgement(class_=class_, reason="r") if class_ else None  # type: ignore[arg-type]
    key = TurnKey(episode=f"e{episode}", turn=turn, pass_=0, arm=arm)
    return Record(key=key, outcome=outcome, at=0.0, judgement=judgement)  # type: ignore[arg-type]


def conversation(
    episode: int, baseline: Iterable[int] = (), candidate: Iterable[int] = (), class_: str = LOOP
) -> list[Record]:
    bad = {"baseline": set(baseline), "candidate": set(candidate)}
    return [
        record(episode, turn, arm, class_ if turn in bad[arm] else "ok")
        for turn in range(TURNS)
        for arm in ("baseline", "candidate")
    ]


def fed(watching: Decider, records: Iterable[Record], used_s: float = 0.0) -> Decision | None:
    """The first decision the records bring."""
    return next((found for one in records if (found := watching.take(one, used_s)) is not None), None)


def test_a_run_of_losses_is_a_regression_as_soon_as_the_bar_is_reached() -> None:
    """Nine conversations in which only the candidate loops decide, and the sentence has counts, evidence and bar."""
    watching = decider()
    found = fed(watching, (one for i in range(20) for one in conversation(i, candidate=[3])))
    assert (found.outcome, found.class_) == ("regression", LOOP)
    assert found.text.startswith("decided, regression: garbage loops 0 → ")
    assert "20 decides" in found.text
    assert watching.e_values()[LOOP] >= 20
    assert watching.decision == found


def test_a_decision_is_told_once() -> None:
    """After it, further records bring none."""
    watching = decider()
    records = [one for i in range(40) for one in conversation(i, baseline=[1])]
    assert fed(watching, records[:800]) is not None or fed(watching, records[800:]) is not None
    assert fed(watching, [one for i in range(50, 90) for one in conversation(i, baseline=[1])]) is None
    assert watching.decision.outcome == "improvement"


def test_an_unfinished_conversation_counts_nothing() -> None:
    """Evidence waits until both arms have ended every turn, and a turn broken off is not an end."""
    watching = decider()
    records = conversation(0, candidate=range(TURNS))
    assert fed(watching, records[:-1]) is None
    assert fed(watching, [record(0, 9, "candidate", None, "indeterminate")]) is None
    assert watching.e_values()[LOOP] == pytest.approx(1.0)
    fed(watching, [*records[-1:], *conversation(1, candidate=range(TURNS))])
    assert watching.e_values()[LOOP] > 1.2  # the first alone always gives 1: a difference or its mirror image


def test_ten_loops_in_one_conversation_are_one_piece_of_evidence() -> None:
    """A conversation that goes wrong in one arm from end to end does not decide."""
    watching = decider()
    assert fed(watching, conversation(0, candidate=range(TURNS))) is None
    assert watching.e_values()[LOOP] <= 2


def test_skipped_turns_end_a_conversation_and_make_no_pair() -> None:
    """A turn that did not fit one arm is counted in neither."""
    watching = decider(turns=None)
    records = [one for one in conversation(0, baseline=[9]) if not (one.key.turn == 9 and one.key.arm == "candidate")]
    fed(watching, [*records, record(0, 9, "candidate", None, "skipped")])
    assert watching.e_values()[LOOP] == pytest.approx(1.0)


def test_what_the_budget_cannot_decide_is_said_with_the_turns_it_would_take() -> None:
    """Seven against six failures in half the budget: given up, with the turns needed and those allowed."""
    watching = decider(turns=400)
    marks = [{"baseline": [1]} if i % 3 == 0 else {"candidate": [2]} if i % 3 == 1 else {} for i in range(20)]
    found = fed(watching, (one for i, mark in enumerate(marks) for one in conversation(i, **mark)))
    assert found.outcome == "undecidable"
    assert found.text.startswith("no decision possible within the budget: garbage loops ")
    assert "turns per arm are needed, the budget allows 400" in found.text or "alike so far" in found.text


def test_a_budget_in_time_is_reckoned_at_the_pace_so_far() -> None:
    """With an hour used for 100 pairs, two hours allow 200; with a minute used, nothing is given up yet."""
    watching = decider(turns=None, seconds=7200.0)
    found = fed(watching, (one for i in range(10) for one in conversation(i)), used_s=3600.0)
    assert found.outcome == "undecidable"
    assert "alike so far" in found.text
    assert (
        fed(decider(turns=None, seconds=7200.0), (one for i in range(10) for one in conversation(i)), used_s=6.0)
        is None
    )
    assert fed(decider(turns=None), (one for i in range(10) for one in conversation(i)), used_s=6.0) is None


def test_a_stated_margin_lets_a_clean_run_end() -> None:
    """Without any loop a margin of 2 % is met after some 500 turns; without a margin the same run is given up."""
    clean = [one for i in range(100) for one in conversation(i)]
    found = fed(decider(Decide(margin=0.02), turns=1000), clean)
    assert found.outcome == "equivalent"
    assert "within 2.0 %" in found.text
    assert fed(decider(Decide(), turns=1000), clean).outcome == "undecidable"


def test_several_classes_share_the_error_rate() -> None:
    """Two classes double the bar; a loss in the second ends the run, a gain in the second does not."""
    both = Decide(classes=(LOOP, "early_stop"))
    assert decider(both).bar == 40.0
    worse = (one for i in range(30) for one in conversation(i, candidate=[3], class_="early_stop"))
    assert fed(decider(both), worse).outcome == "regression"
    better = (one for i in range(30) for one in conversation(i, baseline=[3], class_="early_stop"))
    assert fed(decider(both, turns=None), better) is None


def test_other_arms_are_none_of_its_business() -> None:
    """A record of an arm it was not told about changes nothing."""
    watching = decider()
    assert watching.take(record(0, 0, "third", LOOP)) is None
    assert watching.e_values()[LOOP] == pytest.approx(1.0)
