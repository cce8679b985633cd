"""One turn: what fits, what is clamped, what is skipped, what is sent again; and the gate of a server that is away."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fakes import (
    Answer,
    Ask,
    End,
    FakeEngine,
    FakeServer,
    Head,
    Script,
    burst,
    context_message,
    events,
    make,
    one,
    status,
)
from rigs.replaying import Rig, conversation, scenario, until

from soak.facts import Load, Record, Sampling


def small(context_tokens: int, **options: Any) -> FakeEngine:
    """Return an engine with a small context."""
    return FakeEngine(context_tokens=context_tokens, **options)


def rising(rig: Rig) -> list[Record]:
    """Return the records of a one-conversation run by turn."""
    return [record for _, record in sorted(rig.final().items())]


@pytest.mark.parametrize("counts", [True, False], ids=["counted by the server", "told by refusals"])
async def test_max_tokens_is_clamped_then_turns_are_skipped(tmp_path: Path, counts: bool) -> None:
    """As a context fills up, turns are sent whole, then clamped (and recorded so), then skipped with a reason."""
    engine = small(500, tokenize=counts)
    settings = scenario(sampling=Sampling(max_tokens=300), load=Load(in_flight=1))
    rig = Rig(tmp_path / "run", settings, [conversation("a", 10, size=200)])
    async with FakeServer(engine=engine) as server:
        await rig.sit({"candidate": server})
        sent = [request.body["max_tokens"] for request in server.chats if request.body]
    rig.assert_all_done()
    records = rising(rig)
    outcomes = [record.outcome for record in records]
    fits = outcomes.index("skipped")
    assert outcomes == ["finished"] * fits + ["skipped"] * (10 - fits)
    assert 2 <= fits <= 6
    clamped = [record.observation.clamped for record in records[:fits] if record.observation]
    assert clamped == sorted(clamped)
    assert clamped[0] is False
    assert clamped[-1] is True
    observed = [record.observation.max_tokens for record in records[:fits] if record.observation]
    assert observed[0] == 300
    assert observed == sorted(observed, reverse=True)
    assert set(observed) <= set(sent)
    assert "the model's context holds 500" in (records[fits].reason or "")
    assert all("an earlier turn of its conversation" in (record.reason or "") for record in records[fits + 1 :])
    assert all(record.judgement and record.judgement.class_ != "error" for record in records[:fits])


async def test_a_refusal_for_length_is_sent_again_clamped(tmp_path: Path) -> None:
    """A 400 that names the context, from a server whose context was unknown, leads to one clamped request each time."""
    rig = Rig(tmp_path / "run", scenario(sampling=Sampling(max_tokens=5000), load=Load(in_flight=1)),
              [conversation("a", 3)], capabilities={"context_tokens": None, "counts_tokens": False})  # fmt: skip
    async with FakeServer(engine=small(1000)) as server:
        await rig.sit({"candidate": server})
        statuses = [
            attempt.status for record in rising(rig) if record.observation for attempt in record.observation.attempts
        ]
    assert rig.classes() == {"ok": 3}
    assert statuses == [400, 200] * 3
    assert all(record.observation and record.observation.clamped for record in rising(rig))


async def test_a_refusal_of_the_prompt_itself_is_a_skip(tmp_path: Path) -> None:
    """A 400 that says the prompt alone is too long ends the start as skipped, with the server's numbers."""

    def policy(ask: Ask) -> Script:
        return status(400, context_message(8192, 9000, ask.max_tokens), kind="BadRequestError")

    rig = Rig(tmp_path / "run", scenario(), [conversation("a", 3)], capabilities={"context_tokens": None})
    async with FakeServer(policy) as server:
        await rig.sit({"candidate": server})
    rig.assert_all_done()
    assert rig.outcomes() == {"skipped": 3}
    assert rising(rig)[0].reason == "not sent: its prompt has 9000 tokens, the model's context holds 8192"
    assert len(server.chats) == 1


async def test_another_branch_of_the_tree_is_not_skipped(tmp_path: Path) -> None:
    """Only turns that continue a prefix that was too long are skipped for it; each conversation is judged alone."""
    rig = Rig(tmp_path / "run", scenario(), [conversation("long", 4, size=900), conversation("short", 4, size=20)])
    async with FakeServer(engine=small(300)) as server:
        await rig.sit({"candidate": server})
    rig.assert_all_done()
    skipped = {key.episode for key, record in rig.final().items() if record.outcome == "skipped"}
    assert skipped == {"long"}


