"""Each fault the fake server knows becomes the right ending, on either path."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from fakes import FAULTS, FakeServer, one

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
