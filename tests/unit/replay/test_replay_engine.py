"""The engine loop on real servers: order, flight, pairs, budgets, load shapes, and how a run ends."""

import asyncio
import itertools
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest
from fakes import Answer, Ask, FakeServer, Script, Truth, Until, one, stream
from rigs.replaying import JumpClock, Rig, conversation, paced, scenario, until, watched

from soak.errors import RunFolderError
from soak.facts import Budget, Load, ThinkTime, TurnKey
from soak.plan import arrivals, in_flight_at


def held(event: str = "go") -> Callable[[Ask], Script]:
    """Return a policy whose answers wait for the test to set `event`."""

    def policy(ask: Ask) -> Script:
        script = stream(Answer(content="All tests pass now."), ask, truth=Truth("none", "ok"))
        return Script([Until(event), *script.steps], finish="stop")

    return policy


async def test_turns_of_one_conversation_go_in_order(tmp_path: Path) -> None:
    """Each conversation's turns are started in order, each after the end of the one before it."""
    rig = Rig(tmp_path / "run", scenario(), [conversation(name, 5) for name in "abcd"])
    ended: set[TurnKey] = set()
    rig.ear.on_end = lambda record: ended.add(record.key)

    def starts(key: TurnKey) -> None:
        earlier = {TurnKey(episode=key.episode, turn=turn, pass_=0, arm=key.arm) for turn in range(key.turn)}
        assert earlier <= ended

    rig.ear.on_start = starts
    async with FakeServer(paced(one("none"), 0.005)) as server:
        await rig.sit({"candidate": server})
    rig.assert_all_done()
    turns = defaultdict(list)
    for started in rig.starts():
        turns[started.key.episode].append(started.key.turn)
    assert all(order == [0, 1, 2, 3, 4] for order in turns.values())


@pytest.mark.parametrize("in_flight", [1, 3, 8])
async def test_no_more_in_flight_than_asked_for(tmp_path: Path, in_flight: int) -> None:
    """The server never sees more than N requests at once, and sees N where there are N conversations."""
    server, watching = watched(paced(one("none"), 0.02))
    rig = Rig(tmp_path / "run", scenario(load=Load(in_flight=in_flight)), [conversation(f"e{i}", 3) for i in range(9)])
    async with server:
        await rig.sit({"candidate": server})
    rig.assert_all_done()
    assert watching.most == rig.ear.most_in_flight == in_flight


async def test_a_turn_budget_is_met_exactly(tmp_path: Path) -> None:
    """A budget of turns sends exactly that many, over as many passes as it takes, and resume adds none."""
    rig = Rig(tmp_path / "run", scenario(budget=Budget(turns=17)), [conversation(name, 5) for name in "ab"])
    async with FakeServer() as server:
        switch = await rig.sit({"candidate": server})
        assert switch.reason is None
        assert rig.outcomes() == {"finished": 17}
        rig.assert_all_done()
        await rig.sit({"candidate": server})
    assert len(rig.starts()) == 17


async def test_two_arms_get_the_same_request_ab_and_ba(tmp_path: Path) -> None:
    """Both arms get the same body and seed for each turn; which comes first alternates along each conversation."""
    rig = Rig(tmp_path / "run", scenario(salt="pass"), [conversation(name, 4) for name in "abc"], ("base", "fix"))
    async with FakeServer() as base, FakeServer() as fix:
        await rig.sit({"base": base, "fix": fix})
        bodies = [
            {request.body["seed"]: request.body for request in server.chats if request.body} for server in (base, fix)
        ]
    rig.assert_all_done()
    assert bodies[0] == bodies[1]
    assert len(bodies[0]) == 12
    seeds = defaultdict(set)
    first = defaultdict(dict)
    for started in rig.starts():
        seeds[started.key.pair].add((started.seed, started.request, started.prefix))
        first[started.key.episode].setdefault(started.key.turn, started.key.arm)
    assert all(len(of_pair) == 1 for of_pair in seeds.values())
    for order in first.values():
        assert all(order[turn] != order[turn + 1] for turn in range(3))
    firsts = [arm for order in first.values() for arm in order.values()]
    assert firsts.count("base") == firsts.count("fix") == 6