async def test_attempts_are_recorded(tmp_path: Path) -> None:
    """A 503 and its retry are one finished turn with two attempts, in the history."""
    rig = Rig(tmp_path / "run", scenario(), [conversation("a", 2)])
    async with FakeServer(one("http_503_once")) as server:
        await rig.sit({"candidate": server})
    assert rig.classes() == {"ok": 2}
    for record in rising(rig):
        assert record.observation is not None
        assert [attempt.status for attempt in record.observation.attempts] == [503, 200]


async def test_what_is_sent_is_what_is_recorded(tmp_path: Path) -> None:
    """A start names seed and prefix of its request; the prefix can be read back as it was sent."""
    rig = Rig(tmp_path / "run", scenario(), [conversation("a", 3)])
    async with FakeServer() as server:
        await rig.sit({"candidate": server})
        bodies = {request.body["seed"]: request.body for request in server.chats if request.body}
    assert rig.folder is not None
    with rig.folder.history() as history:
        for started in history.starts():
            stored = [message.content for message in history.prefix(started.prefix)]
            assert stored == [message["content"] for message in bodies[started.seed]["messages"]]


async def test_the_bytes_of_bad_turns_are_kept(tmp_path: Path) -> None:
    """The raw stream is kept of turns that are not ok, and of these only."""
    rig = Rig(tmp_path / "run", scenario(load=Load(in_flight=1)), [conversation("a", 6)])

    def policy(ask: Ask) -> Script:
        return make("error_event" if ask.ordinal % 2 else "none", ask)

    async with FakeServer(policy) as server:
        await rig.sit({"candidate": server})
    assert rig.folder is not None
    with rig.folder.history() as history:
        for key, record in history.final().items():
            raw = history.raw(key)
            bad = record.judgement is not None and record.judgement.class_ != "ok"
            assert (raw is not None) == bad
            assert not bad or b"EngineCore died" in (raw or b"")
    assert rig.classes() == {"ok": 3, "error": 3}


async def test_a_loop_is_cut_where_the_scenario_says_so(tmp_path: Path) -> None:
    """With `on_loop: cut` a certain loop is closed long before max_tokens, and still is a garbage loop."""
    settings = scenario(sampling=Sampling(max_tokens=6000), on_loop="cut")
    rig = Rig(tmp_path / "run", settings, [conversation("a", 1)])

    def policy(ask: Ask) -> Script:
        return make("loop", replace(ask, gap_s=0.0005))

    async with FakeServer(policy) as server:
        await rig.sit({"candidate": server})
        await until(lambda: server.chats[0].hung_up)
    (record,) = rising(rig)
    assert record.observation is not None
    assert record.observation.ending == "cut"
    assert rig.classes() == {"garbage_loop": 1}


async def test_the_loop_goes_on_while_a_long_answer_is_judged(tmp_path: Path) -> None:
    """Between the last byte of a long answer and the end of its turn other work is done, hundreds of steps of it."""
    rig = Rig(tmp_path / "run", scenario(sampling=Sampling(max_tokens=200_000)), [conversation("a", 1)])
    steps, last_byte, ended = 0, 0, 0

    async def other_work() -> None:
        nonlocal steps, last_byte
        while not rig.ear.records:
            await asyncio.sleep(0)
            steps += 1
            if not (server.chats and server.chats[0].done.is_set()):
                last_byte = steps

    def note(_: Record) -> None:
        nonlocal ended
        ended = steps

    rig.ear.on_end = note
    text = "".join(f"Row {7919 * at % 10007} is read, then door {31 * at % 977} opens. " for at in range(3_000))

    def policy(_: Ask) -> Script:
        return Script([Head(), burst(event.data for event in events(Answer(content=text))), End()], finish="stop")

    async with FakeServer(policy) as server:
        await rig.sit({"candidate": server}, meanwhile=other_work)
    assert rig.outcomes() == {"finished": 1}
    assert ended - last_byte > 500


# -- the gate -----------------------------------------------------------------------------------------------------


async def test_turns_wait_for_a_server_that_is_away(tmp_path: Path) -> None:
    """Connections refused shut the gate: it is told live, no turn is lost, and all are sent when the server is back."""
    rig = Rig(tmp_path / "run", scenario(), [conversation(name, 3) for name in "abc"])
    server = FakeServer()
    await server.start()
    await server.stop()

    async def comes_back() -> None:
        await until(lambda: "server_down" in rig.ear.kinds)
        for _ in range(5):
            rig.clock.advance(10)
            await asyncio.sleep(0.02)
        assert not rig.ear.records
        await server.start()
        await until(back)

    def back() -> bool:
        rig.clock.advance(1)
        return "server_back" in rig.ear.kinds

    try:
        switch = await rig.sit({"candidate": server}, meanwhile=comes_back)
    finally:
        await server.stop()
    assert switch.reason is None
    assert rig.ear.kinds.count("server_down") == rig.ear.kinds.count("server_back") == 1
    rig.assert_all_done()
    assert rig.classes() == {"ok": 9}
    assert all(record.observation and len(record.observation.attempts) <= 4 for record in rising(rig))


