"""What passes through the proxy: bytes, order, status and headers as the target sent them."""

import asyncio
import gzip
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from fakes import (
    Answer,
    Ask,
    Call,
    Close,
    End,
    FakeServer,
    Head,
    Reset,
    Script,
    Send,
    Silence,
    Step,
    Until,
    cut,
    events,
    framed,
    one,
    stream,
)
from rigs.proxying import Between, between, dechunked, http, raw_exchange

from soak.proxy.headers import passed_on

BODY = {"model": "fake-model", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 300, "stream": True}
CHAT = "/v1/chat/completions"
ANSWER = Answer(content="All tests pass now. The parser keeps the last line.", reasoning="Let me think about it first.")
DEEP = b'{"messages":' + b"[" * 100 + b"]" * 100 + b"}"
CALLS = Answer(content="", calls=(Call("bash", '{"command": "ls"}', "c1"),), finish="tool_calls")


@pytest.fixture
async def fake() -> AsyncIterator[FakeServer]:
    """The scripted server behind the proxy."""
    async with FakeServer() as server:
        yield server


@pytest.fixture
async def proxy(fake: FakeServer, tmp_path: Path) -> AsyncIterator[Between]:
    """A proxy in front of it."""
    async with between(fake.url, tmp_path / "run") as made:
        yield made


def encoded(**changes: Any) -> bytes:
    """Return the body of a chat request."""
    return json.dumps({**BODY, **changes}).encode()


def split(reply: bytes) -> tuple[list[str], bytes]:
    """Return the head's lines and the body of a raw answer."""
    head, _, body = reply.partition(b"\r\n\r\n")
    return head.decode().split("\r\n"), body


def recut(ask: Ask) -> Script:
    """Answer in HTTP chunks of five bytes, wherever that cuts an event."""
    return Script([Head(), *cut([item.data for item in events(ANSWER, ask.style)], 5), End()], finish="stop")


SCRIPTS = {
    "answer": lambda ask: stream(ANSWER, ask),
    "calls": lambda ask: stream(CALLS, ask),
    "recut": lambda ask: recut(ask),
    "error_event": one("error_event"),
    "malformed": one("malformed"),
    "no_finish": one("no_finish"),
    "http_429": one("http_429"),
    "http_500": one("http_500"),
    "loop": one("loop"),
}


@pytest.mark.parametrize("name", SCRIPTS)
async def test_raw_bytes_are_those_of_the_target(fake: FakeServer, proxy: Between, name: str) -> None:
    """Status line, headers in order, and body are the same through the proxy as without it, whatever the answer."""
    fake.policy = SCRIPTS[name]
    request = http("POST", CHAT, encoded(stream_options={"include_usage": True}), "content-type: application/json")
    direct, through = [split(await raw_exchange(port, request)) for port in (fake.port, proxy.port)]
    assert payload(through) == payload(direct)
    assert head(through) == head(direct)


def head(reply: tuple[list[str], bytes]) -> list[str]:
    """Return the status line and the headers that do not concern the connection alone."""
    hop = ("connection:", "transfer-encoding:")
    return [line for line in reply[0] if not line.lower().startswith(hop)]


def payload(reply: tuple[list[str], bytes]) -> tuple[bytes, bool]:
    """Return the body and whether it came to its end."""
    lines = [line.lower() for line in reply[0]]
    return dechunked(reply[1]) if "transfer-encoding: chunked" in lines else (reply[1], True)


@pytest.mark.parametrize("path", ["/v1/models", "/metrics", "/version", "/health", "/v1/nothing?a=%20b&c=%2F", "/"])
async def test_other_paths_pass(fake: FakeServer, proxy: Between, path: str) -> None:
    """Every other path is passed on as it stands in the request line, and its answer back."""
    request = http("GET", path)
    direct, through = [split(await raw_exchange(port, request)) for port in (fake.port, proxy.port)]
    assert (head(through), payload(through)) == (head(direct), payload(direct))


