"""What is made of the answers that pass: whole ones, completions, errors, hostile bytes; and what is never kept."""

import gzip
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from fakes import Answer, Call, End, FakeServer, Head, Script, Send, Style
from fakes.answers import sse, whole
from fakes.faults import loop_answer, stream
from hypothesis import given, settings
from hypothesis import strategies as st
from rigs.cli import holds_bytes
from rigs.proxying import Between, between, http, raw_exchange

from soak.app.judging import check_run
from soak.classify import DEFAULTS
from soak.client import Scrub
from soak.facts import Record, TurnKey, encode
from soak.proxy import Hearing, Recording, UnreadableAskError, read_asked, recording_of

KEY = TurnKey(episode="e", turn=0, pass_=0, arm="candidate")
CHAT = {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 100}
PLAIN = Scrub(api_key=None, basic=None)
SECRET = "sk-secret-0123456789abcdef"


def hear(*reads: bytes, door: Any = "chat/completions", status: int = 200, **headers: str) -> Record:
    """Return what an answer comes to; `headers` with - for _."""
    asked = read_asked(door, encode(CHAT if door == "chat/completions" else {"prompt": "hello"}))
    hearing = Hearing(KEY, asked, DEFAULTS, PLAIN, lambda *_: None)
    hearing.head(status, {name.replace("_", "-"): value for name, value in headers.items()})
    for data in reads:
        hearing.feed(data, hearing.begun_s + 1)
    hearing.end(hearing.begun_s + 2)
    return hearing.record(0.0, 0.0)


def test_a_whole_answer_is_a_turn() -> None:
    """An answer that is not streamed has its text, calls, usage and class; a time to the first token it has not."""
    answer = Answer(content="I look.", calls=(Call("a", "{}", "1"), Call("b", '{"x": 1}', "2")), finish="tool_calls")
    record = hear(encode(whole(answer, Style())), content_type="application/json")
    seen = record.observation
    assert record.judgement is not None and record.judgement.class_ == "ok"
    assert seen is not None and (seen.content, seen.ending, seen.finish_reason) == ("I look.", "complete", "tool_calls")
    calls = [(call.id, call.name, call.arguments) for call in seen.tool_calls]
    assert calls == [("1", "a", "{}"), ("2", "b", '{"x": 1}')]
    assert seen.usage is not None and seen.usage.completion
    assert seen.ttft_ms is None
    assert seen.e2e_ms == pytest.approx(2000)


def test_a_whole_answer_without_end_is_an_error() -> None:
    """JSON that is cut short, and JSON that is no completion, are malformed answers."""
    body = encode(whole(Answer(content="I look at it."), Style()))
    for data in (body[:-20], b"", b"[]", b'{"choices": [{"message": 5}]}', b"\xff"):
        record = hear(data, content_type="application/json")
        assert record.judgement is not None and record.judgement.class_ == "error"
        assert record.observation is not None and record.observation.ending in ("malformed", "no_finish")


@pytest.mark.parametrize("streamed", [True, False])
def test_completions_are_judged(streamed: bool) -> None:
    """The completions API's text is heard like a chat's content, streamed or whole."""
    text = "The loader reads the file once and keeps it."
    choices = [{"index": 0, "text": piece, "finish_reason": None} for piece in (text[:9], text[9:])]
    choices[-1]["finish_reason"] = "stop"
    if streamed:
        reads = [b"data: " + encode({"choices": [choice]}) + b"\n\n" for choice in choices] + [b"data: [DONE]\n\n"]
        record = hear(*reads, door="completions", content_type="text/event-stream")
    else:
        body = {"choices": [{"index": 0, "text": text, "finish_reason": "stop"}], "usage": {"completion_tokens": 9}}
        record = hear(encode(body), door="completions", content_type="application/json")
    assert record.observation is not None and record.observation.content == text
    assert record.judgement is not None and record.judgement.class_ == "ok"


def test_refusals_are_errors_in_their_own_words() -> None:
    """An HTTP error is an error turn that says the status and what the server said."""
    record = hear(b'{"error": {"message": "slow down"}}', status=429, content_type="application/json")
    assert record.observation is not None and record.observation.error == "HTTP 429: slow down"
    assert record.judgement is not None and record.judgement.class_ == "error"


def test_what_cannot_be_unpacked_is_not_guessed_at() -> None:
    """An answer in a coding we do not know is indeterminate and says so; one that is broken gzip is malformed."""
    record = hear(b"\x00\x01", content_type="text/event-stream", content_encoding="br")
    assert (record.outcome, record.reason) == (
        "indeterminate",
        "the answer is compressed (br), and was passed on unread",
    )
    record = hear(b"not gzip", content_type="text/event-stream", content_encoding="gzip")
    assert record.observation is not None and record.observation.ending == "malformed"


