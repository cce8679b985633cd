"""However the bytes of an answer are cut, the proxy passes the same bytes and comes to the same class as a replay."""

import asyncio
import random
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from fakes import Answer, Call, End, FakeServer, Head, Raw, Script, events, framed, loop_answer, make, prose, sse
from fakes.faults import Ask
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rigs.proxying import between, dechunked, http, raw_exchange

from soak.classify import DEFAULTS, Context, TurnJudge
from soak.client import Request, Scrub, Target, WireClient
from soak.facts import Deadlines, Retries, TurnKey, encode
from soak.proxy import Hearing, read_asked

BODY = {"model": "fake-model", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 900, "stream": True}
KEY = TurnKey(episode="e", turn=0, pass_=0, arm="candidate")
ASK = Ask(body=BODY, rng=random.Random(3))
PLAIN = Scrub(api_key=None, basic=None)


def stream_of(answer: Answer) -> bytes:
    """Return the bytes of a whole answer's stream."""
    return b"".join(item.data for item in events(answer))


STREAMS = {
    "good": stream_of(Answer(content=prose(random.Random(1), 120), reasoning="Let me see, the é and 日本 first.")),
    "calls": stream_of(Answer(calls=(Call("bash", '{"command": "ls"}', "c1"),), finish="tool_calls")),
    "loop": stream_of(loop_answer(ASK)),
    "short": stream_of(Answer(content="I'll open the file and")),
    "cut": stream_of(Answer(content="half an", finish=None)),
    "error": sse({"choices": [{"delta": {"content": "a"}}]}) + sse({"error": {"message": "EngineCore died"}}),
    "broken": b'data: {"choices":[{"delta":{"cont\n\n',
    "crlf": stream_of(Answer(content="It is done, and all of it works.")).replace(b"\n", b"\r\n"),
    "empty": b"",
}


def heard(reads: list[bytes]) -> Hearing:
    """Return what hears these reads as one answer."""
    hearing = Hearing(KEY, read_asked("chat/completions", encode(BODY)), DEFAULTS, PLAIN, lambda *_: None)
    hearing.head(200, {"content-type": "text/event-stream"})
    for number, data in enumerate(reads):
        hearing.feed(data, float(number))
    hearing.end(float(len(reads)))
    return hearing


def cuts(data: bytes, places: list[int]) -> list[bytes]:
    """Return `data` cut at these places."""
    at = sorted({place % (len(data) + 1) for place in places})
    return [data[i:j] for i, j in zip([0, *at], [*at, len(data)], strict=True) if i < j]


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(sorted(STREAMS)), st.lists(st.integers(0, 100_000), max_size=40))
def test_any_cutting_is_judged_alike(name: str, places: list[int]) -> None:
    """The same bytes in any reads give the same answer, ending, class and findings."""
    whole, pieces = heard([STREAMS[name]] if STREAMS[name] else []), heard(cuts(STREAMS[name], places))
    one, other = whole.record(0.0, 0.0), pieces.record(0.0, 0.0)
    assert one.judgement == other.judgement
    assert one.observation is not None and other.observation is not None
    fields = ("content", "reasoning", "tool_calls", "ending", "finish_reason", "usage", "defects")
    assert [getattr(one.observation, f) for f in fields] == [getattr(other.observation, f) for f in fields]
    assert whole.raw == pieces.raw == STREAMS[name]


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(sorted(STREAMS)), st.lists(st.integers(0, 100_000), max_size=20))
def test_any_cutting_passes_alike(name: str, places: list[int]) -> None:
    """Whatever HTTP chunks the target cuts an answer into, the client gets the same bytes and the same end."""
    script = Script([Head(), *(Raw(framed(piece)) for piece in cuts(STREAMS[name], places)), End()])

    async def pass_on(path: Path) -> bytes:
        async with FakeServer(lambda ask: script) as fake, between(fake.url, path / "run") as proxy:
            return await raw_exchange(proxy.port, http("POST", "/v1/chat/completions", encode(BODY)))

    with TemporaryDirectory() as folder:
        reply = asyncio.run(pass_on(Path(folder)))
    assert dechunked(reply.partition(b"\r\n\r\n")[2]) == (STREAMS[name], True)


FAULTS = ["none", "loop", "loop_stop", "early_stop", "empty", "max_tokens", "broken_tool_call", "no_finish", "recut",
          "error_event", "named_error_event", "malformed", "http_500", "context_400", "loop_reasoning"]  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
async def test_the_class_is_that_of_a_replay(name: str, tmp_path: Path) -> None:
    """A turn heard in passing has the class, ending and findings that the replay's own client gives the same answer."""
    tool = {"type": "function", "function": {"name": "bash", "parameters": {"type": "object", "properties": {}}}}
    body = {**BODY, "tools": [tool], "stream_options": {"include_usage": True}, "seed": 5}
    async with FakeServer(lambda ask: make(name, ask)) as fake, between(fake.url, tmp_path / "run") as proxy:
        judge = TurnJudge(Context(prompt_text="hello", tools=(tool,), max_tokens=900), DEFAULTS)
        request = Request(
            key=KEY, body=body, session="s", deadlines=Deadlines(), retries=Retries(attempts=1), max_tokens=900
        )

        def sink(chunk: object) -> bool:
            judge.push(chunk)  # type: ignore[arg-type]
            return False

        async with WireClient(Target.parse(fake.url)) as client:
            exchange = await client.exchange(request, sink)
        await raw_exchange(proxy.port, http("POST", "/v1/chat/completions", encode(body)))
        (record,) = await proxy.ear.ends(1)
    assert record.observation is not None
    assert record.observation.ending == exchange.observation.ending
    assert record.judgement == judge.finish(exchange.observation)
    if name in ("loop", "none", "early_stop"):
        assert proxy.ear.classes == [{"loop": "garbage_loop", "none": "ok"}.get(name, name)]
