"""What `WireClient` makes of servers that go wrong below, in and above HTTP."""

import asyncio
import json
from collections.abc import Callable

import msgspec
import pytest
from fakes import (
    Answer,
    Call,
    End,
    FakeServer,
    Head,
    Raw,
    Reset,
    Script,
    Send,
    Silence,
    Style,
    Until,
    Wait,
    cut,
    events,
    framed,
    one,
    sse,
    status,
    stream,
)

from soak.client import Request, Target, WireClient
from soak.facts import Chunk, Deadlines, Observation, decode, encode

Make = Callable[..., Request]
KEEP = lambda chunk: False  # noqa: E731 - a sink that never cuts
FINISH = sse({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
DONE = sse(b"[DONE]")


def said(*payloads: bytes) -> Script:
    """Return a well-framed stream of these events, ended well."""
    return Script([Head(), *(Send(payload) for payload in payloads), End()])


def text_event(text: str) -> bytes:
    """Return an event with a piece of content."""
    return sse({"choices": [{"index": 0, "delta": {"content": text}}]})


async def observed(wire: WireClient, fake: FakeServer, request: Request, script: Script) -> Observation:
    """Return what is observed of one turn answered by `script`; it must survive the history's codec."""
    fake.policy = lambda ask: script
    observation = (await wire.exchange(request, KEEP)).observation
    assert decode(encode(observation), Observation) == observation
    return observation


async def test_everything_an_answer_carries_is_kept(wire: WireClient, fake: FakeServer, request_for: Make) -> None:
    """Content, reasoning, two interleaved calls, refusal, cached tokens, ids, stop reason: nothing is lost or mixed."""
    calls = (Call("bash", '{"command": "ls -la"}', "call_a"), Call("view", '{"path": "src/a.py"}', "call_b"))
    answer = Answer(
        content="Let me look – naïvely 🙂.", reasoning="First, think.", calls=calls, refusal="no", stop_reason="</s>"
    )
    style = Style(tokens_per_chunk=1, token_ids=True, cached_tokens=16, prompt_tokens=40)
    items = events(answer, style)
    fake.policy = lambda ask: Script([Head(), *(Send(item.data) for item in items), End()])
    observation = (await wire.exchange(request_for(), KEEP)).observation
    assert observation.content == answer.content
    assert observation.reasoning == answer.reasoning
    assert observation.refusal == "no"
    assert [(call.id, call.name, call.arguments) for call in observation.tool_calls] == [
        (call.id, call.name, call.arguments) for call in calls
    ]
    assert observation.stop_reason == "</s>"
    assert observation.usage is not None
    assert (observation.usage.prompt, observation.usage.cached) == (40, 16)
    assert observation.token_ids is not None
    assert len(observation.token_ids) == observation.usage.completion
    assert observation.model == "fake-model"


@pytest.mark.parametrize("name", ["reasoning", "reasoning_content"])
async def test_reasoning_goes_by_two_names(wire: WireClient, fake: FakeServer, request_for: Make, name: str) -> None:
    """Reasoning arrives under either field name, and counts as the first text."""
    fake.policy = lambda ask: stream(Answer(reasoning="hmm, let me think"), ask, reasoning_field=name)
    observation = (await wire.exchange(request_for(), KEEP)).observation
    assert observation.reasoning == "hmm, let me think"
    assert observation.ttft_ms is not None


async def test_a_stream_cut_at_every_byte_reads_the_same(wire: WireClient, fake: FakeServer, request_for: Make) -> None:
    """Chunks of one byte, also inside UTF-8, give the same text."""
    items = [item.data for item in events(Answer(content="naïve – 🙂 ünïcode"))]
    observation = await observed(wire, fake, request_for(), Script([Head(), *cut(items, 1), End()]))
    assert observation.content == "naïve – 🙂 ünïcode"
    assert observation.ending == "complete"


async def test_role_and_comments_are_no_first_token(wire: WireClient, fake: FakeServer, request_for: Make) -> None:
    """TTFT waits for text: a role event and keep-alive comments before it do not count."""
    items = [item.data for item in events(Answer(content="hi"))]
    script = Script([Head(), Send(items[0]), Send(b": ping\n\n"), Wait(0.06), *map(Send, items[1:]), End()])
    observation = await observed(wire, fake, request_for(), script)
    assert observation.ttft_ms is not None
    assert observation.ttft_ms >= 50


async def test_first_chunk_deadline_ignores_comments(wire: WireClient, fake: FakeServer, request_for: Make) -> None:
    """A server that only sends its role and comments has not begun to answer."""
    items = [item.data for item in events(Answer(content="hi"))]
    script = Script([Head(), Send(items[0]), Send(b": ping\n\n"), Silence()])
    request = request_for(deadlines=Deadlines(first_chunk_s=0.2, gap_s=20, turn_s=20))
    observation = await observed(wire, fake, request, script)
    assert observation.ending == "deadline_first_chunk"
    assert observation.censored
    assert observation.error is not None
    await asyncio.wait_for(fake.chats[0].done.wait(), 5)
    assert fake.chats[0].hung_up


async def test_a_gap_is_noticed_long_before_the_first_chunk_limit(
    wire: WireClient, fake: FakeServer, request_for: Make
) -> None:
    """The gap deadline holds from the first text on, however long the first chunk might have taken."""
    script = Script([Head(), Send(text_event("hi")), Silence()])
    request = request_for(deadlines=Deadlines(first_chunk_s=600, gap_s=0.2, turn_s=600))
    observation = await asyncio.wait_for(observed(wire, fake, request, script), 10)
    assert (observation.ending, observation.content) == ("deadline_gap", "hi")


async def test_silence_after_the_finish_reason_is_a_complete_answer(
    wire: WireClient, fake: FakeServer, request_for: Make
) -> None:
    """A server that never ends its stream after the finish reason has answered; the defect is named."""
    script = Script([Head(), Send(text_event("hi")), Send(FINISH), Silence()])
    request = request_for(deadlines=Deadlines(first_chunk_s=5, gap_s=0.2, turn_s=5))
    observation = await observed(wire, fake, request, script)
    assert observation.ending == "no_end_marker"
    assert "left_open" in observation.defects
    assert not observation.censored


@pytest.mark.parametrize("moment", ["first", "cut", "cancel"])
async def test_hanging_up_reaches_the_server(
    wire: WireClient, fake: FakeServer, request_for: Make, moment: str
) -> None:
    """Deadline, cut and cancellation close the connection: the server sees the hang-up."""
    begun = asyncio.Event()

    def sink(chunk: Chunk) -> bool:
        begun.set()
        return moment == "cut"

    first = [Head(), Send(text_event("hi"))] if moment != "first" else []
    fake.policy = lambda ask: Script([*first, Silence()])
    limits = Deadlines(first_chunk_s=0.1 if moment == "first" else 20, gap_s=20, turn_s=20)
    task = asyncio.create_task(wire.exchange(request_for(deadlines=limits), sink))
    if moment == "cancel":
        await begun.wait()
        task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert task.cancelled() == (moment == "cancel")
    await asyncio.wait_for(fake.chats[0].done.wait(), 5)
    assert fake.chats[0].hung_up
    assert fake.engine.running == 0


async def test_nothing_is_sent_again_once_text_came(wire: WireClient, fake: FakeServer, request_for: Make) -> None:
    """A reset after the first text is not tried again, one after the bare role is."""
    role = events(Answer())[0].data
    fake.policy = lambda ask: Script([Head(), Send(role), Send(text_event("hi")), Until("read"), Reset()])
    after_text = (await wire.exchange(request_for(), lambda chunk: fake.event("read").set() or False)).observation
    fake.policy = lambda ask: Script([Head(), Send(role), Reset()])
    after_role = (await wire.exchange(request_for(), KEEP)).observation
    assert (after_text.ending, len(after_text.attempts)) == ("reset", 1)
    assert (after_role.ending, len(after_role.attempts)) == ("unreachable", 3)


async def test_retry_after_is_obeyed_up_to_the_cap(wire: WireClient, fake: FakeServer, request_for: Make) -> None:
    """A pause asked for is made and recorded; one of an hour is cut to `wait_max_s`."""
    fake.policy = lambda ask: status(429, "later", headers=(("retry-after", "0.01" if ask.attempt == 1 else "3600"),))
    observation = (await wire.exchange(request_for(), KEEP)).observation
    assert [attempt.wait_s for attempt in observation.attempts] == [0.01, 0.02, 0.0]
    assert [attempt.status for attempt in observation.attempts] == [429, 429, 429]


async def test_the_session_names_the_conversation(wire: WireClient, fake: FakeServer, request_for: Make) -> None:
    """Each request carries its conversation in `x-session-id`, harmless whatever the name holds."""
    await wire.exchange(request_for(session="episode 1/ü\r\nx-evil: 1"), KEEP)
    assert fake.chats[0].headers["x-session-id"] == "episode 1/%C3%BC%0D%0Ax-evil: 1"
    assert "x-evil" not in fake.chats[0].headers


async def test_nobody_listening_is_unreachable(request_for: Make) -> None:
    """A refused connection uses up the attempts and is unreachable, not an exception."""
    server = FakeServer()
    await server.start()
    await server.stop()
    async with WireClient(Target.parse(server.url)) as client:
        observation = (await client.exchange(request_for(), KEEP)).observation
    assert observation.ending == "unreachable"
    assert [attempt.status for attempt in observation.attempts] == [None, None, None]


async def test_redirects_are_not_followed(wire: WireClient, fake: FakeServer, request_for: Make) -> None:
    """A redirect is an HTTP error that says where it leads."""
    headers = (("location", "http://127.0.0.1:1/elsewhere"), ("content-length", "0"))
    script = Script([Head(307, headers, chunked=False), End()])
    observation = await observed(wire, fake, request_for(), script)
    assert observation.ending == "http_error"
    assert observation.error is not None
    assert "elsewhere" in observation.error


async def test_the_api_key_is_scrubbed_from_errors(fake: FakeServer, request_for: Make) -> None:
    """A server that repeats the key in its error does not get it into the observation."""
    fake.policy = lambda ask: status(418, "bad key sk-very-secret given")
    async with WireClient(Target.parse(fake.url, api_key="sk-very-secret")) as client:
        exchange = await client.exchange(request_for(), KEEP)
    assert fake.chats[0].headers["authorization"] == "Bearer sk-very-secret"
    assert exchange.observation.error == "HTTP 418: bad key *** given"


async def test_an_answer_without_a_stream_is_malformed(wire: WireClient, fake: FakeServer, request_for: Make) -> None:
    """A gateway that answers stream=true with plain JSON or a page is told apart from a short stream."""
    page = b"<html>welcome</html>"
    head = Head(200, (("content-type", "text/html"), ("content-length", str(len(page)))), chunked=False)
    observation = await observed(wire, fake, request_for(), Script([head, Raw(page), End()]))
    assert observation.ending == "malformed"
    assert observation.error is not None
    assert "welcome" in observation.error


HOSTILE = {
    "no HTTP at all": (Script([Raw(b"220 ftp ready\r\n"), Reset()]), ("malformed", "unreachable")),
    "a header of 1 MB": (Script([Raw(b"HTTP/1.1 200 OK\r\nx: " + b"a" * 1_000_000)]), ("malformed",)),
    "10,000 headers": (Script([Raw(b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 10_000 + b"\r\n")]), ("malformed",)),
    "a broken chunk size": (Script([Head(), Raw(b"zz\r\nhello\r\n")]), ("malformed", "unreachable", "reset")),
    "a number as event": (said(sse(b"17")), ("malformed",)),
    "content that is a list": (said(sse({"choices": [{"delta": {"content": [1]}}]})), ("malformed",)),
    "nested beyond reason": (said(sse(b"[" * 100_000)), ("malformed",)),
    "an empty body": (said(), ("no_finish",)),
    "bytes that are no events": (said(b"\x00\xff" * 1000, b"\n\n"), ("no_finish",)),
    "a finish reason of 1 MB": (said(text_event("a"), FINISH.replace(b"stop", b"s" * 10**6), DONE), ("complete",)),
    "usage of the wrong types": (
        said(text_event("a"), FINISH, sse({"choices": [], "usage": {"prompt_tokens": "x", "completion_tokens": -1}})),
        ("complete",),
    ),
    "an id beyond 64 bits": (
        said(sse(b'{"choices":[{"delta":{"content":"a"},"token_ids":[99999999999999999999999]}]}'), FINISH, DONE),
        ("malformed",),
    ),
}


@pytest.mark.parametrize("what", HOSTILE)
async def test_hostile_servers_get_an_ending(wire: WireClient, fake: FakeServer, request_for: Make, what: str) -> None:
    """Whatever a server sends, the exchange ends without an exception, in bounded size, fit for the history."""
    script, endings = HOSTILE[what]
    observation = await observed(wire, fake, request_for(), script)
    assert observation.ending in endings
    assert len(observation.error or "") <= 2000
    assert len(observation.finish_reason or "") <= 200


async def test_text_that_is_no_unicode_is_repaired(wire: WireClient, fake: FakeServer, request_for: Make) -> None:
    """Lone surrogates, bytes that are not UTF-8 and NaN are let through with the text repaired, and named."""
    script = said(
        sse(b'{"choices":[{"delta":{"content":"a\\ud800b"}}]}'),
        sse(b'{"choices":[{"delta":{"content":"c\xffd"}}]}'),
        sse(b'{"choices":[{"delta":{"content":"e"},"logprobs":{"content":[{"token":"e","logprob":NaN}]}}]}'),
        FINISH,
        DONE,
    )
    observation = await observed(wire, fake, request_for(), script)
    assert observation.content == "a\ufffdbc\ufffdde"
    assert observation.logprobs is not None
    assert observation.logprobs[0].logprob == -9999.0
    assert "repaired_json" in observation.defects
    assert observation.ending == "complete"


async def test_tool_calls_are_bounded_in_number(wire: WireClient, fake: FakeServer, request_for: Make) -> None:
    """An index of a billion is one call like any other, and beyond 1,024 calls the rest is dropped and named."""
    far = sse({"choices": [{"delta": {"tool_calls": [{"index": 10**9, "id": "far", "function": {"name": "f"}}]}}]})
    many = [{"index": i, "function": {"arguments": "{}"}} for i in range(3000)]
    script = said(far, sse({"choices": [{"delta": {"tool_calls": many}}]}), FINISH, DONE)
    observation = await observed(wire, fake, request_for(), script)
    assert len(observation.tool_calls) == 1024
    assert observation.tool_calls[-1].id == "far"
    assert "too_many_tool_calls" in observation.defects


async def test_an_endless_line_is_given_up(wire: WireClient, fake: FakeServer, request_for: Make) -> None:
    """A line without an end is closed at 8 MiB, and the server notices."""
    block = Send(b"x" * 65536)
    fake.policy = lambda ask: Script([Head(), Send(b"data: "), *[block] * 300, Silence()])
    exchange = await wire.exchange(request_for(), KEEP)
    assert exchange.observation.ending == "too_large"
    assert exchange.observation.censored
    await asyncio.wait_for(fake.chats[0].done.wait(), 5)
    assert fake.chats[0].hung_up


async def test_an_endless_answer_is_given_up(wire: WireClient, fake: FakeServer, request_for: Make) -> None:
    """An answer beyond 64 MiB is closed; the raw bytes kept are its head and tail, 16 MiB in all."""
    event = Raw(framed(text_event("y" * 60_000)) * 16)
    fake.policy = lambda ask: Script([Head(), *[event] * 80, Silence()])
    exchange = await wire.exchange(request_for(), KEEP)
    assert exchange.observation.ending == "too_large"
    assert exchange.raw_truncated
    assert len(exchange.raw) <= 16 * 1024 * 1024


async def test_very_many_tiny_chunks_are_read(wire: WireClient, fake: FakeServer, request_for: Make) -> None:
    """A hundred thousand one-token chunks are one answer like any other."""
    one_token = framed(b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n')
    script = Script([Head(), *[Raw(one_token * 1000)] * 100, Send(FINISH), Send(DONE), End()])
    observation = await observed(wire, fake, request_for(), script)
    assert (observation.chunks, len(observation.content), observation.ending) == (100_000, 100_000, "complete")


async def test_what_follows_the_end_marker_is_ignored(wire: WireClient, fake: FakeServer, request_for: Make) -> None:
    """Text after [DONE] is no part of the answer, and a server that holds the line open does not hold us up."""
    script = Script([Head(), Send(text_event("a") + FINISH + DONE + text_event("b")), Silence()])
    observation = await asyncio.wait_for(observed(wire, fake, request_for(), script), 5)
    assert (observation.content, observation.ending) == ("a", "complete")


async def test_a_sink_that_raises_ends_the_exchange(wire: WireClient, fake: FakeServer, request_for: Make) -> None:
    """Our own bug is not taken for the server's: the sink's exception comes out, and the connection is closed."""
    fake.policy = lambda ask: Script([Head(), Send(text_event("a")), Silence()])

    def sink(chunk: Chunk) -> bool:
        raise LookupError("ours")

    with pytest.raises(LookupError, match="ours"):
        await wire.exchange(request_for(), sink)
    await asyncio.wait_for(fake.chats[0].done.wait(), 5)
    assert fake.chats[0].hung_up


async def test_a_body_with_lone_surrogates_is_sent(wire: WireClient, fake: FakeServer, request_for: Make) -> None:
    """Text that cannot be UTF-8 goes out escaped instead of failing the turn."""
    request = request_for(body_changes={"messages": [{"role": "user", "content": "a\ud800"}]})
    assert (await wire.exchange(request, KEEP)).observation.ending == "complete"
    assert fake.chats[0].body is not None
    assert fake.chats[0].body["messages"][0]["content"] == "a\ud800"


async def test_one_connection_serves_turn_after_turn(wire: WireClient, fake: FakeServer, request_for: Make) -> None:
    """After a whole answer the connection is used again."""
    for _ in range(5):
        await wire.exchange(request_for(), KEEP)
    assert fake.connected == 1


async def test_raw_is_the_body_as_it_came(wire: WireClient, fake: FakeServer, request_for: Make) -> None:
    """The raw bytes are the events in order, byte for byte, also of an answer that broke off."""
    fake.policy = one("no_finish")
    exchange = await wire.exchange(request_for(), KEEP)
    texts = [json.loads(line[6:]) for line in exchange.raw.split(b"\n\n") if line]
    assert "".join(text["choices"][0]["delta"].get("content", "") for text in texts) == exchange.observation.content


def test_an_exchange_is_immutable(request_for: Make) -> None:
    """A request cannot be changed after it is made, only replaced."""
    request = request_for()
    with pytest.raises(AttributeError):
        request.session = "other"  # type: ignore[misc]
    assert msgspec.structs.replace(request, session="other").session == "other"
