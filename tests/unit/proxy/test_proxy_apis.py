"""Turns of the responses and messages APIs: judged like chats, grouped, kept, recorded; and what is not judged."""

import json
from pathlib import Path
from typing import Any

import pytest
from fakes import Answer, Call, End, FakeServer, Head, Script, Send, loop_answer, make, stream
from fakes.apis import sse
from hypothesis import given, settings
from hypothesis import strategies as st
from rigs.proxying import Between, between, http, raw_exchange

from soak.app.judging import check_run
from soak.classify import DEFAULTS
from soak.client import Scrub
from soak.facts import Message, Record, ToolCall, TurnKey, encode
from soak.proxy import Answered, Hearing, Recording, UnreadableAskError, read_asked, recording_of

KEY = TurnKey(episode="e", turn=0, pass_=0, arm="candidate")
BODIES: dict[str, dict[str, Any]] = {
    "responses": {"model": "fake-model", "input": "hello", "max_output_tokens": 900},
    "messages": {"model": "fake-model", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 900},
}
DOORS = sorted(BODIES)


def hear(door: Any, *events: dict[str, Any], whole: bytes | None = None) -> Record:
    """Return what an answer comes to: that of these events, or a whole one."""
    hearing = Hearing(KEY, read_asked(door, encode(BODIES[door])), DEFAULTS, Scrub(api_key=None, basic=None), _ignore)
    hearing.head(200, {"content-type": "application/json" if whole is not None else "text/event-stream"})
    for data in [whole] if whole is not None else map(sse, events):
        hearing.feed(data, hearing.begun_s + 1)
    hearing.end(hearing.begun_s + 2)
    return hearing.record(0.0, 0.0)


def _ignore(*_: object) -> None:
    """Take a signal."""


def asked(door: Any, **fields: Any) -> tuple[Message, ...]:
    """Return the messages of a request with these fields."""
    return tuple(node.message for node in read_asked(door, encode({**BODIES[door], **fields})).chain.nodes)


FAULTS = ["none", "loop", "loop_reasoning", "early_stop", "empty", "max_tokens", "broken_tool_call", "no_finish",
          "error_event", "malformed", "http_500", "context_400"]  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
async def test_the_class_is_that_of_a_chat(name: str, tmp_path: Path) -> None:
    """The same answer has the same class, ending and finish reason at each door."""
    function = {"name": "bash", "parameters": {"type": "object", "properties": {}}}
    chat = {"model": "fake-model", "messages": BODIES["messages"]["messages"], "max_tokens": 900, "seed": 5}
    bodies = {
        "chat/completions": {**chat, "tools": [{"type": "function", "function": function}]}
        | {"stream_options": {"include_usage": True}},
        "responses": {**BODIES["responses"], "tools": [{"type": "function", **function}]},
        "messages": {**BODIES["messages"], "tools": [{"name": "bash", "input_schema": function["parameters"]}]},
    }
    async with FakeServer(lambda ask: make(name, ask)) as fake, between(fake.url, tmp_path / "run") as proxy:
        for number, (door, body) in enumerate(bodies.items()):
            await raw_exchange(proxy.port, http("POST", f"/v1/{door}", encode({**body, "stream": True})))
            await proxy.ear.ends(number + 1)
    seen = [(record.observation, record.judgement) for record in proxy.ear.records]
    classes = {judgement.class_ for _, judgement in seen if judgement is not None}
    endings = {(record.ending, record.finish_reason) for record, _ in seen if record is not None}
    assert len(classes) == len(endings) == 1, (proxy.ear.classes, endings)


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("streamed", [True, False])
async def test_all_of_an_answer_is_heard(door: str, streamed: bool, tmp_path: Path) -> None:
    """Text, reasoning, calls, usage, id and model are those of the answer, streamed or whole."""
    answer = Answer(
        content="I look at it.",
        reasoning="Where is it?",
        calls=(Call("bash", '{"command": "ls"}', "c1"), Call("bash", '{"command": "cd"}', "c2")),
        finish="tool_calls",
    )
    server = FakeServer(mind=lambda _: answer)
    async with server as fake, between(fake.url, tmp_path / "run") as proxy:
        await raw_exchange(proxy.port, http("POST", f"/v1/{door}", encode({**BODIES[door], "stream": streamed})))
        (record,) = await proxy.ear.ends(1)
    seen = record.observation
    assert seen is not None
    assert (seen.content, seen.reasoning) == (answer.content, answer.reasoning)
    calls = [(call.id, call.name, json.loads(call.arguments)) for call in seen.tool_calls]
    assert calls == [("c1", "bash", {"command": "ls"}), ("c2", "bash", {"command": "cd"})]
    assert (seen.ending, seen.finish_reason, seen.model, seen.defects) == ("complete", "tool_calls", "fake-model", ())
    assert seen.usage is not None and seen.usage.completion and seen.usage.prompt
    assert seen.request_id is not None and seen.request_id.startswith("resp_")
    assert record.judgement is not None and record.judgement.class_ == "ok"
    assert (seen.ttft_ms is not None) == streamed


