"""Whatever servers do and however a run is broken off: each start has one end, and done + remaining = plan."""

import asyncio
import tempfile
from dataclasses import dataclass
from pathlib import Path

from fakes import FakeServer, seeded_policy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rigs.replaying import Rig, Watching, conversation, scenario

from soak.facts import Budget, Load, Sampling, TurnKey

RATES = {
    **dict.fromkeys(("early_stop", "empty", "max_tokens", "broken_tool_call", "loop_stop"), 0.04),
    **dict.fromkeys(("reset_middle", "close_middle", "error_event", "no_finish", "malformed", "http_500"), 0.05),
    **dict.fromkeys(("http_429_once", "http_503_once", "reset_first_once", "reset_first", "reset_after_finish"), 0.05),
}


@dataclass(frozen=True)
class Break:
    """What breaks a sitting off: after `after` starts or ends, in this way."""

    after: int
    way: str


BREAKS = st.builds(
    Break, after=st.integers(1, 12), way=st.sampled_from(["drain", "stop", "drain, then stop", "cancel", "server dies"])
)


@st.composite
def runs(draw: st.DrawFn) -> tuple[list[int], Load, Budget, int, int, list[Break]]:
    """Draw turns per episode, load, budget, arms, a seed for the servers, and how the run is broken off."""
    turns = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    budget = draw(st.sampled_from([Budget(passes=1), Budget(passes=2), Budget(turns=5)]))
    load = Load(in_flight=draw(st.integers(1, 4)))
    return turns, load, budget, draw(st.integers(1, 2)), draw(st.integers(0, 10**6)), draw(st.lists(BREAKS, max_size=3))


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(runs())
def test_each_start_has_one_end_and_the_plan_is_done(
    run: tuple[list[int], Load, Budget, int, int, list[Break]],
) -> None:
    """Faults, stops, drains, cancellations, dying servers and resumes in any order leave a whole history each time."""
    turns, load, budget, arms, seed, breaks = run
    with tempfile.TemporaryDirectory() as folder:
        rig = Rig(
            Path(folder) / "run",
            scenario(load=load, budget=budget, sampling=Sampling(max_tokens=200), drain_s=1e6),
            [conversation(f"e{i}", count) for i, count in enumerate(turns)],
            ("a", "b")[:arms],
        )
        asyncio.run(broken_off_again_and_again(rig, seed, breaks))


async def broken_off_again_and_again(rig: Rig, seed: int, breaks: list[Break]) -> None:
    """Sit on the run until each break has happened, and then to its end; check the history after each sitting."""
    watches = {name: Watching(seeded_policy(seed, RATES, first_chunk_s=0.001, answer_tokens=20)) for name in rig.arms}
    servers = {name: FakeServer(watch) for name, watch in watches.items()}
    for name, server in servers.items():
        watches[name].server = server
        await server.start()
    try:
        for one in [*breaks, None]:
            await one_sitting(rig, servers, one)
            rig.assert_one_end_each()
            assert_in_order(rig)
            assert rig.ear.most_in_flight <= rig.scenario.load.in_flight
            await asyncio.gather(*(asyncio.wait_for(request.done.wait(), 5) for server in servers.values()
                                   for request in server.chats))  # fmt: skip
        rig.assert_all_done()
    finally:
        for server in servers.values():
            await server.stop()
    if not any(one.way == "server dies" for one in breaks):
        assert all(watch.most <= rig.scenario.load.in_flight for watch in watches.values())


async def one_sitting(rig: Rig, servers: dict[str, FakeServer], one: Break | None) -> None:
    """Sit, and break off as told; the clock skips on whenever the gate waits."""
    seen = 0
    sitting: asyncio.Task[object]
    revivals: list[asyncio.Task[None]] = []

    def count(_: object) -> None:
        nonlocal seen
        seen += 1
        if one is not None and seen == one.after:
            break_off(one.way)

    def break_off(way: str) -> None:
        if way.startswith("drain"):
            rig.switch.drain("interrupt")
        if way.endswith("stop"):
            rig.switch.stop("interrupt")
        if way == "cancel":
            sitting.cancel()
        if way == "server dies":
            revivals.append(asyncio.create_task(die_and_come_back(servers[rig.arms[0]])))

    rig.ear.on_start = rig.ear.on_end = count
    rig.ear.in_flight.clear()
    sitting = asyncio.create_task(rig.sit(servers, idle=lambda: gate_is_shut(rig)))
    try:
        await sitting
    except asyncio.CancelledError:
        assert one is not None
        assert one.way == "cancel"
    finally:
        rig.ear.told.clear()
        await asyncio.gather(*revivals)


def gate_is_shut(rig: Rig) -> bool:
    """Return whether a server is down and not yet back."""
    return rig.ear.kinds.count("server_down") > rig.ear.kinds.count("server_back")


async def die_and_come_back(server: FakeServer) -> None:
    """Break all connections, be away for a moment, and listen again."""
    await server.stop()
    await asyncio.sleep(0.01)
    await server.start()


def assert_in_order(rig: Rig) -> None:
    """In each sitting's order of starts, no turn comes before the turns of its conversation that lie before it."""
    seen: set[TurnKey] = set()
    for started in rig.starts():
        key = started.key
        for turn in range(key.turn):
            assert TurnKey(episode=key.episode, turn=turn, pass_=key.pass_, arm=key.arm) in seen
        seen.add(key)