ANTHROPIC = b"""event: message_start
data: {"type":"message_start","message":{"id":"m","role":"assistant","content":[]}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"h\\u00e9"}}

event: message_stop
data: {"type":"message_stop"}

"""


@pytest.mark.parametrize(
    "path", ["/v1/messages", "/v1/messages?beta=true", "/v1/messages/count_tokens", "/v1/responses"]
)
async def test_other_apis_pass(fake: FakeServer, proxy: Between, path: str) -> None:
    """A stream of Anthropic's messages passes byte for byte, with its key; what is no turn of its API is counted."""
    fake.fixed[path.partition("?")[0]] = (200, "text/event-stream", ANTHROPIC)
    body = b'{"model": "fake-model", "max_tokens": 9, "stream": true, "messages": [{"role": "user", "content": "hi"}]}'
    request = http("POST", path, body, "x-api-key: sk-of-a-client-0123", "anthropic-version: 2023-06-01")
    direct, through = [split(await raw_exchange(port, request)) for port in (fake.port, proxy.port)]
    assert (head(through), payload(through)) == (head(direct), (ANTHROPIC, True))
    first, second = fake.received
    assert second.body == first.body == json.loads(body)
    assert second.headers["x-api-key"] == "sk-of-a-client-0123"
    assert second.headers["anthropic-version"] == "2023-06-01"
    if path.startswith("/v1/messages") and "count" not in path:
        (record,) = await proxy.ear.ends(1)
        assert record.observation is not None and record.observation.content == "h\u00e9"
        return
    assert proxy.ear.keys == []
    proxy.recorder.tell_counts()
    words = "responses, unreadable: the body has no input" if path == "/v1/responses" else "POST count_tokens"
    assert f"1 exchange was passed on and not judged (1 {words})" in proxy.ear.events[-1].text


