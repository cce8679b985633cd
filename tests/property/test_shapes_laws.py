"""Whatever the shapes: a plan is a pure function, done + remaining = plan, and a word is found however it is cut."""

import asyncio
import itertools
import tempfile
from pathlib import Path

from fakes import FakeServer, seeded_policy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rigs.planned import turn_keys
from rigs.replaying import Rig, conversation, scenario

from soak.classify.canaries import WordWatch
from soak.facts import (
    Abort,
    Budget,
    Episode,
    IdleGaps,
    Load,
    Message,
    Overlap,
    Sampling,
    Scenario,
    Staggered,
    TurnKey,
    make_episode,
)
from soak.plan import Plan, arm_order, make_plan, marked_at, offset_for, seed_for, word_for


def episode(name: str, turns: int) -> Episode:
    messages = [Message(role="system", content=name)]
    for _ in range(turns):
        messages += [Message(role="user", content="u"), Message(role="assistant", content="a")]
    return make_episode(name, messages)


LOADS = st.builds(
    Load,
    in_flight=st.just(8),
    overlap=st.none()
    | st.builds(Overlap, siblings=st.integers(2, 5), depth=st.floats(0, 1), share=st.sampled_from([0.3, 1.0])),
    staggered=st.none() | st.just(Staggered()),
    abort=st.none() | st.builds(Abort, share=st.sampled_from([0.1, 0.5])),
)
CORPORA = st.lists(st.integers(1, 5), min_size=1, max_size=6)
BUDGETS = st.integers(1, 3).map(lambda n: Budget(passes=n)) | st.integers(1, 40).map(lambda n: Budget(turns=n))


def plan_of(turns: list[int], load: Load, budget: Budget, seed: int, canaries: bool) -> Plan:
    scenario = Scenario(
        name="n", question="q", duration="d", corpus="c", load=load, budget=budget, seed=seed, canaries=canaries
    )
    return make_plan(scenario, [episode(f"e{i}", count) for i, count in enumerate(turns)], ["a", "b"])


PLANS = st.tuples(CORPORA, LOADS, BUDGETS, st.integers(0, 10**6), st.booleans())


@settings(max_examples=60, deadline=None)
@given(PLANS, st.data())
def test_done_plus_remaining_is_the_plan_under_every_shape(
    given_: tuple[list[int], Load, Budget, int, bool], data: st.DataObject
) -> None:
    """For any subset done, what is left is the rest of the plan, each key once and in order; its size is as told."""
    plan = plan_of(*given_)
    every = list(turn_keys(plan))
    done = data.draw(st.sets(st.sampled_from(every)))
    left = [
        key
        for one in plan.conversations(done.__contains__)
        for turn in one.turns
        for arm in arm_order(one, turn, plan.arms)
        if (key := TurnKey(episode=one.episode.id, turn=turn.index, pass_=one.pass_, arm=arm)) not in done
    ]
    assert len(set(every)) == len(every)
    assert left == [key for key in every if key not in done]
    assert plan.size is not None
    assert len(every) == plan.size[0] * 2


@settings(max_examples=40, deadline=None)
@given(PLANS, st.data())
def test_siblings_left_know_how_many_they_are(
    given_: tuple[list[int], Load, Budget, int, bool], data: st.DataObject
) -> None:
    """A conversation never waits for a sibling that has nothing left: groups are as large as they say, in a row."""
    plan = plan_of(*given_)
    done = data.draw(st.sets(st.sampled_from(list(turn_keys(plan)))))
    left = list(plan.conversations(done.__contains__))
    at = 0
    while at < len(left):
        group = left[at : at + left[at].together]
        assert {(one.episode.id, one.trip, one.together) for one in group} == {
            (left[at].episode.id, left[at].trip, len(group))
        }
        at += len(group)


@settings(max_examples=40, deadline=None)
@given(PLANS)
def test_same_seed_same_shapes(given_: tuple[list[int], Load, Budget, int, bool]) -> None:
    """Keys, request seeds, words, marks and places are the same every time they are asked for."""

    def all_of(plan: Plan) -> list[object]:
        staggered, seed = Staggered(), plan.scenario.seed
        return [
            (
                one.pass_,
                one.word,
                one.branch,
                turn.index,
                marked_at(plan.scenario, one, turn.index),
                offset_for(staggered, seed, one.episode.id, turn.index, one.pass_),
                seed_for(seed, TurnKey(episode=one.episode.id, turn=turn.index, pass_=one.pass_, arm="a")),
            )
            for one in plan.conversations()
            for turn in one.turns
        ]

    assert all_of(plan_of(*given_)) == all_of(plan_of(*given_))