async def test_a_pair_that_has_begun_is_completed_on_drain(tmp_path: Path) -> None:
    """Draining between the two arms of a turn still sends the second; no further pair begins."""
    rig = Rig(tmp_path / "run", scenario(load=Load(in_flight=2)), [conversation(name, 6) for name in "ab"], ("x", "y"))

    def drain(key: TurnKey) -> None:
        if len(rig.ear.began) == 5:
            rig.switch.drain("interrupt")

    rig.ear.on_start = drain
    async with FakeServer(paced(one("none"), 0.01)) as x, FakeServer(paced(one("none"), 0.01)) as y:
        switch = await rig.sit({"x": x, "y": y})
        assert switch.reason == "interrupt"
        rig.assert_one_end_each()
        arms = defaultdict(set)
        for key in rig.final():
            arms[key.pair].add(key.arm)
        assert all(both == {"x", "y"} for both in arms.values())
        assert len(arms) < 12
        await rig.sit({"x": x, "y": y})
    rig.assert_all_done()


async def test_five_hours_loop_the_corpus_and_end(tmp_path: Path) -> None:
    """`--hours 5` with turns of two minutes: passes are looped until five hours are used, then it ends."""
    rig = Rig(tmp_path / "run", scenario(budget=Budget(hours=5.0)), [conversation(name, 5) for name in "abcd"])
    rig.ear.on_end = lambda record: rig.clock.advance(120)
    async with FakeServer() as server:
        switch = await rig.sit({"candidate": server})
    assert switch.reason == "budget"
    rig.assert_one_end_each()
    finished = rig.outcomes()["finished"]
    assert 150 <= finished <= 156  # 150 and what was begun before the clock's jump was noticed
    assert max(key.pass_ for key in rig.final()) >= 7
    ((used_s,),) = rig.rows("SELECT max(active_s) FROM ticks")
    assert 18_000 <= used_s <= 18_000 + 6 * 120


async def test_used_time_counts_over_sittings(tmp_path: Path) -> None:
    """A run broken off after two of its five hours goes on for three; with all time used nothing more is sent."""
    alone = scenario(budget=Budget(hours=5.0), load=Load(in_flight=1))
    rig = Rig(tmp_path / "run", alone, [conversation("a", 5)])

    def two_minutes(record: object) -> None:
        rig.clock.advance(120)
        if len(rig.ear.records) == 60:
            rig.switch.drain("interrupt")

    rig.ear.on_end = two_minutes
    async with FakeServer() as server:
        assert (await rig.sit({"candidate": server})).reason == "interrupt"
        rig.clock.advance(36_000)  # the night in between is not used up
        assert (await rig.sit({"candidate": server})).reason == "budget"
        sent = len(rig.starts())
        assert 150 <= sent <= 151
        assert (await rig.sit({"candidate": server})).reason == "budget"
    assert len(rig.starts()) == sent


async def test_a_corpus_of_which_nothing_fits_ends(tmp_path: Path) -> None:
    """With hours to go and every prefix too long, one pass is skipped with its reasons and the run ends."""
    server = FakeServer()
    server.engine.context_tokens = 24
    rig = Rig(tmp_path / "run", scenario(budget=Budget(hours=5.0)), [conversation(name, 3) for name in "abc"])
    async with server:
        switch = await rig.sit({"candidate": server})
    assert switch.reason == "nothing_fits"
    assert "nothing_fits" in rig.ear.kinds
    assert set(rig.outcomes()) == {"skipped"}
    assert not server.chats


async def test_a_bounded_plan_of_which_nothing_fits_is_skipped_whole(tmp_path: Path) -> None:
    """With three passes planned every turn of all three is skipped and counted: nothing is silently not reached."""
    server = FakeServer()
    server.engine.context_tokens = 24
    rig = Rig(tmp_path / "run", scenario(budget=Budget(passes=3)), [conversation(name, 3) for name in "ab"])
    async with server:
        switch = await rig.sit({"candidate": server})
    assert switch.reason is None
    assert rig.outcomes() == {"skipped": 18}
    rig.assert_all_done()


async def test_leftovers_that_do_not_fit_do_not_end_a_resumed_run(tmp_path: Path) -> None:
    """Resuming where only too long turns of a pass are left goes on with the next pass."""
    server = FakeServer()
    server.engine.context_tokens = 400
    rig = Rig(tmp_path / "run", scenario(budget=Budget(hours=1.0)), [conversation("a", 4, size=900)])

    def broken_off(key: TurnKey) -> None:
        rig.switch.drain("interrupt")

    rig.ear.on_start = broken_off
    async with server:
        assert (await rig.sit({"candidate": server})).reason == "interrupt"
        assert len(rig.final()) < 4
        rig.ear.on_start = lambda key: None
        rig.ear.on_end = lambda record: rig.clock.advance(300)
        switch = await rig.sit({"candidate": server})
    assert switch.reason == "budget"
    assert max(key.pass_ for key in rig.final()) >= 2


