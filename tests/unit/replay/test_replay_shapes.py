"""Load shapes against a real server: what is sent, what is recorded, and that nobody waits for ever."""

import itertools
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fakes import Answer, Ask, FakeEngine, FakeServer, Script, one, stream
from fakes.canaries import WORD, Leaking
from rigs.replaying import Rig, conversation, paced, scenario, watched

from soak.facts import (
    Abort,
    Budget,
    EngineSample,
    IdleGaps,
    Load,
    Overlap,
    Pressure,
    Sampling,
    Staggered,
    TurnKey,
)
from soak.plan import marked_at
from soak.replay import PressureGauge


def text_of_request(body: dict[str, Any]) -> str:
    return "".join(f"{message['role']}:{message['content']}" for message in body["messages"])


def rig_of(path: Path, load: Load, turns: tuple[int, ...] = (4, 4, 4), **changes: Any) -> Rig:
    arms = changes.pop("arms", ("candidate",))
    return Rig(
        path / "run",
        scenario(load=load, **changes),
        [conversation(f"e{i}", count) for i, count in enumerate(turns)],
        arms,
    )


async def test_siblings_share_a_prefix_begin_together_and_go_on(tmp_path: Path) -> None:
    """Four siblings send one prefix up to the branch, are in flight at once, and differ in all they send after it."""
    rig = rig_of(tmp_path, Load(in_flight=4, overlap=Overlap(siblings=4, depth=0.5)), turns=(6,))
    server, watch = watched(paced(one("none"), 0.05))
    async with server:
        await rig.sit({"candidate": server})
        sent = [text_of_request(request.body or {}) for request in server.chats]
    rig.assert_all_done()
    firsts = sent[:4]
    assert watch.most == 4
    shared = min(firsts, key=len)
    assert all(text.startswith(shared) for text in firsts), "sibling 0 is the transcript itself"
    assert len(set(sent)) == len(sent) == 4 * 3
    keys = set(rig.final())
    assert {key.turn for key in keys} == {3, 4, 5}
    assert {key.pass_ for key in keys} == {0, 1, 2, 3}


async def test_siblings_keep_their_shared_prefix_where_words_are_told(tmp_path: Path) -> None:
    """With canaries each sibling is told its word behind the prefix they share, never within it."""
    rig = rig_of(tmp_path, Load(in_flight=3, overlap=Overlap(siblings=3)), turns=(4,), canaries=True)
    async with FakeServer() as server:
        await rig.sit({"candidate": server})
        sent = [text_of_request(request.body or {}) for request in server.chats]
    assert len({WORD.findall(text)[0] for text in sent}) == 3
    original = "".join(f"{m.role}:{m.content}" for m in rig.episodes[0].prefix(rig.episodes[0].turns[2]))
    assert all(text.startswith(original) for text in sent)


async def test_every_prompt_ends_at_its_place_beside_a_block(tmp_path: Path) -> None:
    """Each staggered prompt has whole blocks plus one of the offsets in tokens, and goes on from the one before it."""
    load = Load(in_flight=2, staggered=Staggered(block_tokens=32, offsets=(-1, 0, 2), together=2))
    rig = rig_of(tmp_path, load)
    engine = FakeEngine()
    async with FakeServer(engine=engine) as server:
        await rig.sit({"candidate": server})
        lengths = [engine.count(request.body or {}) % 32 for request in server.chats]
        bodies = {request.headers["x-session-id"]: [] for request in server.chats}
        for request in server.chats:
            bodies[request.headers["x-session-id"]].append((request.body or {})["messages"])
    rig.assert_all_done()
    assert len(lengths) == 12
    assert set(lengths) <= {31, 0, 2}
    assert len(set(lengths)) > 1
    for prompts in bodies.values():
        for before, after in itertools.pairwise(prompts):
            assert after[: len(before)] == before


async def test_both_arms_are_sent_the_same_padding(tmp_path: Path) -> None:
    """Two arms that count tokens differently still get the very same requests."""
    load = Load(in_flight=2, staggered=Staggered(together=2))
    rig = rig_of(tmp_path, load, arms=("a", "b"))
    async with FakeServer(engine=FakeEngine()) as one_, FakeServer(engine=FakeEngine(tokenize=False)) as other:
        await rig.sit({"a": one_, "b": other})
    requests: dict[tuple[str, int, int], set[str]] = defaultdict(set)
    for started in rig.starts():
        requests[started.key.pair].add(started.request)
    assert len(requests) == 12
    assert all(len(digests) == 1 for digests in requests.values())