async def test_a_server_that_stays_away_ends_the_run(tmp_path: Path) -> None:
    """After `server_return_s` the run drains as engine_gone; unsent turns close as indeterminate; resume sends them."""
    rig = Rig(tmp_path / "run", scenario(server_return_s=60.0), [conversation(name, 3) for name in "abcd"])
    server = FakeServer()
    await server.start()
    await server.stop()

    async def time_passes() -> None:
        while "server_gone" not in rig.ear.kinds:
            rig.clock.advance(5)
            await asyncio.sleep(0.01)

    switch = await rig.sit({"candidate": server}, meanwhile=time_passes)
    assert switch.reason == "engine_gone"
    assert rig.outcomes() == {"indeterminate": 3}
    assert all("could not be reached" in (record.reason or "") for record in rising(rig))
    rig.assert_one_end_each()
    async with server:
        assert (await rig.sit({"candidate": server})).reason is None
    rig.assert_all_done()


@pytest.mark.parametrize(("silent", "ending"), [("silent_first", "unreachable"), ("silent_middle", "reset")])
async def test_a_server_that_dies_under_turns_in_flight(tmp_path: Path, silent: str, ending: str) -> None:
    """Turns it took end as error, whether it died while it read the prompt or in mid-answer; later ones wait for it."""
    rig = Rig(tmp_path / "run", scenario(), [conversation(name, 3) for name in "abc"])
    server = FakeServer(one(silent))

    async def dies() -> None:
        await until(lambda: len(server.chats) == 3)
        await asyncio.sleep(0.05)
        await server.stop()
        server.policy = one("none")
        await until(lambda: "server_down" in rig.ear.kinds)
        await server.start()
        while "server_back" not in rig.ear.kinds:
            rig.clock.advance(1)
            await asyncio.sleep(0.005)

    async with server:
        await rig.sit({"candidate": server}, meanwhile=dies)
    rig.assert_all_done()
    assert rig.classes() == {"error": 3, "ok": 6}
    endings = [record.observation.ending for record in rising(rig) if record.observation]
    assert endings.count(ending) == 3


@pytest.mark.parametrize("fault", ["reset_first", "close_first"])
async def test_a_request_the_server_always_breaks_off_is_an_error(tmp_path: Path, fault: str) -> None:
    """A turn the server takes and resets before its first chunk, in every attempt, is an error; the others go on."""
    rig = Rig(tmp_path / "run", scenario(), [conversation("a", 2), conversation("poison", 1)])

    def policy(ask: Ask) -> Script:
        return make(fault if "Task poison." in json.dumps(ask.body) else "none", ask)

    async with FakeServer(policy) as server:
        await rig.sit({"candidate": server})
    rig.assert_all_done()
    assert rig.classes() == {"ok": 2, "error": 1}
    assert "server_down" not in rig.ear.kinds
    (poisoned,) = (record for key, record in rig.final().items() if key.episode == "poison")
    assert poisoned.observation is not None
    assert poisoned.observation.ending == "unreachable"
    assert [attempt.taken for attempt in poisoned.observation.attempts] == [True, True]


async def test_a_stop_while_the_gate_asks_harms_nothing(tmp_path: Path) -> None:
    """Being stopped right after an error was recorded, while the server's health is asked, ends no turn twice."""
    server = FakeServer(one("no_finish"))
    rig = Rig(tmp_path / "run", scenario(load=Load(in_flight=1)), [conversation("a", 3)])
    asked = asyncio.Event()

    def side_door(method: str, path: str, *rest: Any) -> Script:
        if path == "/health":
            asked.set()
            return make("silent_first", Ask(body={}, rng=None))  # type: ignore[arg-type]
        return original(method, path, *rest)

    original: Callable[..., Script] = server.side_door
    server.side_door = side_door  # type: ignore[method-assign]

    async def stop() -> None:
        await asked.wait()
        rig.switch.stop("interrupt")

    async with server:
        switch = await rig.sit({"candidate": server}, meanwhile=stop)
    assert switch.reason == "interrupt"
    assert rig.outcomes() == {"finished": 1}
    rig.assert_one_end_each()