@pytest.mark.parametrize("door", DOORS)
async def test_a_loop_is_noticed_in_mid_stream(door: str, tmp_path: Path) -> None:
    """A loop is told while the answer is still coming."""
    server = FakeServer(lambda ask: stream(loop_answer(ask), ask))
    async with server as fake, between(fake.url, tmp_path / "run") as proxy:
        await raw_exchange(proxy.port, http("POST", f"/v1/{door}", encode({**BODIES[door], "stream": True})))
        await proxy.ear.ends(1)
    assert proxy.ear.classes == ["garbage_loop"]
    assert any(signal.certain for signal in proxy.ear.signals)


@pytest.mark.parametrize(
    ("status", "reason", "finish"),
    [
        ("completed", None, "stop"),
        ("incomplete", "max_output_tokens", "length"),
        ("incomplete", "content_filter", "content_filter"),
        ("incomplete", "steered", "steered"),
        ("cancelled", None, "abort"),
    ],
)
def test_why_a_response_ended(status: str, reason: str | None, finish: str) -> None:
    """A response's status and its details are its finish reason."""
    response = {"id": "r", "status": status, "incomplete_details": {"reason": reason}, "output": []}
    record = hear("responses", {"type": "response.completed", "response": response})
    assert record.observation is not None and record.observation.finish_reason == finish


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("tool_use", "tool_calls"),
        ("refusal", "content_filter"),
        ("pause_turn", "pause_turn"),
    ],
)
def test_why_a_message_ended(reason: str, finish: str) -> None:
    """A stop reason is a finish reason; a stop sequence is kept."""
    delta = {"stop_reason": reason, "stop_sequence": "END"}
    record = hear("messages", {"type": "message_delta", "delta": delta}, {"type": "message_stop"})
    assert record.observation is not None
    assert (record.observation.finish_reason, record.observation.stop_reason) == (finish, "END")


def test_what_is_said_only_at_the_end_is_heard_once() -> None:
    """An item that comes whole is heard; one that came in pieces is not heard again, nor is the last event's copy."""
    message = {"type": "message", "content": [{"type": "output_text", "text": "I look."}]}
    call = {"type": "function_call", "call_id": "c", "name": "bash", "arguments": "{}"}
    response = {"status": "completed", "output": [message, call]}
    end = {"type": "response.completed", "response": response}
    done = [
        {"type": "response.output_item.done", "output_index": i, "item": item} for i, item in enumerate((message, call))
    ]
    piece = {"type": "response.output_text.delta", "output_index": 0, "delta": "I look."}
    for events in ([end], [*done, end], [piece, *done, end]):
        seen = hear("responses", *events).observation
        assert seen is not None and seen.content == "I look."
        assert seen.tool_calls == (ToolCall(id="c", name="bash", arguments="{}"),)
        assert seen.finish_reason == "tool_calls"