async def test_prefills_are_released_together_and_the_last_ones_are_not_held(tmp_path: Path) -> None:
    """Turns leave four at a time while four conversations are open, and the rest leaves when no more can come."""
    load = Load(in_flight=4, staggered=Staggered(together=4))
    rig = rig_of(tmp_path, load, turns=(3, 3, 3, 3, 2))
    server, watch = watched(paced(one("none"), 0.03))
    async with server:
        await rig.sit({"candidate": server})
    rig.assert_all_done()
    assert watch.most == 4
    assert rig.ear.most_in_flight == 4


async def test_marked_turns_are_closed_where_the_plan_says_and_are_in_no_class(tmp_path: Path) -> None:
    """A marked stream is hung up on after its characters and recorded as aborted by us; no other one is."""
    load = Load(in_flight=3, abort=Abort(share=0.5, min_chars=20, max_chars=60))
    rig = rig_of(tmp_path, load, turns=(5, 5, 5), sampling=Sampling(max_tokens=400))
    async with FakeServer(long_and_slow) as server:
        await rig.sit({"candidate": server})
        hung_up = sum(request.hung_up for request in server.chats)
    rig.assert_all_done()
    marked = {key for key in rig.final() if is_marked(rig, key)}
    assert 3 <= len(marked) <= 12
    for key, record in rig.final().items():
        assert (record.outcome == "aborted") == (key in marked)
        if key in marked:
            assert record.observation is not None
            assert record.observation.ending == "aborted"
            assert record.observation.censored
            assert record.judgement is None
            assert "as planned" in (record.reason or "")
            assert len(record.observation.content) < 200
    assert hung_up == len(marked)


def long_and_slow(ask: Ask) -> Script:
    """Answer at length, a few characters at a time."""
    return stream(Answer(content="word and word again " * 40), replace(ask, gap_s=0.002))


def is_marked(rig: Rig, key: TurnKey) -> bool:
    (one_,) = (c for c in rig.plan.conversations() if (c.episode.id, c.pass_) == (key.episode, key.pass_))
    return marked_at(rig.scenario, one_, key.turn) is not None


async def test_a_marked_turn_that_ends_before_is_no_evidence_either(tmp_path: Path) -> None:
    """Short answers to marked turns get no class: those that are closed would have been the longest."""
    load = Load(in_flight=2, abort=Abort(share=0.5, min_chars=5000, max_chars=6000))
    rig = rig_of(tmp_path, load)
    async with FakeServer() as server:
        await rig.sit({"candidate": server})
    outcomes = rig.outcomes()
    assert outcomes["aborted"] == sum(is_marked(rig, key) for key in rig.final())
    assert outcomes["aborted"] + outcomes["finished"] == 12
    reasons = {record.reason for record in rig.final().values() if record.outcome == "aborted"}
    assert all("it ended before (complete)" in (reason or "") for reason in reasons)


async def test_a_foreign_word_in_a_marked_turn_is_proof_all_the_same(tmp_path: Path) -> None:
    """A marked turn whose answer holds another's word is an error; marked turns without one stay aborted."""
    load = Load(in_flight=2, abort=Abort(share=0.5, min_chars=3000, max_chars=3000))
    rig = rig_of(tmp_path, load, canaries=True)
    leaking = Leaking(one("none"), share=0.5)
    async with FakeServer(leaking) as server:
        await rig.sit({"candidate": server})
        leaks = {row.seed for row in server.truth if row.fault == "leak"}
    seeds = {started.key: started.seed for started in rig.starts()}
    marked = {key: record for key, record in rig.final().items() if is_marked(rig, key)}
    assert {record.outcome for record in marked.values()} == {"finished", "aborted"}
    for key, record in rig.final().items():
        if seeds[key] in leaks:
            assert record.judgement is not None
            assert (record.judgement.class_, record.judgement.findings[0].kind) == ("error", "contamination")
        elif key in marked:
            assert record.outcome == "aborted"
        else:
            assert record.judgement is not None
            assert record.judgement.class_ == "ok"


async def test_nothing_is_in_flight_during_an_idle_gap_and_then_all_goes_on_at_once(tmp_path: Path) -> None:
    """While the gap lasts no turn runs; its length is the plan's; afterwards every conversation is in flight again."""
    load = Load(in_flight=4, idle_gaps=IdleGaps(every_turns=8, min_s=60, max_s=120))
    rig = rig_of(tmp_path, load, turns=(6, 6, 6, 6))
    quiet: list[int] = []

    def idle() -> bool:
        resting = any(60 <= slept <= 120 for slept in rig.clock.slept)
        if resting and not rig.ear.in_flight:
            quiet.append(len(rig.ear.records))
            return True
        return False

    server, watch = watched(paced(one("none"), 0.01))
    async with server:
        await rig.sit({"candidate": server}, idle=idle)
    rig.assert_all_done()
    assert [slept for slept in rig.clock.slept if 60 <= slept <= 120]
    assert quiet
    assert watch.most == 4


