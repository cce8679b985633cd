"""Which conversation and turn a request belongs to, and how a client names them itself."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from fakes import FakeServer
from hypothesis import given, settings
from hypothesis import strategies as st
from rigs.proxying import between, http, raw_exchange

from soak.facts import Message, Node, make_episode
from soak.proxy import Conversations, parse_turn_header

S, U = ("system", "be brief"), ("user", "mend it")


def chain(*said: tuple[str, str], tools: Sequence[dict[str, Any]] = ()) -> tuple[Node, ...]:
    """Return the messages of one request."""
    messages = [Message(role=role, content=text) for role, text in said]  # type: ignore[arg-type]
    return make_episode("", messages, turns=[], tools=tuple(tools)).nodes


def spots(requests: Sequence[tuple[Node, ...]]) -> list[tuple[str, int, int, str]]:
    """Return where requests belong, episodes by the letter of their first appearance."""
    conversations, names = Conversations(), {}
    found = [conversations.place(request) for request in requests]
    for place in found:
        names.setdefault(place.episode, "abcdefgh"[len(names) % 8])
    return [(names[place.episode], *place[1:]) for place in found]


def test_a_conversation_is_followed_by_its_answers() -> None:
    """Requests that repeat a history and an answer are turns 0, 1, 2 of one conversation."""
    first = [S, U]
    second = [*first, ("assistant", "a"), ("user", "go on")]
    third = [*second, ("assistant", "b"), ("user", "more")]
    assert spots([chain(*one) for one in (first, second, third)]) == [
        ("a", 0, 0, "new"),
        ("a", 1, 0, "goes_on"),
        ("a", 2, 0, "goes_on"),
    ]


def test_a_line_that_is_sent_once_does_not_break_it() -> None:
    """A status line at a request's end that the next request no longer has is no reason for a new conversation."""
    first = [S, U, ("user", "step 1 of 9")]
    second = [S, U, ("assistant", "a"), ("user", "ok"), ("user", "step 2 of 9")]
    assert [place[:2] for place in spots([chain(*first), chain(*second)])] == [("a", 0), ("a", 1)]


def test_the_same_request_again_is_the_next_pass() -> None:
    """A retry or a second sample of one request is the same turn in the next pass."""
    assert spots([chain(S, U)] * 3) == [("a", 0, 0, "new"), ("a", 0, 1, "repeat"), ("a", 0, 2, "repeat")]


def test_two_ways_on_are_two_conversations() -> None:
    """Of two requests that go on differently from one answer, the later and what follows it are a side conversation."""
    base = [S, U, ("assistant", "a")]
    left, right = [*base, ("user", "l")], [*base, ("user", "r")]
    after = [*right, ("assistant", "x"), ("user", "r2")]
    found = spots([chain(S, U), chain(*left), chain(*right), chain(*after)])
    assert found == [("a", 0, 0, "new"), ("a", 1, 0, "goes_on"), ("b", 1, 0, "side"), ("b", 2, 0, "goes_on")]


def test_another_beginning_or_other_tools_are_another_conversation() -> None:
    """Conversations that share only their system prompt, or that offer other tools, stay apart."""
    tool = {"type": "function", "function": {"name": "bash"}}
    other = chain(S, ("user", "another task"), ("assistant", "a"), ("user", "x"))
    assert [place[0] for place in spots([chain(S, U), other, chain(S, U, tools=[tool])])] == ["a", "b", "c"]


def test_names_depend_on_what_was_asked_alone() -> None:
    """Two proxies give the same conversation the same keys, so that two runs can be laid side by side."""
    requests = [chain(S, U), chain(S, U, ("assistant", "a"), ("user", "b"))]
    first, second = Conversations(), Conversations()
    assert [first.place(one) for one in requests] == [second.place(one) for one in requests]


