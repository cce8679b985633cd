"""Load shapes in the plan: names, sizes, words, marks and gaps, and what `--plan` and the manifest say of them."""

import itertools

from soak.facts import (
    RECALL_QUESTION,
    WORD_CHARS,
    WORD_HEAD,
    WORD_LETTERS,
    Abort,
    Budget,
    Episode,
    IdleGaps,
    Load,
    Message,
    Overlap,
    Pressure,
    Scenario,
    Staggered,
    make_episode,
)
from soak.plan import Plan, describe, gaps, make_plan, marked_at, shapes_of, word_for
from soak.report import terminal_plan


def episode(name: str, turns: int) -> Episode:
    messages = [Message(role="system", content=name)]
    for _ in range(turns):
        messages += [Message(role="user", content="u" * 40), Message(role="assistant", content="a" * 40)]
    return make_episode(name, messages)


def plan_of(load: Load | None = None, turns: tuple[int, ...] = (4, 6, 8), **changes: object) -> Plan:
    scenario = Scenario(
        name="n", question="q", duration="d", corpus="c", load=load or Load(), **{"budget": Budget(passes=2), **changes}
    )  # type: ignore[arg-type]
    return make_plan(scenario, [episode(f"e{i}", count) for i, count in enumerate(turns)], ["a", "b"])


def test_siblings_have_pass_numbers_of_their_own() -> None:
    """Three siblings of each episode send its second half, in two passes under pass numbers 0 to 5, side by side."""
    plan = plan_of(Load(overlap=Overlap(siblings=3, depth=0.5)))
    conversations = list(plan.conversations())
    assert [one.pass_ for one in conversations] == [0, 1, 2] * 3 + [3, 4, 5] * 3
    assert all(one.together == 3 for one in conversations)
    for one in conversations:
        assert [turn.index for turn in one.turns] == list(range(len(one.episode.turns) // 2, len(one.episode.turns)))
    assert plan.size == (2 * 3 * (2 + 3 + 4), 2)
    assert [
        [one.episode.id for one in group] for _, group in itertools.groupby(conversations, lambda one: one.trip)
    ] == [[one.id for one in plan.pass_order(trip) for _ in range(3)] for trip in (0, 1)]


def test_only_a_share_of_the_episodes_has_siblings() -> None:
    """Episodes outside the share are gone through once and whole."""
    plan = plan_of(Load(overlap=Overlap(siblings=2, share=0.5)), turns=(4,) * 40)
    branches = [plan.branch(one) for one in plan.episodes]
    assert 8 < sum(branch is None for branch in branches) < 32
    assert all(
        plan.trips(one) == (1 if branch is None else 2) for one, branch in zip(plan.episodes, branches, strict=True)
    )


def test_siblings_keep_one_salt() -> None:
    """A salt that differed between siblings would leave them no prefix to share."""
    plan = plan_of(Load(overlap=Overlap(siblings=3)), salt="conversation")
    salts = {(one.episode.id, one.trip): {one.salt} for one in plan.conversations()}
    for one in plan.conversations():
        assert salts[one.episode.id, one.trip] == {one.salt}
    assert len({one.salt for one in plan.conversations()}) == 6


def test_words_are_unlike_and_look_like_words() -> None:
    """Ten thousand conversations get ten thousand words of the one form that is looked for."""
    words = {word_for(7, f"e{i}", i % 9) for i in range(10_000)}
    assert len(words) == 10_000
    assert all(len(word) == WORD_CHARS and word.startswith(WORD_HEAD) for word in words)
    assert all(WORD_LETTERS.issuperset(word[len(WORD_HEAD) :]) for word in words)
    assert word_for(7, "e", 0) != word_for(8, "e", 0)


def test_half_of_the_episodes_end_in_a_turn_that_asks_for_the_word() -> None:
    """With canaries a seeded half of the episodes has one turn more; without them no episode changes."""
    plan = plan_of(turns=(3,) * 40, canaries=True)
    asking = [one for one in plan.episodes if len(one.turns) == 4]
    assert 8 < len(asking) < 32
    for one in asking:
        last = one.prefix(one.turns[-1])
        assert last[-1].content == RECALL_QUESTION
        assert last[:-1] == (*one.prefix(one.turns[-2]), one.answer(one.turns[-2]))
    assert plan_of(turns=(3,) * 40).episodes == tuple(episode(f"e{i}", 3) for i in range(40))


def test_marks_keep_to_their_share_and_span_and_spare_the_question() -> None:
    """About the share of turns is marked, within the span of characters; a turn that asks for the word never is."""
    plan = plan_of(Load(abort=Abort(share=0.25, min_chars=10, max_chars=20)), turns=(12,) * 40, canaries=True)
    marks = {
        (one.episode.id, one.pass_, turn.index): marked_at(plan.scenario, one, turn.index)
        for one in plan.conversations()
        for turn in one.turns
    }
    found = [mark for mark in marks.values() if mark is not None]
    assert 0.2 < len(found) / len(marks) < 0.3
    assert {min(found), max(found)} == {10, 20}
    assert all(mark is None for (_, _, turn), mark in marks.items() if turn == 12)


def test_gaps_come_in_order_about_as_often_as_asked() -> None:
    """Gaps are half to one and a half times the turns apart and within their span, the same from one seed."""
    idle = IdleGaps(every_turns=10, min_s=2, max_s=4)
    first = list(itertools.islice(gaps(idle, 3), 50))
    apart = [after.after_turns - before.after_turns for before, after in itertools.pairwise(first)]
    assert all(5 <= turns <= 15 for turns in apart)
    assert all(2 <= gap.length_s <= 4 for gap in first)
    assert first == list(itertools.islice(gaps(idle, 3), 50))
    assert first != list(itertools.islice(gaps(idle, 4), 50))


def test_the_plan_says_what_the_load_does() -> None:
    """`--plan` names each shape with its numbers, counted over a pass; without shapes it says nothing of them."""
    load = Load(
        in_flight=4,
        overlap=Overlap(siblings=3),
        staggered=Staggered(offsets=(-1, 0)),
        abort=Abort(share=0.5),
        pressure=Pressure(cap=40),
        idle_gaps=IdleGaps(),
    )
    outline = describe(plan_of(load, canaries=True))
    shapes = outline.shapes
    assert shapes is not None
    assert outline.pass_turns == shapes.pass_turns
    assert outline.turns == 2 * shapes.pass_turns
    assert sum(shapes.offsets.values()) == shapes.pass_turns
    assert 0 < shapes.aborted < shapes.pass_turns
    text = terminal_plan(outline)
    for name in ("overlap: 3 conversations", "staggered:", "abort:", "pressure: from 4", "idle gaps:", "canaries:"):
        assert name in text
    assert shapes_of(plan_of()) is None
    assert "overlap" not in terminal_plan(describe(plan_of()))