@pytest.mark.parametrize(
    "load",
    [
        Load(in_flight=4, overlap=Overlap(siblings=4), staggered=Staggered(together=4), abort=Abort(share=0.3)),
        Load(in_flight=3, overlap=Overlap(siblings=2), staggered=Staggered(together=3)),
        Load(
            in_flight=5, shape="arrival", rate_per_min=1e6, overlap=Overlap(siblings=5), staggered=Staggered(together=2)
        ),
    ],
    ids=["all of one size", "odd sizes", "arrival"],
)
async def test_shapes_combine_on_two_arms_without_waiting_for_ever(tmp_path: Path, load: Load) -> None:
    """Siblings, barriers and aborts together come to the end of the plan on both arms, words told."""
    rig = rig_of(tmp_path, load, turns=(3, 2, 4, 1), arms=("a", "b"), canaries=True, budget=Budget(passes=2))
    async with FakeServer() as first, FakeServer() as second:
        await rig.sit({"a": first, "b": second}, idle=lambda: load.shape == "arrival", within_s=30)
    rig.assert_all_done()


async def test_a_drained_run_with_every_shape_ends_and_can_be_gone_on_with(tmp_path: Path) -> None:
    """Draining lets everyone go who waits for company or in a gap; the next sitting does exactly the rest."""
    load = Load(
        in_flight=3,
        overlap=Overlap(siblings=3),
        staggered=Staggered(together=3),
        abort=Abort(share=0.3),
        idle_gaps=IdleGaps(every_turns=4, min_s=5, max_s=6),
    )
    rig = rig_of(tmp_path, load, turns=(6, 6), canaries=True)
    async with FakeServer() as server:
        rig.ear.on_end = lambda _: rig.switch.drain("interrupt") if len(rig.ear.records) == 4 else None
        await rig.sit({"candidate": server}, within_s=20)
        rig.assert_one_end_each()
        assert len(rig.final()) < 18
        await rig.sit({"candidate": server}, idle=lambda: not rig.ear.in_flight, within_s=20)
    rig.assert_all_done()


async def test_workers_that_pressure_never_lets_in_do_not_hold_the_end_up(tmp_path: Path) -> None:
    """Once pressure is held and the plan is done, the run ends though most of the cap was never used."""
    load = Load(in_flight=2, pressure=Pressure(cap=50, every_s=1e6))
    rig = rig_of(tmp_path, load)
    async with FakeServer() as server:
        await rig.sit({"candidate": server}, idle=lambda: len(rig.ear.records) == 12, within_s=20)
    rig.assert_all_done()
    assert rig.ear.most_in_flight <= 2


def reading(value: float | None, arm: str = "a") -> EngineSample:
    return EngineSample(arm=arm, at=0.0, preemptions=value)


def test_pressure_rises_until_every_arm_has_preempted_and_then_stays() -> None:
    """In flight rises by the step up to the cap, and is held from the moment all counters have moved."""
    gauge = PressureGauge(Load(in_flight=2), Pressure(cap=20, step=3, every_s=10), ("a", "b"))
    assert [gauge.allowed(s) for s in (0, 9, 10, 35)] == [2, 2, 5, 11]
    for sample in (reading(5), reading(5, "b"), reading(7), reading(5, "b")):
        gauge.take(sample)
    assert gauge.allowed(40) == 14
    gauge.take(reading(6, "b"))
    assert [gauge.allowed(s) for s in (50, 500)] == [14, 14]
    assert gauge.said().startswith("pressure: preemption seen (a 2, b 1) with at most 14 conversations in flight")


@pytest.mark.parametrize(
    ("samples", "said"),
    [
        ([reading(3), reading(3)], "no preemption seen on a with at most 8 conversations in flight (the cap is 8)"),
        ([reading(None)], "a: no counter of preemptions was read"),
        ([reading(3), reading(0), reading(0)], "no preemption seen on a"),
    ],
    ids=["none", "no counter", "restarted"],
)
def test_pressure_says_plainly_that_no_preemption_was_seen(samples: list[EngineSample], said: str) -> None:
    """At the cap without a moved counter the sentence says so; a restarted engine's lower counter is no preemption."""
    gauge = PressureGauge(Load(in_flight=2), Pressure(cap=8, step=3, every_s=1), ("a",))
    for sample in samples:
        gauge.take(sample)
    assert gauge.allowed(1000) == 8
    assert said in gauge.said()