def test_a_custom_call_is_one_of_a_single_input() -> None:
    """A custom tool's input comes as the one field of a call's arguments, whatever stands in it."""
    head = {"type": "custom_tool_call", "call_id": "c", "name": "apply_patch"}
    pieces = ['*** "Begin\n', "\\ é"]
    deltas = [{"type": "response.custom_tool_call_input.delta", "output_index": 0, "delta": piece} for piece in pieces]
    record = hear(
        "responses",
        {"type": "response.output_item.added", "output_index": 0, "item": head},
        *deltas,
        {"type": "response.output_item.done", "output_index": 0, "item": {**head, "input": "".join(pieces)}},
        {"type": "response.completed", "response": {"status": "completed"}},
    )
    assert record.observation is not None
    (call,) = record.observation.tool_calls
    assert (call.name, json.loads(call.arguments)) == ("apply_patch", {"input": "".join(pieces)})


def test_a_call_without_arguments_has_empty_ones() -> None:
    """A tool_use block of which no piece comes has the input of its head."""
    block = {"type": "tool_use", "id": "t", "name": "ls", "input": {}}
    record = hear(
        "messages",
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 4}},
        {"type": "message_stop"},
    )
    assert record.observation is not None
    assert record.observation.tool_calls == (ToolCall(id="t", name="ls", arguments="{}"),)
    assert record.judgement is not None and record.judgement.class_ == "ok"


def test_the_prompt_is_what_was_read_and_what_was_cached() -> None:
    """Anthropic's prompt counts are added up, and what the first event said stands until another says more."""
    first = {"input_tokens": 7, "cache_read_input_tokens": 90, "cache_creation_input_tokens": 3, "output_tokens": 1}
    record = hear(
        "messages",
        {"type": "message_start", "message": {"id": "m", "usage": first}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "It is done."}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 4}},
        {"type": "message_stop"},
    )
    usage = record.observation.usage if record.observation else None
    assert usage is not None and (usage.prompt, usage.completion, usage.cached) == (100, 4, 90)


def test_an_answer_of_what_is_not_judged_is_indeterminate() -> None:
    """Where only a tool of the server's own acted, the turn is not judged, and says why."""
    search = {"type": "web_search_call", "id": "w"}
    record = hear(
        "responses",
        {"type": "response.output_item.done", "output_index": 0, "item": search},
        {"type": "response.completed", "response": {"status": "completed"}},
    )
    assert record.outcome == "indeterminate" and "web_search_call" in (record.reason or "")
    block = {"type": "server_tool_use", "name": "web_search"}
    record = hear("messages", whole=encode({"content": [block], "stop_reason": "pause_turn"}))
    assert record.outcome == "indeterminate" and "server_tool_use" in (record.reason or "")


def test_failures_are_errors_in_their_own_words() -> None:
    """A failed response and an error event end the turn as errors that say what the server said."""
    failed = {"type": "response.failed", "response": {"status": "failed", "error": {"message": "EngineCore died"}}}
    for record in (
        hear("responses", failed),
        hear("responses", {"type": "error", "message": "EngineCore died"}),
        hear("messages", {"type": "error", "error": {"type": "api_error", "message": "EngineCore died"}}),
        hear("responses", whole=encode(failed["response"] | {"output": []})),
    ):
        seen = record.observation
        assert seen is not None and (seen.ending, seen.error) == ("error_event", "EngineCore died")


def test_items_are_read_as_the_chat_that_a_server_makes_of_them() -> None:
    """Instructions, reasoning, text, calls and outputs become messages; what follows one another is one answer."""
    given = [
        {"role": "user", "content": [{"type": "input_text", "text": "go"}]},
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}], "encrypted_content": "x"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look."}]},
        {"type": "function_call", "call_id": "c", "name": "bash", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": "a.py"},
    ]
    call = ToolCall(id="c", name="bash", arguments="{}")
    assert asked("responses", input=given, instructions="Be brief.") == (
        Message(role="system", content="Be brief."),
        Message(role="user", content="go"),
        Message(role="assistant", content="I look.", reasoning="hm", tool_calls=(call,)),
        Message(role="tool", content="a.py", tool_call_id="c"),
    )