def test_memory_is_bounded() -> None:
    """Of endless conversations the oldest are forgotten, and a late request of one begins a new conversation."""
    conversations = Conversations(known_max=20)
    for number in range(200):
        conversations.place(chain(S, ("user", str(number))))
    assert len(conversations._spots) <= 20
    late = conversations.place(chain(S, ("user", "0"), ("assistant", "a"), ("user", "b")))
    assert (late.turn, late.how) == (1, "new")


MESSAGES = st.lists(st.sampled_from([("user", "u"), ("user", "v"), ("assistant", "a"), S]), min_size=1, max_size=6)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(MESSAGES, st.sampled_from([None, ("task", 0), ("task", 1)])), max_size=25))
def test_no_key_is_given_twice(requests: list[tuple[list[tuple[str, str]], tuple[str, int] | None]]) -> None:
    """Whatever is asked in whatever order, named by the client or not, every request has a key of its own."""
    conversations = Conversations()
    places = [
        conversations.named(*named, chain(*said)) if named else conversations.place(chain(*said))
        for said, named in requests
    ]
    assert len({place[:3] for place in places}) == len(places)


@pytest.mark.parametrize("value", ["task-1/0", "a.b@c+d=e_f/999999", "0/12", "x" * 120 + "/3"])
def test_turn_headers_that_are_taken(value: str) -> None:
    """EPISODE/TURN names a place where both are of the grammar."""
    episode, turn = value.split("/")
    assert parse_turn_header(value) == (episode, int(turn))


@pytest.mark.parametrize(
    "value",
    [
        *("", "task", "task/", "/1", "../../etc/passwd/1", "a b/1", "-x/1", ".x/1", "a/01", "a/-1", "a/+1", "a/1.0"),
        *("a/1 ", "a/1000000", "a/١", "é/1", "x" * 121 + "/1", "a/1/2", "a/1\n", "a\x00/1", "a:b/1", "~/1"),
    ],
)
def test_turn_headers_that_are_passed_over(value: str) -> None:
    """Anything else names no place: paths, blanks, signs, control characters, other alphabets, and what is too long."""
    assert parse_turn_header(value) is None


async def test_named_turns_have_their_keys(tmp_path: Path) -> None:
    """`x-soak-turn` gives the key; the same again is the next pass; a bad one is told once and grouped by prefix."""

    def body(text: str) -> bytes:
        messages = [{"role": "user", "content": text}]
        return json.dumps({"model": "fake-model", "messages": messages, "max_tokens": 90}).encode()

    async with FakeServer() as fake, between(fake.url, tmp_path / "run") as proxy:
        for name, text in (("task-7/3", "hi"), ("task-7/3", "hi"), ("../x/1", "ho"), ("../y/1", "ho")):
            await raw_exchange(proxy.port, http("POST", "/v1/chat/completions", body(text), f"x-soak-turn: {name}"))
        await proxy.ear.ends(4)
        first, second, third, fourth = proxy.ear.keys
        told = [event.kind for event in proxy.ear.events]
    assert (str(first), str(second)) == ("task-7:3:0:candidate", "task-7:3:1:candidate")
    assert third.episode == fourth.episode != "task-7"
    assert told.count("bad_turn_header") == 1


async def test_requests_at_once_have_keys_of_their_own(tmp_path: Path) -> None:
    """Twelve requests of one conversation at once, equal and different, are twelve turns and all answered."""
    base = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yes?"}]

    def body(number: int) -> bytes:
        messages = [*base, {"role": "user", "content": f"sample {number % 3}"}]
        return json.dumps({"model": "fake-model", "messages": messages, "max_tokens": 90, "stream": True}).encode()

    async with FakeServer() as fake, between(fake.url, tmp_path / "run") as proxy:
        request = [http("POST", "/v1/chat/completions", body(number)) for number in range(12)]
        await asyncio.gather(*(raw_exchange(proxy.port, one) for one in request))
        await proxy.ear.ends(12)
    assert len(set(proxy.ear.keys)) == 12
    assert all(record.outcome == "finished" for record in proxy.ear.records)
