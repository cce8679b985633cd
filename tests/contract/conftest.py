"""Both stream paths against both servers: the scripted fake, and a real engine (marker `engine`)."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
from fakes import Answer, Ask, FakeEngine, FakeServer, Script, limited, prose, stream

from soak.client import Desk, Request, Target, WireClient, compose, discover
from soak.client.sdk import SdkClient
from soak.facts import Capabilities, Deadlines, Message, Retries, Sampling, TurnKey

KEY = TurnKey(episode="contract", turn=0, pass_=0, arm="candidate")
Client = WireClient | SdkClient
ENGINE = (pytest.mark.engine, pytest.mark.timeout(1800))  # the first test waits until it is made and started


@dataclass(frozen=True)
class Served:
    """A running server with what it was found to be."""

    target: Target
    capabilities: Capabilities
    desk: Desk

    async def running(self) -> float:
        """Return how many requests the engine says it is working on."""
        page = await self.desk.metrics() or ""
        lines = [line for line in page.splitlines() if line.startswith("vllm:num_requests_running{")]
        return sum(float(line.rpartition(" ")[2]) for line in lines)

    def request(self, text: str = "Tell me a long story about a lighthouse.", **changes: Any) -> Request:
        """Return a request; `model`, `tools`, `logprobs`, `seed` and the fields of `Request` can be set."""
        body = compose(
            [Message(role="user", content=text)],
            changes.pop("tools", []),
            mode="native",
            model=changes.pop("model", self.capabilities.model),
            sampling=Sampling(),
            max_tokens=changes.get("max_tokens", 64),
            seed=changes.pop("seed", 7),
            capabilities=self.capabilities,
            logprobs=changes.pop("logprobs", None),
        )
        fields: dict[str, Any] = {
            "session": "contract",
            "deadlines": Deadlines(first_chunk_s=60, gap_s=60, turn_s=100),
            "retries": Retries(attempts=3, wait_max_s=0.05),
            "max_tokens": 64,
        }
        return Request(key=KEY, body=body, **{**fields, **changes})


@pytest.fixture(params=[WireClient, SdkClient], ids=["wire", "sdk"])
def client_class(request: pytest.FixtureRequest) -> type[Client]:
    """The two stream paths."""
    return request.param


def storyteller(ask: Ask) -> Script:
    """
    Answer as a small model does: it talks until max_tokens, one chunk every 2 ms. Asked for the guard against
    repetition, it repeats itself and is ended by it.
    """
    if "repetition_detection" in ask.body:
        return stream(Answer(content="no" * 8, finish="repetition", stop_reason="repetition_detected"), ask)
    answer = limited(Answer(content=prose(ask.rng, ask.max_tokens + 1)), ask.max_tokens)
    return stream(answer, replace(ask, gap_s=0.002))


@pytest.fixture
async def fake() -> AsyncIterator[FakeServer]:
    """The scripted server, with a context of 8,192 tokens as the embedded build has."""
    async with FakeServer(storyteller, engine=FakeEngine(context_tokens=8192)) as server:
        yield server


@pytest.fixture(params=["fake", pytest.param("engine", marks=ENGINE)])
def server_url(request: pytest.FixtureRequest) -> str:
    """The two servers."""
    return request.getfixturevalue("fake").url if request.param == "fake" else request.getfixturevalue("engine_url")


@pytest.fixture
async def served(server_url: str) -> AsyncIterator[Served]:
    """One of the two servers, discovered."""
    async with serving(server_url) as found:
        yield found


class serving:  # noqa: N801 - reads as a verb: async with serving(url)
    """Open a desk at a URL and discover what is there."""

    def __init__(self, url: str) -> None:
        self._desk = Desk(Target.parse(url))

    async def __aenter__(self) -> Served:
        desk = await self._desk.__aenter__()
        return Served(desk.target, await discover(desk), desk)

    async def __aexit__(self, *exc: Any) -> None:
        await self._desk.__aexit__(None, None, None)


@pytest.fixture
def opened() -> Callable[[str], serving]:
    """Return the context manager that discovers a server at a URL."""
    return serving