async def test_completions_are_turns(fake: FakeServer, proxy: Between) -> None:
    """A stream of the completions API passes byte for byte and is a turn like a chat's."""
    texts = ("The loader reads the file once", " and keeps it.")
    choices = [{"index": 0, "text": text, "finish_reason": "stop" if text is texts[-1] else None} for text in texts]
    data = b"".join(b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n" for choice in choices)
    fake.fixed["/v1/completions"] = (200, "text/event-stream", data + b"data: [DONE]\n\n")
    request = http("POST", "/v1/completions", b'{"model": "fake-model", "prompt": "Explain.", "stream": true}')
    assert payload(split(await raw_exchange(proxy.port, request))) == (data + b"data: [DONE]\n\n", True)
    (record,) = await proxy.ear.ends(1)
    assert record.observation is not None and record.observation.content == "".join(texts)
    assert (proxy.ear.classes, record.key.episode.partition("-")[0]) == (["ok"], "completion")


async def test_request_is_not_changed(fake: FakeServer, proxy: Between) -> None:
    """The target gets the client's bytes and headers: odd spacing, unknown fields, keys, and no header of our own."""
    raw = b'{ "model":"fake-model",\n"zzz": 1.50, "messages":[{"role":"user","content":"h\\u00e9"}] }'
    seen = await received(
        fake, proxy, http("POST", CHAT, raw, "Authorization: Bearer k", "X-Odd: a  b", "TE: trailers")
    )
    assert seen["body"] == raw
    assert seen["headers"]["authorization"] == "Bearer k"
    assert seen["headers"]["x-odd"] == "a  b"
    assert not {"te", "accept", "user-agent", "accept-encoding", "content-type", "via"} & seen["headers"].keys()
    assert seen["headers"]["host"] == f"127.0.0.1:{seen['port']}"


async def test_token_ids_are_the_one_change(fake: FakeServer, tmp_path: Path) -> None:
    """With token_ids the body has `return_token_ids` at its head and is otherwise the client's, byte for byte."""
    raw = b' {"messages":[{"role":"user","content":"hi"}],   "model":"fake-model"}'
    async with between(fake.url, tmp_path / "run", token_ids=True) as proxy:
        seen = await received(fake, proxy, http("POST", CHAT, raw))
        again = await received(fake, proxy, http("POST", CHAT, b'{"return_token_ids":false,' + raw.strip()[1:]))
    assert seen["body"] == raw.replace(b"{", b'{"return_token_ids":true,', 1)
    assert again["body"] == b'{"return_token_ids":false,' + raw.strip()[1:]


async def received(fake: FakeServer, proxy: Between, request: bytes) -> dict[str, Any]:
    """Pass a request on to a bare listener in the fake's place, and return what it got there."""
    got: dict[str, Any] = {}

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        top = await reader.readuntil(b"\r\n\r\n")
        lines = top.decode().split("\r\n")[1:-2]
        got["headers"] = {name.lower(): value.strip() for name, value in (line.split(":", 1) for line in lines)}
        got["body"] = await reader.readexactly(int(got["headers"].get("content-length", 0)))
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok")
        await writer.drain()
        writer.close()

    await fake.stop()
    listener = await asyncio.start_server(serve, "127.0.0.1", fake.port)
    async with listener:
        await raw_exchange(proxy.port, request)
    await listener.wait_closed()
    return {**got, "port": fake.port}


async def test_a_stream_is_not_held_back(fake: FakeServer, proxy: Between) -> None:
    """The head and each read reach the client while the target still waits to send the next."""
    first, second = b"data: one\n\n", b"data: two\n\n"
    fake.policy = lambda ask: Script([Head(), Until("head"), Send(first), Until("first"), Send(second), End()])
    async with aiohttp.ClientSession() as session, session.post(proxy.url + CHAT, data=encoded()) as answer:
        assert answer.status == 200
        fake.event("head").set()
        assert await answer.content.readany() == first
        fake.event("first").set()
        assert await answer.content.read() == second


async def test_a_client_that_hangs_up_is_passed_on(fake: FakeServer, proxy: Between) -> None:
    """Where the client hangs up in mid-stream the target sees it, and the turn is indeterminate and says why."""
    fake.policy = lambda ask: Script([Head(), Send(b'data: {"choices":[{"delta":{"content":"x"}}]}\n\n'), Silence()])
    async with aiohttp.ClientSession() as session:
        answer = await session.post(proxy.url + CHAT, data=encoded())
        await answer.content.readany()
        answer.close()
        async with asyncio.timeout(10):
            await fake.chats[0].done.wait()
    assert fake.chats[0].hung_up
    (record,) = await proxy.ear.ends(1)
    assert record.outcome == "indeterminate"
    assert "hung up after 1 chunks" in (record.reason or "")


async def test_a_client_that_hangs_up_on_a_loop_leaves_garbage(fake: FakeServer, proxy: Between) -> None:
    """Hanging up on an answer that certainly loops does not hide it: the turn is a garbage loop."""
    event = b'data: {"choices":[{"delta":{"content":" the the the the"}}]}\n\n'
    fake.policy = lambda ask: Script([Head(), *[Send(event)] * 600, Silence()])
    async with aiohttp.ClientSession() as session:
        answer = await session.post(proxy.url + CHAT, data=encoded(max_tokens=9000))
        async with asyncio.timeout(20):
            while not any(signal.certain for signal in proxy.ear.signals):
                await answer.content.readany()
        answer.close()
        (record,) = await proxy.ear.ends(1)
    assert record.judgement is not None and record.judgement.class_ == "garbage_loop"
    assert record.observation is not None and record.observation.censored


@pytest.mark.parametrize("step", [Reset(), Close()])
async def test_a_cut_answer_is_cut_for_the_client(fake: FakeServer, proxy: Between, step: Step) -> None:
    """An answer that breaks off at the target has the same bytes at the client, and no end either."""
    sent = b'data: {"choices":[{"delta":{"content":"half"}}]}\n\n'
    sent_on = asyncio.Event()

    def steps() -> Iterator[Step]:
        yield from (Head(), Send(sent))
        sent_on.set()
        yield from (Until("go"), step)

    fake.policy = lambda ask: Script(steps())
    reading = asyncio.create_task(raw_exchange(proxy.port, http("POST", CHAT, encoded())))
    async with asyncio.timeout(10):
        await sent_on.wait()
    fake.event("go").set()
    assert payload(split(await reading)) == (sent, False)
    (record,) = await proxy.ear.ends(1)
    assert record.observation is not None and record.observation.ending == "reset"


async def test_an_unreachable_target_is_told(fake: FakeServer, proxy: Between) -> None:
    """A target that is gone gives a 502 in OpenAI's shape, an error turn, and one event until it answers again."""
    await fake.stop()
    for _ in range(2):
        lines, body = split(await raw_exchange(proxy.port, http("POST", CHAT, encoded())))
        assert lines[0].split()[1] == "502"
        error = json.loads(body)["error"]
        assert error["type"] == "upstream_unreachable"
        assert error["code"] == "502"
        assert "did not answer" in error["message"]
    await fake.start()
    await raw_exchange(proxy.port, http("POST", CHAT, encoded()))
    await proxy.ear.ends(3)
    assert proxy.ear.classes == ["error", "error", "ok"]
    assert [event.kind for event in proxy.ear.events if event.kind.startswith("server")] == [
        "server_down",
        "server_back",
    ]


async def test_bodies_beyond_the_limit_are_refused(fake: FakeServer, tmp_path: Path) -> None:
    """A body larger than the limit gets a 413 that names it and never reaches the target, counted length or not."""
    async with between(fake.url, tmp_path / "run", body_limit_bytes=1000) as proxy:
        whole = split(await raw_exchange(proxy.port, http("POST", CHAT, b"x" * 1001)))
        request = http("POST", CHAT, b"", "transfer-encoding: chunked") + framed(b"y" * 1200) + framed(b"")
        chunked = split(await raw_exchange(proxy.port, request))
        good = split(await raw_exchange(proxy.port, http("POST", CHAT, encoded())))
    assert {whole[0][0].split()[1], chunked[0][0].split()[1]} == {"413"}
    assert "larger than 1000 bytes" in json.loads(whole[1])["error"]["message"]
    assert good[0][0].split()[1] == "200"
    assert len(fake.received) == 1


@pytest.mark.parametrize("body", [b"{", b"[]", b"null", b'{"messages": 5}', b'{"messages": []}', b"\xff", DEEP])
async def test_malformed_bodies_pass_unjudged(fake: FakeServer, proxy: Between, body: bytes) -> None:
    """A body that is no chat request is passed on, its answer back, and counted; it is no turn."""
    direct, through = [split(await raw_exchange(port, http("POST", CHAT, body))) for port in (fake.port, proxy.port)]
    assert (head(through), payload(through)) == (head(direct), payload(direct))
    proxy.recorder.tell_counts()
    assert not proxy.ear.keys
    assert "1 exchange was passed on and not judged" in proxy.ear.events[-1].text


async def test_headers_without_end_are_refused(proxy: Between) -> None:
    """A flood of headers is answered with 400 and does not stop the next request."""
    flood = [f"x-{i}: {'y' * 50}" for i in range(5000)]
    lines, _ = split(await raw_exchange(proxy.port, http("GET", "/v1/models", b"", *flood)))
    assert lines[0].split()[1] == "400"
    lines, _ = split(await raw_exchange(proxy.port, http("GET", "/v1/models")))
    assert lines[0].split()[1] == "200"


async def test_compressed_answers_pass_as_they_are(fake: FakeServer, proxy: Between) -> None:
    """A gzip stream reaches the client compressed as it was, and its turn is judged all the same."""
    plain = b"".join(item.data for item in events(ANSWER))
    packed = gzip.compress(plain)
    top = Head(headers=(("content-type", "text/event-stream"), ("content-encoding", "gzip")))
    fake.policy = lambda ask: Script([top, *cut([packed], 7), End()])
    reply = split(await raw_exchange(proxy.port, http("POST", CHAT, encoded())))
    assert payload(reply) == (packed, True)
    (record,) = await proxy.ear.ends(1)
    assert record.observation is not None and record.observation.content == ANSWER.content
    assert proxy.ear.classes == ["ok"]


async def test_an_answer_compressed_in_pieces_is_heard(fake: FakeServer, proxy: Between) -> None:
    """A stream of which each event is compressed by itself is judged like one that is compressed as a whole."""
    packed = b"".join(gzip.compress(item.data) for item in events(ANSWER)) + bytes(8)
    top = Head(headers=(("content-type", "text/event-stream"), ("content-encoding", "gzip")))
    fake.policy = lambda ask: Script([top, *cut([packed], 100), End()])
    assert payload(split(await raw_exchange(proxy.port, http("POST", CHAT, encoded())))) == (packed, True)
    (record,) = await proxy.ear.ends(1)
    assert record.observation is not None and record.observation.content == ANSWER.content
    assert proxy.ear.classes == ["ok"]


async def test_a_reply_before_the_answer_is_none(fake: FakeServer, proxy: Between) -> None:
    """A change of protocol that nobody asked for is not passed on: the client gets a 502, the turn is an error."""
    fake.policy = lambda ask: Script([Head(status=101, chunked=False), Close()])
    lines, _ = split(await raw_exchange(proxy.port, http("POST", CHAT, encoded())))
    assert lines[0].split()[1] == "502"
    await proxy.ear.ends(1)
    assert proxy.ear.classes == ["error"]


@pytest.mark.parametrize("name", [b"Cookie: a=", b"Authorization: Bearer ", b"X-Api-Key: "])
async def test_keys_that_are_no_text_do_not_stop_a_request(fake: FakeServer, proxy: Between, name: bytes) -> None:
    """A key or cookie with bytes that are not UTF-8 is not passed on; its request is, and is judged."""
    fake.policy = lambda ask: stream(ANSWER, ask)
    request = http("POST", CHAT, encoded()).replace(b"host: x\r\n", b"host: x\r\n" + name + b"\xff" * 20 + b"\r\n")
    lines, _ = split(await raw_exchange(proxy.port, request))
    assert lines[0].split()[1] == "200"
    await proxy.ear.ends(1)
    assert proxy.ear.classes == ["ok"]


async def test_what_is_no_http_is_counted(proxy: Between, capfd: pytest.CaptureFixture[str]) -> None:
    """A request line that cannot be read gets a 400 and is counted; no traceback is printed for it."""
    lines, _ = split(await raw_exchange(proxy.port, b"POST @elsewhere/v1 HTTP/1.1\r\nhost: x\r\n\r\n"))
    assert lines[0].split()[1] == "400"
    proxy.recorder.tell_counts()
    assert "no HTTP that can be read" in proxy.ear.events[-1].text
    assert capfd.readouterr().err == ""


async def test_a_slow_client_holds_the_target_back(fake: FakeServer, proxy: Between) -> None:
    """A client that does not read keeps the target from sending on: little is held in between, and all arrives."""
    piece = b"data: " + b"x" * 65_000 + b"\n\n"
    fake.policy = lambda ask: Script([Head(), *[Send(piece, tokens=1)] * 400, End()])
    async with aiohttp.ClientSession(read_bufsize=2**16) as session:
        answer = await session.post(proxy.url + CHAT, data=encoded())
        before = -1
        while fake.engine.generation_tokens != before:  # until it stands still
            before = fake.engine.generation_tokens
            await asyncio.sleep(0.2)
        assert before < 300
        assert len(await answer.content.read()) == 400 * len(piece)


async def test_a_big_prompt_passes(fake: FakeServer, proxy: Between) -> None:
    """A system prompt of ten thousand lines passes and is judged, with an Expect header as curl sends it."""
    fake.engine.context_tokens = 10**9
    prompt = "\n".join(f"rule {i}: never touch file_{i}.py without a test" for i in range(10_000))
    body = encoded(messages=[{"role": "system", "content": prompt}, *BODY["messages"]])
    reply = await raw_exchange(proxy.port, http("POST", CHAT, body, "Expect: 100-continue"))
    assert reply.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK")
    await proxy.ear.ends(1)
    assert fake.chats[0].body is not None and fake.chats[0].body["messages"][0]["content"] == prompt


async def test_upgrades_are_refused(fake: FakeServer, proxy: Between) -> None:
    """A WebSocket is refused in words, and nothing of it reaches the target."""
    lines, body = split(await raw_exchange(proxy.port, http("GET", "/v1/realtime", b"", "Upgrade: websocket")))
    assert lines[0].split()[1] == "501"
    assert "WebSocket" in json.loads(body)["error"]["message"]
    assert not fake.received


async def test_an_offered_upgrade_is_passed_over(fake: FakeServer, proxy: Between) -> None:
    """A client that would rather speak HTTP/2, as Java's does, gets its answer, and a connection that is closed."""
    fake.policy = lambda ask: stream(ANSWER, ask)
    offer = ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQ")
    request = http("POST", CHAT, encoded(), *offer).replace(b"connection: close\r\n", b"")
    lines, _ = split(await raw_exchange(proxy.port, request))
    assert lines[0].split()[1] == "200"
    assert "Connection: close" in lines
    await proxy.ear.ends(1)
    assert proxy.ear.classes == ["ok"]
    assert not {"upgrade", "http2-settings"} & fake.received[0].headers.keys()


def test_headers_of_one_connection_stay_behind() -> None:
    """Hop-by-hop headers, those that Connection names, and those that cannot be written again are not passed on."""
    given = [("Connection", "close, X-Mine"), ("X-Mine", "1"), ("Set-Cookie", "a=1"), ("set-cookie", "b=2")]
    given += [("Keep-Alive", "timeout=5"), ("X-Bad", "a\x01b"), ("X-Raw", "\udcff"), ("Content-Length", "3")]
    assert passed_on(given, request=False) == [("Set-Cookie", "a=1"), ("set-cookie", "b=2"), ("Content-Length", "3")]
    assert passed_on(given, request=True) == [("Set-Cookie", "a=1"), ("set-cookie", "b=2")]


async def test_the_official_client_works_through_it(fake: FakeServer, proxy: Between) -> None:
    """The openai package gets models, whole answers and streams through the proxy, and a refusal as its own error."""
    import openai

    fake.policy = lambda ask: stream(ANSWER, ask)
    async with openai.AsyncOpenAI(base_url=f"{proxy.url}/v1", api_key="sk-0123456789", max_retries=0) as client:
        assert [model.id async for model in client.models.list()] == ["fake-model"]
        options: dict[str, Any] = {"model": "fake-model", "messages": BODY["messages"], "max_tokens": 300}
        whole = await client.chat.completions.create(**options)
        chunks = await client.chat.completions.create(**options, stream=True)
        said = "".join([chunk.choices[0].delta.content or "" async for chunk in chunks if chunk.choices])
        fake.policy = one("http_429")
        with pytest.raises(openai.RateLimitError):
            await client.chat.completions.create(**options, stream=True)
        await fake.stop()
        with pytest.raises(openai.InternalServerError, match="did not answer"):
            await client.chat.completions.create(**options)
    assert whole.choices[0].message.content
    assert said == ANSWER.content
    await proxy.ear.ends(4)
    assert proxy.ear.classes == ["ok", "ok", "error", "error"]
