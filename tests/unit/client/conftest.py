"""A scripted server and a client on it, for what only `WireClient` promises."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from fakes import FakeServer

from soak.client import Request, Target, WireClient
from soak.facts import Deadlines, Retries, TurnKey


@pytest.fixture
async def fake() -> AsyncIterator[FakeServer]:
    """The scripted server."""
    async with FakeServer() as server:
        yield server


@pytest.fixture
async def wire(fake: FakeServer) -> AsyncIterator[WireClient]:
    """A client on the scripted server."""
    async with WireClient(Target.parse(fake.url)) as client:
        yield client


@pytest.fixture
def request_for() -> Callable[..., Request]:
    """Return a maker of requests; its arguments are fields of `Request`, `body_changes` changes the body."""

    def make(**changes: Any) -> Request:
        body = {
            "model": "fake-model",
            "messages": [{"role": "user", "content": "hello"}],
            "max_tokens": 200,
            "seed": 1,
            "stream": True,
            "stream_options": {"include_usage": True},
            **changes.pop("body_changes", {}),
        }
        fields: dict[str, Any] = {
            "key": TurnKey(episode="e", turn=0, pass_=0, arm="candidate"),
            "body": body,
            "session": "e",
            "deadlines": Deadlines(first_chunk_s=20, gap_s=20, turn_s=30),
            "retries": Retries(attempts=3, wait_max_s=0.02),
            "max_tokens": 200,
        }
        return Request(**{**fields, **changes})

    return make