def test_blocks_are_read_as_the_chat_that_a_server_makes_of_them() -> None:
    """System, thinking, text, tool uses and results become messages, without Claude Code's line for its bill."""
    system = [{"type": "text", "text": "x-anthropic-billing-header: cch=1"}, {"type": "text", "text": "Be brief."}]
    use = {"type": "tool_use", "id": "c", "name": "bash", "input": {}}
    given = [
        {"role": "user", "content": [{"type": "text", "text": "go", "cache_control": {"type": "ephemeral"}}]},
        {
            "role": "assistant",
            "content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "I look."}, use],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "a.py"}]},
    ]
    call = ToolCall(id="c", name="bash", arguments="{}")
    assert asked("messages", messages=given, system=system) == (
        Message(role="system", content="Be brief."),
        Message(role="user", content="go"),
        Message(role="assistant", content="I look.", reasoning="hm", tool_calls=(call,)),
        Message(role="tool", content="a.py", tool_call_id="c"),
    )


@pytest.mark.parametrize(
    "fields",
    [
        {"input": None},
        {"input": []},
        {"background": True},
        {"conversation": "conv_1"},
        {"prompt": {"id": "p"}},
        {"previous_response_id": "resp_of_before"},
        {"input": [{"type": "item_reference", "id": "x"}]},
    ],
)
def test_what_cannot_be_known_whole_is_not_judged(fields: dict[str, Any]) -> None:
    """A request whose history the server keeps, or whose answer comes elsewhere, is refused in words."""
    with pytest.raises(UnreadableAskError):
        asked("responses", **fields)


JSONS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["role", "type", "content", "text", "output", "input", "id", "status", "error", "usage"]),
            inner
            | st.sampled_from(["user", "assistant", "message", "text", "tool_use", "tool_result", "function_call"]),
            max_size=4,
        )
    ),
    max_leaves=10,
)
TYPES = st.sampled_from(
    ["response.output_text.delta", "response.output_item.added", "response.output_item.done", "response.completed",
     "response.custom_tool_call_input.delta", "response.function_call_arguments.done", "message_start", "message_delta",
     "content_block_start", "content_block_delta", "content_block_stop", "message_stop", "error", "x", ""]
)  # fmt: skip
FIELDS = st.sampled_from(["response", "item", "delta", "output_index", "index", "message", "content_block", "usage"])


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(DOORS), st.lists(st.tuples(TYPES, st.dictionaries(FIELDS, JSONS, max_size=4)), max_size=5), JSONS
)
def test_no_answer_raises(door: str, events: list[tuple[str, dict[str, Any]]], whole: Any) -> None:
    """Whatever JSON an answer is made of, hearing it comes to a record and never to soak's own failure."""
    given_events = [{**fields, "type": kind} for kind, fields in events]
    records = [hear(door, *given_events), hear(door, whole=json.dumps(whole).encode())]
    assert all(record.outcome == "finished" or "item of the type" in (record.reason or "") for record in records)


@settings(max_examples=60, deadline=None)
@given(JSONS, JSONS, JSONS)
def test_no_request_raises(given_input: Any, tools: Any, system: Any) -> None:
    """Whatever JSON a request is, it is read as one turn or refused in words."""
    fields = {"input": given_input, "messages": given_input, "tools": tools, "system": system, "instructions": system}
    for door in DOORS:
        try:
            assert read_asked(door, json.dumps(fields).encode()).chain.nodes  # type: ignore[arg-type]
        except UnreadableAskError as why:
            assert str(why)


async def say(proxy: Between, door: str, **fields: Any) -> dict[str, Any]:
    """Send one request through the proxy and return its answer."""
    reply = await raw_exchange(proxy.port, http("POST", f"/v1/{door}", encode({**BODIES[door], **fields})))
    value: dict[str, Any] = json.loads(reply.partition(b"\r\n\r\n")[2])
    return value