BROKEN_OFF = st.lists(st.tuples(st.integers(1, 10), st.sampled_from(["drain", "stop"])), max_size=2)
HEAVY = st.builds(
    Load,
    in_flight=st.integers(3, 5),
    overlap=st.none() | st.builds(Overlap, siblings=st.integers(2, 3), depth=st.floats(0, 1)),
    staggered=st.none() | st.builds(Staggered, together=st.integers(1, 3)),
    abort=st.none() | st.builds(Abort, share=st.just(0.5), max_chars=st.just(40)),
    idle_gaps=st.none() | st.builds(IdleGaps, every_turns=st.integers(2, 6)),
)
FAULTS = {"reset_middle": 0.1, "no_finish": 0.1, "http_429_once": 0.1, "reset_first": 0.05, "empty": 0.1}


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.integers(1, 4), min_size=1, max_size=3), HEAVY, st.integers(1, 2), BROKEN_OFF, st.booleans())
def test_each_start_has_one_end_and_marked_turns_are_never_ok(
    turns: list[int], load: Load, arms: int, breaks: list[tuple[int, str]], canaries: bool
) -> None:
    """Broken off and gone on with under any shapes the plan gets done, and no turn marked for abort has a class."""
    with tempfile.TemporaryDirectory() as folder:
        rig = Rig(
            Path(folder) / "run",
            scenario(load=load, canaries=canaries, sampling=Sampling(max_tokens=200), drain_s=1e6),
            [conversation(f"e{i}", count) for i, count in enumerate(turns)],
            ("a", "b")[:arms],
        )
        asyncio.run(to_its_end(rig, breaks))
        rig.assert_all_done()
        marked = {
            (one.episode.id, turn.index, one.pass_)
            for one in rig.plan.conversations()
            for turn in one.turns
            if marked_at(rig.scenario, one, turn.index) is not None
        }
        for key, record in rig.final().items():
            assert (record.outcome == "aborted") == (key.pair in marked)
            assert (record.judgement is None) == (record.outcome == "aborted")


async def to_its_end(rig: Rig, breaks: list[tuple[int, str]]) -> None:
    """Sit on the run until each break has happened, then to its end, time skipping whenever nothing is in flight."""
    servers = {name: FakeServer(seeded_policy(5, FAULTS, answer_tokens=20)) for name in rig.arms}
    for server in servers.values():
        await server.start()
    try:
        for one in [*breaks, None]:
            seen = 0

            def count(_: object, one: tuple[int, str] | None = one) -> None:
                nonlocal seen
                seen += 1
                if one is not None and seen == one[0]:
                    (rig.switch.drain if one[1] == "drain" else rig.switch.stop)("interrupt")

            rig.ear.on_start = rig.ear.on_end = count
            rig.ear.in_flight.clear()
            await rig.sit(servers, idle=lambda: not rig.ear.in_flight, within_s=20)
            rig.assert_one_end_each()
            for server in servers.values():
                await asyncio.gather(*(asyncio.wait_for(request.done.wait(), 5) for request in server.chats))
    finally:
        for server in servers.values():
            await server.stop()


TEXTS = st.lists(
    st.one_of(
        st.text(alphabet="qzvxabd \n", max_size=12),
        st.integers(0, 5).map(lambda n: word_for(n, "e", n)),
        st.integers(1, 15).map(lambda n: word_for(0, "e", 0)[:n]),
    ),
    max_size=12,
).map("".join)


@settings(max_examples=100, deadline=None)
@given(TEXTS, st.lists(st.integers(0, 200), max_size=20))
def test_any_cutting_finds_the_same_words(text: str, cuts: list[int]) -> None:
    """However a text is cut into pieces, the same words are found at the same places, and all of them."""
    edges = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    watch = WordWatch()
    found = [hit for begin, end in itertools.pairwise(edges) for hit in watch.push(text[begin:end])]
    assert found == WordWatch().push(text)
    for at, word in found:
        assert text[at : at + len(word)] == word
    for n in range(6):
        word = word_for(n, "e", n)
        assert (word in text) == any(hit == word for _, hit in found)
