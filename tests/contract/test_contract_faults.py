"""Each fault the fake server knows becomes the right ending, on either path."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from fakes import FAULTS, End, FakeServer, Head, Script, Send, one, sse

from soak.client import Target, WireClient
from soak.client.sdk import SdkClient
from soak.facts import Chunk, Deadlines, Retries

QUICK = Deadlines(first_chunk_s=0.4, gap_s=0.3, turn_s=30)
SWALLOWED_BY_THE_SDK = {"named_error_event": ("no_finish",)}
BASH = {
    "type": "function",
    "function": {
        "name": "bash",
        "parameters": {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
    },
}


@pytest.fixture
async def fake() -> AsyncIterator[FakeServer]:
    """The scripted server at its ordinary pace."""
    async with FakeServer() as server:
        yield server


@pytest.mark.parametrize("fault", FAULTS)
async def test_every_fault_has_its_ending(client_class: Any, fake: FakeServer, opened: Any, fault: str) -> None:
    """The ending is one that the fault's ground truth allows, and what came before the fault is kept."""
    async with opened(fake.url) as served, client_class(served.target) as client:
        fake.policy = one(fault)
        retries = Retries(attempts=3, wait_max_s=0.02)
        request = served.request(fault, tools=[BASH], max_tokens=400, deadlines=QUICK, retries=retries)
        seen: list[Chunk] = []
        exchange = await client.exchange(request, lambda chunk: bool(seen.append(chunk)))
    truth = fake.truth[-1]
    endings = truth.endings
    if client_class is not WireClient:
        endings = SWALLOWED_BY_THE_SDK.get(fault, endings)
    observation = exchange.observation
    assert observation.ending in endings
    assert not {"text_after_finish", "extra_choice", "repaired_json"} & set(observation.defects)
    assert observation.content == "".join(chunk.content for chunk in seen)
    assert len(observation.attempts) == truth.attempt
    if fault.endswith("_once"):
        assert len(observation.attempts) == 2
        assert observation.attempts[0].wait_s > 0 or "429" in fault
    if observation.ending in ("http_error", "unreachable"):
        assert len(observation.attempts) == (1 if fault == "context_400" else 3)
    elif not fault.endswith("_once"):
        assert len(observation.attempts) == 1


async def test_both_paths_see_the_same(fake: FakeServer, opened: Any) -> None:
    """On the same bytes both paths give the same observation, times and connection apart."""
    async with opened(fake.url) as served:
        request = served.request("same", tools=[BASH], max_tokens=400)
        found = []
        for client_class in (WireClient, SdkClient):
            async with client_class(Target.parse(fake.url)) as client:
                found.append((await client.exchange(request, lambda chunk: False)).observation)
    names = ("ending", "content", "reasoning", "tool_calls", "finish_reason", "token_ids", "chunks", "defects")
    for name in names:
        assert getattr(found[0], name) == getattr(found[1], name), name


@pytest.mark.parametrize(
    "data",
    [
        *(b'{"error":' + b"[" * depth + b"]" * depth + b"}" for depth in (*range(900, 1000, 7), 100_000)),
        b'{"error":' + b'{"message":' * 900 + b"1" + b"}" * 901,
        b'{"choices":[],"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"error":' + b"9" * 5000 + b"}",
    ],
    ids=lambda data: f"{data[:12].decode()}-{len(data)}",
)
async def test_one_hostile_event_is_an_ending(client_class: Any, fake: FakeServer, opened: Any, data: bytes) -> None:
    """An event nested to any depth, or with a number of any length, ends the answer and raises nothing."""
    async with opened(fake.url) as served, client_class(served.target) as client:
        fake.policy = lambda ask: Script([Head(), Send(b"data: " + data + b"\n\n"), End()])
        observation = (await client.exchange(served.request(), lambda chunk: False)).observation
    assert observation.ending in ("error_event", "malformed")


async def test_odd_chunks_are_read_alike(client_class: Any, fake: FakeServer, opened: Any) -> None:
    """Choices in another order, calls without an index, numbers as ids and content in parts: either path copes."""
    first = {"index": 1, "delta": {"content": "x"}}, {"index": 0, "delta": {"content": "a"}}
    parts = [{"index": 0, "delta": {"content": [{"type": "text", "text": "b"}]}}]
    calls = [
        [{"index": 0, "delta": {"tool_calls": [{"id": number, "function": {"name": "f", "arguments": "{}"}}]}}]
        for number in (1, 2)
    ]
    final = [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]
    payloads = [sse({"id": 5, "choices": list(one)}) for one in (first, parts, *calls, final)]
    async with opened(fake.url) as served, client_class(served.target) as client:
        fake.policy = lambda ask: Script([Head(), *map(Send, payloads), Send(sse(b"[DONE]")), End()])
        observation = (await client.exchange(served.request(), lambda chunk: False)).observation
    assert (observation.content, observation.request_id) == ("ab", "5")
    assert [(call.id, call.arguments) for call in observation.tool_calls] == [("1", "{}"), ("2", "{}")]


async def test_a_server_that_returns_is_found_again(client_class: Any, fake: FakeServer, opened: Any) -> None:
    """While the server is dead the turn is unreachable; once it is back the same client is answered."""
    async with opened(fake.url) as served, client_class(served.target) as client:
        request = served.request(retries=Retries(attempts=2, wait_max_s=0.01))
        await fake.stop()
        gone = (await client.exchange(request, lambda chunk: False)).observation
        assert not await served.desk.is_up()
        await fake.start()
        back = (await client.exchange(request, lambda chunk: False)).observation
        assert await served.desk.is_up()
    assert (gone.ending, len(gone.attempts)) == ("unreachable", 2)
    assert back.ending == "complete"