async def test_think_time_is_waited_before_every_turn_but_the_first(tmp_path: Path) -> None:
    """A fixed pause comes before turns 1, 2, … of each conversation, a recorded one is cut at its limit."""
    for think, pause in (
        (ThinkTime(mode="fixed", fixed_s=7.0), 7.0),
        (ThinkTime(mode="recorded", max_s=20.0), 13.0),
        (ThinkTime(mode="recorded", max_s=5.0), 5.0),
    ):
        episodes = [conversation(name, 3, wait_s=13.0) for name in "ab"]
        rig = Rig(tmp_path / f"{think.mode}{pause}", scenario(think_time=think), episodes)
        began: dict[TurnKey, float] = {}
        rig.ear.on_start = lambda key, began=began, rig=rig: began.setdefault(key, rig.clock.now())
        async with FakeServer() as server:
            await rig.sit({"candidate": server}, idle=lambda rig=rig: not rig.ear.in_flight)
        rig.assert_all_done()
        assert rig.clock.slept.count(pause) == 4
        for key, at in began.items():
            if key.turn:
                before = TurnKey(episode=key.episode, turn=key.turn - 1, pass_=0, arm=key.arm)
                assert at - began[before] >= pause


async def test_draining_does_not_wait_for_think_time(tmp_path: Path) -> None:
    """A conversation that pauses when the run drains sends nothing more."""
    think = ThinkTime(mode="fixed", fixed_s=3600.0)
    rig = Rig(tmp_path / "run", scenario(think_time=think), [conversation("a", 3)])

    async def drain() -> None:
        await until(lambda: 3600.0 in rig.clock.slept)
        rig.switch.drain("interrupt")

    async with FakeServer() as server:
        await rig.sit({"candidate": server}, meanwhile=drain)
    assert rig.outcomes() == {"finished": 1}


async def test_conversations_arrive_at_the_planned_moments(tmp_path: Path) -> None:
    """With an arrival rate each conversation starts at its moment of the seeded Poisson process."""
    load = Load(shape="arrival", rate_per_min=4.0, in_flight=50)
    rig = Rig(tmp_path / "run", scenario(load=load), [conversation(f"e{i}", 1) for i in range(8)])
    planned = list(itertools.islice(arrivals(load, rig.scenario.seed), 8))
    began: list[float] = []
    rig.ear.on_start = lambda key: began.append(rig.clock.now() - 1000.0)

    async def from_moment_to_moment() -> None:
        for number, moment in enumerate(planned, start=1):
            rig.clock.advance(1000.0 + moment - rig.clock.now())
            await until(lambda number=number: len(rig.ear.records) == number)

    async with FakeServer() as server:
        await rig.sit({"candidate": server}, meanwhile=from_moment_to_moment)
    rig.assert_all_done()
    assert began == pytest.approx(planned, abs=1e-6)


async def test_arrivals_keep_to_the_limit_in_flight(tmp_path: Path) -> None:
    """Arrivals beyond `in_flight` wait until a conversation ends."""
    load = Load(shape="arrival", rate_per_min=60.0, in_flight=2)
    rig = Rig(tmp_path / "run", scenario(load=load), [conversation(f"e{i}", 1) for i in range(6)])

    async def let_go() -> None:
        rig.clock.advance(600)
        await until(lambda: server.engine.running == 2)
        rig.clock.advance(600)
        await asyncio.sleep(0.05)
        assert server.engine.running == 2
        server.event("go").set()

    async with FakeServer(held()) as server:
        await rig.sit({"candidate": server}, meanwhile=let_go, idle=lambda: server.event("go").is_set())
    rig.assert_all_done()
    assert rig.ear.most_in_flight == 2


async def test_a_ramp_rises_as_planned(tmp_path: Path) -> None:
    """A ramp from 1 to 5 in 100 s never has more in flight than its line allows, and reaches 5."""
    load = Load(shape="ramp", from_in_flight=1, in_flight=5, over_s=100.0)
    rig = Rig(tmp_path / "run", scenario(load=load), [conversation(f"e{i}", 1) for i in range(9)])
    seen: list[int] = []

    async def climb() -> None:
        for second in range(0, 101, 5):
            allowed = in_flight_at(load, float(second))
            await until(lambda allowed=allowed: server.engine.running == allowed)
            seen.append(server.engine.running)
            for _ in range(5):
                rig.clock.advance(1.0)
                await asyncio.sleep(0.002)
        server.event("go").set()

    async with FakeServer(held()) as server:
        await rig.sit({"candidate": server}, meanwhile=climb)
    rig.assert_all_done()
    assert seen[0] == 1
    assert seen[-1] == 5
    assert seen == sorted(seen)