def test_what_was_answered_is_remembered_within_bounds() -> None:
    """The last responses are known by their ids, up to a number of them and of characters; the rest are forgotten."""
    answered = Answered(answers_max=2, characters_max=1000)
    for name in ("a", "b", "c"):
        answered.keep(name, (Message(role="user", content="x" * 100),), "e")
    assert [answered.get(name) is not None for name in ("a", "b", "c")] == [False, True, True]
    answered.keep("c", (Message(role="user", content="x" * 700),), "e")
    answered.keep("d", (Message(role="user", content="x" * 700),), "e")
    assert [answered.get(name) is not None for name in ("b", "c", "d", None)] == [False, False, True, False]


async def test_responses_are_grouped_by_what_they_go_on_from(tmp_path: Path) -> None:
    """A request that only names the response before it is the next turn, with the whole history before it."""
    async with FakeServer() as fake, between(fake.url, tmp_path / "run") as proxy:
        first = await say(proxy, "responses", input="mend it", instructions="Be brief.")
        second = await say(proxy, "responses", input="and now?", previous_response_id=first["id"])
        await say(proxy, "responses", input="and then?", previous_response_id=second["id"])
        await say(proxy, "responses", input="whence?", previous_response_id="resp_of_yesterday")
        await proxy.ear.ends(3)
    assert len({key.episode for key in proxy.ear.keys}) == 1
    assert [key.turn for key in proxy.ear.keys] == [0, 1, 2]
    told = Recording()
    with proxy.folder.history() as history:
        last = [message.role for message in history.prefix(list(history.starts())[-1].prefix)]
        (episode,) = recording_of(history, told)
    assert last == ["user", "assistant", "user", "assistant", "user"]
    assert len(episode.turns) == 3
    assert "it goes on from a response that was not heard" in proxy.ear.events[-1].text


@pytest.mark.parametrize("door", DOORS)
async def test_a_recording_has_what_a_chat_can_carry(door: str, tmp_path: Path) -> None:
    """Turns of both APIs are recorded as a chat; one whose messages hold what a chat has no word for is left out."""
    field, odd = ("input", "input_file") if door == "responses" else ("messages", "document")
    user, answer = {"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}
    document = {"role": "user", "content": [{"type": odd, "source": {}}]}
    async with FakeServer() as fake, between(fake.url, tmp_path / "run") as proxy:
        await say(proxy, door, **{field: [user]})
        await say(proxy, door, **{field: [user, answer, {"role": "user", "content": "go on"}]})
        await say(proxy, door, **{field: [user, answer, document]})
        await proxy.ear.ends(3)
    told = Recording()
    with proxy.folder.history() as history:
        assert {started.door for started in history.starts()} == {door}
        (episode,) = recording_of(history, told)
    assert len(episode.turns) == 2
    assert told.left_out == {f"{door}: a chat cannot carry what its messages hold ({odd})": 1}
    assert check_run(tmp_path / "run").arms["candidate"].turns.finished == 3


@pytest.mark.parametrize("door", DOORS)
async def test_token_ids_are_asked_for_only_where_they_are_known(door: str, tmp_path: Path) -> None:
    """The one change that may be made to a request is not made to those of other APIs."""
    async with FakeServer() as fake, between(fake.url, tmp_path / "run", token_ids=True) as proxy:
        await say(proxy, door)
        await proxy.ear.ends(1)
        assert fake.chats[0].body == BODIES[door]


async def test_an_answer_that_breaks_off_is_no_whole_one(tmp_path: Path) -> None:
    """A stream of either API that ends before its last event has no finish reason."""
    piece = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "I will"}}
    script = Script([Head(), Send(sse(piece)), End()])
    async with FakeServer(lambda _: script) as fake, between(fake.url, tmp_path / "run") as proxy:
        await raw_exchange(proxy.port, http("POST", "/v1/messages", encode({**BODIES["messages"], "stream": True})))
        (record,) = await proxy.ear.ends(1)
    assert record.observation is not None
    assert (record.observation.ending, record.observation.content) == ("no_finish", "I will")