HEADS = st.sampled_from([("text/event-stream", ""), ("application/json", ""), ("application/json", "gzip"), ("", "")])


@settings(max_examples=100, deadline=None)
@given(HEADS, st.sampled_from([200, 204, 400, 500]), st.lists(st.binary(max_size=60), max_size=6), st.booleans())
def test_no_answer_raises(head: tuple[str, str], status: int, reads: list[bytes], in_event: bool) -> None:
    """Whatever bytes an answer has, hearing it comes to a record and never to an exception."""
    wrapped = [b"data: " + data + b"\n\n" for data in reads] if in_event else reads
    record = hear(*wrapped, status=status, content_type=head[0], content_encoding=head[1] or "identity")
    assert record.outcome in ("finished", "indeterminate")


NAMES = st.sampled_from(["role", "content", "x"])
JSONS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["role", "content", "x"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(max_examples=40, deadline=None)
@given(JSONS, JSONS, JSONS, JSONS)
def test_no_request_raises(messages: Any, tools: Any, limit: Any, prompt: Any) -> None:
    """Whatever JSON a request is, it is read as one turn or refused in words."""
    fields = {"messages": messages, "tools": tools, "max_tokens": limit, "prompt": prompt, "seed": limit}
    body = json.dumps(fields).encode()
    for door in ("chat/completions", "completions"):
        try:
            assert read_asked(door, body).chain.nodes  # type: ignore[arg-type]
        except UnreadableAskError as why:
            assert str(why)


@pytest.mark.parametrize("header", [f"Authorization: Bearer {SECRET}", f"x-api-key: {SECRET}", f"api-key: {SECRET}"])
async def test_keys_are_never_kept(header: str, tmp_path: Path) -> None:
    """A client's key reaches the server and the client, and nothing of the run, also where prompt or answer hold it."""
    choice = {"index": 0, "delta": {"content": f"I'll print {SECRET} and"}, "finish_reason": "stop"}
    script = Script([Head(), Send(sse({"choices": [choice]}) + sse(b"[DONE]")), End()])
    prompt = [{"role": "user", "content": f"key={SECRET}"}]
    body = encode({"model": "fake-model", "messages": prompt, "stream": True})
    async with FakeServer(lambda ask: script) as fake:
        async with between(fake.url, tmp_path / "run") as proxy:
            reply = await raw_exchange(proxy.port, http("POST", "/v1/chat/completions", body, header))
            await proxy.ear.ends(1)
        assert SECRET.encode() in reply
        assert fake.chats[0].headers[header.split(":")[0].lower()].endswith(SECRET)
    with closing(sqlite3.connect(tmp_path / "run" / "history.sqlite")) as history:
        assert history.execute("SELECT count(*) FROM raw").fetchone() == (1,)
    with proxy.folder.history() as history:
        assert SECRET.encode() not in (history.raw(proxy.ear.keys[0]) or b"")
    assert not holds_bytes(tmp_path, SECRET.encode())


@pytest.mark.parametrize(
    ("query", "header", "field"),
    [
        (f"?api-version=1&key={SECRET}", "accept: */*", {}),
        (f"?access_token={SECRET.replace('-', '%2D')}", "accept: */*", {}),
        ("", f"x-litellm-api-key: {SECRET}", {}),
        ("", f"ocp-apim-subscription-key: {SECRET}", {}),
        ("", f"helicone-auth: Bearer {SECRET}", {}),
        ("", f"cookie: session={SECRET}", {}),
        ("", "accept: */*", {"api_key": SECRET}),
    ],
)
async def test_keys_that_a_server_repeats_are_never_kept(
    query: str, header: str, field: dict[str, str], tmp_path: Path
) -> None:
    """A key in a query, in a header of a gateway's own or in the body is not kept, though the refusal repeats it."""
    refusal = encode({"error": {"message": f"the key {SECRET} is not known"}})
    body = encode({"model": "fake-model", "messages": CHAT["messages"], "stream": True, **field})
    script = Script([Head(status=401, headers=(("content-type", "application/json"),)), Send(refusal), End()])
    async with FakeServer(lambda ask: script) as fake, between(fake.url, tmp_path / "run") as proxy:
        reply = await raw_exchange(proxy.port, http("POST", f"/v1/chat/completions{query}", body, header))
        (record,) = await proxy.ear.ends(1)
    assert SECRET.encode() in reply
    assert record.observation is not None and "the key *** is not known" in str(record.observation)
    assert not holds_bytes(tmp_path, SECRET.encode())


async def test_what_repeats_a_request_is_no_key(tmp_path: Path) -> None:
    """The value of an idempotency key stays where it stands in a prompt."""
    body = encode({"model": "fake-model", "messages": [{"role": "user", "content": "request 0123456789abcdef0123"}]})
    async with FakeServer() as fake, between(fake.url, tmp_path / "run") as proxy:
        header = "idempotency-key: 0123456789abcdef0123"
        await raw_exchange(proxy.port, http("POST", "/v1/chat/completions", body, header))
        await proxy.ear.ends(1)
    assert holds_bytes(tmp_path, b"request 0123456789abcdef0123")


def test_a_bomb_is_unpacked_piece_by_piece() -> None:
    """A read that unpacks to very much is taken in bounded steps, and what is left of it is told."""
    asked = read_asked("chat/completions", encode(CHAT))
    hearing = Hearing(KEY, asked, DEFAULTS, PLAIN, lambda *_: None)
    hearing.head(200, {"content-type": "application/json", "content-encoding": "gzip"})
    left = gzip.compress(b" " * (8 << 20) + encode(whole(Answer(content="I look at it."), Style())))
    steps = 0
    while left:
        left = hearing.feed_some(left, hearing.begun_s + 1)
        steps += 1
    hearing.end(hearing.begun_s + 2)
    record = hearing.record(0.0, 0.0)
    assert steps >= 8 << 20 >> 16
    assert record.observation is not None and record.observation.content == "I look at it."


async def say(proxy: Between, messages: list[dict[str, Any]], **more: Any) -> None:
    """Send one request through the proxy."""
    body = encode({"model": "fake-model", "messages": messages, "max_tokens": 50, **more})
    await raw_exchange(proxy.port, http("POST", "/v1/chat/completions", body))


async def test_a_recording_has_each_turn_once(tmp_path: Path) -> None:
    """Repeats are left out, side conversations and other tools are episodes of their own, and check judges alike."""
    user, answer = {"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}
    tools = [{"type": "function", "function": {"name": "bash"}}]
    async with FakeServer() as fake, between(fake.url, tmp_path / "run") as proxy:
        await say(proxy, [user])
        await say(proxy, [user])
        await say(proxy, [user, answer, {"role": "user", "content": "left"}])
        await say(proxy, [user, answer, {"role": "user", "content": "right"}])
        await say(proxy, [user], tools=tools)
        await proxy.ear.ends(5)
    told = Recording()
    with proxy.folder.history() as history:
        episodes = list(recording_of(history, told))
    assert [len(episode.turns) for episode in episodes] == [2, 1, 1]
    assert [bool(episode.tools) for episode in episodes] == [False, False, True]
    assert told.left_out == {"the same turn asked again": 1}
    assert all(episode.answer(turn) is not None for episode in episodes for turn in episode.turns)
    assert check_run(tmp_path / "run").arms["candidate"].turns.finished == 5


async def test_own_garbage_does_not_excuse_the_same_garbage(tmp_path: Path) -> None:
    """What the model looped on stands in the client's history, and its next loop is still one, then and later."""
    asked, unit = {"role": "user", "content": "hi"}, " and once more the same words again"
    looped = {"role": "assistant", "content": unit * 60}
    server = FakeServer(lambda ask: stream(loop_answer(ask, unit=unit), ask))
    async with server as fake, between(fake.url, tmp_path / "run") as proxy:
        await say(proxy, [asked], stream=True, max_tokens=900)
        await say(proxy, [asked, looped, asked], stream=True, max_tokens=900)
        await proxy.ear.ends(2)
    assert proxy.ear.classes == ["garbage_loop", "garbage_loop"]
    proxy.folder.update_manifest(msgspec.structs.replace(proxy.folder.manifest, classifier=None))
    assert check_run(tmp_path / "run").arms["candidate"].turns.garbage_loop == 2


async def test_a_stalled_disk_does_not_hold_up_traffic(tmp_path: Path) -> None:
    """While the history takes nothing, records are lost and told, and answers go on passing."""
    async with FakeServer() as fake, between(fake.url, tmp_path / "run") as proxy:
        with closing(sqlite3.connect(tmp_path / "run" / "history.sqlite", isolation_level=None)) as blocker:
            blocker.execute("BEGIN IMMEDIATE")
            for second in range(5000):
                proxy.recorder.tick(second)
            body = encode({**CHAT, "model": "fake-model"})
            reply = await raw_exchange(proxy.port, http("POST", "/v1/chat/completions", body))
            blocker.execute("ROLLBACK")
        assert reply.startswith(b"HTTP/1.1 200 OK")
        assert "were not taken by the disk in time" in (proxy.recorder.lost or "")
        assert [event.kind for event in proxy.ear.events] == ["not_recording"]