async def test_a_threshold_drains_the_run(tmp_path: Path) -> None:
    """When `stop_if` speaks, the reason is told, no new turn begins, and the run ends as stopped by a threshold."""
    rig = Rig(tmp_path / "run", scenario(load=Load(in_flight=1)), [conversation("a", 9)])
    async with FakeServer(one("no_finish")) as server:
        switch = await rig.sit(
            {"candidate": server}, stop_if=lambda record: "three are enough" if len(rig.ear.records) >= 3 else None
        )
    assert switch.reason == "threshold"
    assert ("threshold", "three are enough", "candidate") in rig.ear.told
    assert rig.classes() == {"error": 3}


async def test_the_drain_limit_breaks_off_what_is_in_flight(tmp_path: Path) -> None:
    """Turns that outlive `drain_s` are cancelled and close as indeterminate; the server sees the hang-up."""
    rig = Rig(tmp_path / "run", scenario(drain_s=30.0), [conversation(name, 2) for name in "abc"])

    async def drain() -> None:
        await until(lambda: server.engine.running == 3)
        rig.switch.drain("interrupt")
        await asyncio.sleep(0.02)
        rig.clock.advance(29.0)
        await asyncio.sleep(0.05)
        assert server.engine.running == 3
        rig.clock.advance(1.5)

    async with FakeServer(one("silent_middle")) as server:
        await rig.sit({"candidate": server}, meanwhile=drain)
        await until(lambda: sum(request.hung_up for request in server.chats) == 3)
    assert rig.outcomes() == {"indeterminate": 3}
    rig.assert_one_end_each()


async def test_a_stop_cancels_at_once(tmp_path: Path) -> None:
    """`stop` breaks off what is in flight without waiting for the clock, and resume does all of it."""
    rig = Rig(tmp_path / "run", scenario(), [conversation(name, 2) for name in "abc"])

    async def stop() -> None:
        await until(lambda: server.engine.running == 3)
        rig.switch.stop("interrupt")

    async with FakeServer(one("silent_first")) as server:
        await rig.sit({"candidate": server}, meanwhile=stop)
        assert rig.outcomes() == {"indeterminate": 3}
        server.policy = one("none")
        await rig.sit({"candidate": server})
    rig.assert_all_done()
    assert sorted(started.start for started in rig.starts()) == [0] * 6 + [1] * 3


async def test_a_history_that_cannot_be_written_ends_the_run(tmp_path: Path) -> None:
    """When the ledger fails, the run ends with that error, and turns in flight are cancelled."""
    rig = Rig(tmp_path / "run", scenario(), [conversation(name, 50) for name in "abc"])

    def full(record: object) -> None:
        if len(rig.ear.records) == 10:
            rig.rows("CREATE TRIGGER full BEFORE INSERT ON ends BEGIN SELECT RAISE(ABORT, 'no space left'); END")

    rig.ear.on_end = full
    async with FakeServer() as server:
        with pytest.raises(RunFolderError, match="cannot write"):
            await rig.sit({"candidate": server})
    assert len(rig.ear.records) < 150


async def test_a_signal_is_told_while_the_answer_streams(tmp_path: Path) -> None:
    """A loop is noticed in mid-stream and told to the listener; the stream is not cut."""
    settings = scenario(sampling=type(scenario().sampling)(max_tokens=1500))
    rig = Rig(tmp_path / "run", settings, [conversation("a", 1)])
    async with FakeServer(one("loop")) as server:
        await rig.sit({"candidate": server})
    assert rig.classes() == {"garbage_loop": 1}
    assert rig.ear.signals
    (record,) = rig.final().values()
    assert record.observation is not None
    assert record.observation.ending == "complete"


async def test_the_jumping_clock_wakes_in_order() -> None:
    """The tests' own clock wakes sleepers in the order of their moments and not before them."""
    clock, woken = JumpClock(), []

    async def sleeper(seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append(seconds)

    tasks = [asyncio.create_task(sleeper(seconds)) for seconds in (3.0, 1.0, 2.0)]
    await asyncio.sleep(0)
    clock.advance(0.5)
    await asyncio.sleep(0)
    assert woken == []
    clock.advance(2.5)
    await asyncio.gather(*tasks)
    assert sorted(woken) == [1.0, 2.0, 3.0]
