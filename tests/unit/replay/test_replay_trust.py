"""What a sceptic checks first: a crash is not a pass, both arms are asked the same, and a bug of ours loses nothing."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from fakes import Ask, FakeEngine, FakeServer, Head, Reset, Script
from rigs.replaying import JumpClock, Rig, conversation, scenario, until

from soak.classify import TurnJudge
from soak.client import WireClient
from soak.errors import UsageError
from soak.facts import Budget, Sampling
from soak.replay import Gate, Switch


def taken_then_dead(ask: Ask) -> Script:
    """Take the request, begin the answer's head, and break the connection: an engine that died during prefill."""
    return Script((Head(200), Reset()))


async def test_a_broken_head_is_an_error_in_the_end(tmp_path: Path) -> None:
    """A server that sends a head and dies, in every attempt, has an error to its name and not a waiting turn."""
    rig = Rig(tmp_path / "run", scenario(), [conversation("a", 1)])
    async with FakeServer(taken_then_dead) as server:
        await rig.sit({"candidate": server})
    assert rig.classes() == {"error": 1}


async def test_a_turn_is_asked_the_same_in_every_pass_and_arm(tmp_path: Path) -> None:
    """The room for an answer depends on the prefix alone: equal in all passes and in both arms, salted as they are."""
    settings = scenario(sampling=Sampling(max_tokens=5000), salt="pass", budget=Budget(passes=3))
    rig = Rig(tmp_path / "run", settings, [conversation("a", 3)], arms=("left", "right"))
    engine = {"context_tokens": 900}
    async with FakeServer(engine=FakeEngine(**engine)) as left, FakeServer(engine=FakeEngine(**engine)) as right:
        await rig.sit({"left": left, "right": right})
    rooms: dict[int, set[int]] = {}
    for key, record in rig.final().items():
        assert record.observation is not None
        assert record.observation.clamped
        rooms.setdefault(key.turn, set()).add(record.observation.max_tokens)
    assert len(rooms) == 3
    assert all(len(sizes) == 1 for sizes in rooms.values()), rooms


async def test_a_classifier_that_crashes_loses_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bug of ours leaves the answer stored and unjudged, says so, and does not end the run."""

    def crash(*_: Any) -> None:
        raise IndexError("a bug")

    monkeypatch.setattr(TurnJudge, "push", crash)
    monkeypatch.setattr(TurnJudge, "finish", crash)
    rig = Rig(tmp_path / "run", scenario(), [conversation("a", 3)])
    async with FakeServer() as server:
        await rig.sit({"candidate": server})
    rig.assert_all_done()
    assert all(record.observation and record.judgement is None for record in rig.final().values())
    assert rig.ear.kinds.count("classifier_crashed") == 3


class SlowDesk:
    """A server whose health is answered when the test says so."""

    def __init__(self) -> None:
        self.answers: asyncio.Queue[bool] = asyncio.Queue()
        self.asked = 0

    async def is_up(self) -> bool:
        self.asked += 1
        return await self.answers.get()

    async def count_tokens(self, body: dict[str, Any]) -> int | None:
        return None


async def test_a_stale_answer_does_not_shut_the_gate_again() -> None:
    """A health answer that comes after the gate was shut and opened again says nothing; a waiter is let through."""
    desk, clock, switch, told = SlowDesk(), JumpClock(), Switch(), []
    gate = Gate(desk, clock=clock, switch=switch, tell=lambda kind, _: told.append(kind), return_limit_s=60.0)
    suspicion = asyncio.create_task(gate.suspect())
    await until(lambda: desk.asked == 1)
    gate.shut()
    waiter = asyncio.create_task(gate.passed())
    await until(lambda: clock.slept)
    clock.advance(1)
    await until(lambda: desk.asked == 2)
    desk.answers.put_nowait(False)  # the stale one, of `suspect`
    desk.answers.put_nowait(True)
    assert await waiter
    await suspicion
    assert await gate.passed()
    assert told == ["server_down", "server_back"]
    await gate.close()


async def test_a_limit_of_our_own_ends_the_run_and_blames_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Running out of open files closes the turn as indeterminate and ends the run with words; resume goes on."""

    async def no_more_files(*_: Any) -> None:
        raise UsageError("our own limit on open files is reached", why="errno 24", hint="ulimit -n")

    rig = Rig(tmp_path / "run", scenario(), [conversation("a", 2)])
    async with FakeServer() as server:
        with monkeypatch.context() as patch:
            patch.setattr(WireClient, "exchange", no_more_files)
            with pytest.raises(UsageError, match="open files"):
                await rig.sit({"candidate": server})
        assert rig.outcomes() == {"indeterminate": 1}
        await rig.sit({"candidate": server})
    rig.assert_all_done()
