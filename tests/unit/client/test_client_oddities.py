"""Chunks of servers that leave fields out or fill them oddly: what was meant is kept, nothing raises."""

import json
from typing import Any

import pytest

from soak.client.attempt import Stream
from soak.client.request import Request
from soak.client.scrub import Scrub
from soak.facts import Deadlines, Observation, Retries, TurnKey, encode

DEEP = ["[", "]"], ['{"message":', "}"], ['{"error":', "}"]


def read(*events: bytes) -> Observation:
    """Return what a stream of these bytes comes to."""
    request = Request(
        key=TurnKey(episode="e", turn=0, pass_=0, arm="a"),
        body={},
        session="e",
        deadlines=Deadlines(),
        retries=Retries(),
        max_tokens=1,
    )
    made = Stream(request, lambda chunk: False, Scrub(api_key=None, basic=None))
    for data in events:
        if made.closed is None:
            made.feed(data, 1.0)
    if made.closed is None:
        made.end(2.0)
    observation = made.exchange((made.attempt(),), 0.0).observation
    assert encode(observation)
    return observation


def event(*choices: dict[str, Any], **fields: Any) -> bytes:
    """Return an event with these choices."""
    return b"data: " + json.dumps({"choices": choices, **fields}).encode() + b"\n\n"


def calls(*deltas: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    """Return the calls that come of chunks with these tool call deltas."""
    found = read(*(event({"index": 0, "delta": {"tool_calls": one}}) for one in deltas)).tool_calls
    return [(call.id, call.name, call.arguments) for call in found]


def piece(arguments: str, name: str | None = None, **fields: Any) -> dict[str, Any]:
    """Return a tool call delta."""
    return {**fields, "function": {"name": name, "arguments": arguments}}


@pytest.mark.parametrize("head", ['data: {"error":%s}', "event: error\ndata: %s", 'event: error\ndata: {"error":%s}'])
@pytest.mark.parametrize("shape", DEEP, ids=["lists", "messages", "errors"])
def test_an_error_of_any_depth_is_an_ending(head: str, shape: list[str]) -> None:
    """A server's error nested up to and beyond what can be printed ends the stream, and raises nothing."""
    opening, closing = shape
    for depth in (*range(850, 1050), 100_000):
        data = head % (opening * depth + "1" + closing * depth)
        assert read(data.encode() + b"\n\n").ending in ("error_event", "malformed")


def test_an_error_nested_too_deep_to_print_is_an_error_event() -> None:
    """At the depth that JSON can be read and not printed, the ending is error_event."""
    found = [read(b'data: {"error":' + b"[" * depth + b"]" * depth + b"}\n\n") for depth in range(850, 1050)]
    unprintable = [one for one in found if one.error == "the server's error is nested too deep to be read"]
    assert unprintable
    assert {one.ending for one in unprintable} == {"error_event"}


def test_numbers_of_thousands_of_digits_raise_nothing() -> None:
    """As an error, an id or a call's id, a number too long to print ends the stream or is refused."""
    for digits in (b"9" * 30, b"9" * 400, b"9" * 5000):
        assert read(b'data: {"error":' + digits + b"}\n\n").ending in ("error_event", "malformed")
        assert read(b'data: {"choices":[],"id":' + digits + b"}\n\n").ending == "malformed"


def test_calls_without_index_are_told_apart_by_id() -> None:
    """Two whole calls, one a chunk, with ids and no index are two calls; a piece without an id continues the last."""
    whole = calls([piece("{}", "f", id="a")], [piece("[", "g", id="b")], [piece("]")], [piece("!", id="a")])
    assert whole == [("a", "f", "{}!"), ("b", "g", "[]")]


def test_calls_without_index_in_one_chunk_are_told_apart() -> None:
    """Named calls in one chunk are calls of their own, with or without ids."""
    assert calls([piece("1", "f"), piece("2", "g")]) == [("", "f", "1"), ("", "g", "2")]
    assert calls([piece("1", "f", id="a"), piece("2", "g", id="b")]) == [("a", "f", "1"), ("b", "g", "2")]


def test_an_index_of_null_and_a_numeric_id_are_tolerated() -> None:
    """`index: null` is no index, and a number as id is its digits."""
    assert calls([piece("1", "f", index=None, id=7)], [piece("2", "g", index=None, id=8)], [piece("3", id=7)]) == [
        ("7", "f", "13"),
        ("8", "g", "2"),
    ]
    observation = read(event({"index": None, "delta": {"content": "a"}, "finish_reason": "stop"}, id=77))
    assert (observation.content, observation.request_id) == ("a", "77")


def test_calls_with_and_without_index_do_not_collide() -> None:
    """A new id without an index takes a place that no index has."""
    assert calls([piece("1", "f", index=4, id="a")], [piece("2", "g", id="b")]) == [("a", "f", "1"), ("b", "g", "2")]


def test_pieces_of_a_dropped_call_are_dropped() -> None:
    """Beyond the limit on calls, what follows without an index is not added to the last call that was kept."""
    many = [piece("{}", "f", id=f"c{number}") for number in range(1025)]
    assert calls(many, [piece("more")])[-1] == ("c1023", "f", "{}")


def test_content_as_a_list_of_parts_is_text() -> None:
    """The texts of content given in parts are joined."""
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    observation = read(event({"index": 0, "delta": {"content": parts}, "finish_reason": "stop"}))
    assert (observation.content, observation.ending) == ("ab", "no_end_marker")


def test_the_choice_with_index_0_is_the_answer() -> None:
    """In whatever order choices stand, the one with index 0 is read."""
    one, zero = {"index": 1, "delta": {"content": "x"}}, {"index": 0, "delta": {"content": "a"}}
    observation = read(event(one, zero), event(zero, one), event(one), event({**zero, "finish_reason": "stop"}))
    assert observation.content == "aaa"
    assert "extra_choice" in observation.defects


def test_the_only_choice_is_the_answer() -> None:
    """A server that numbers its one answer 1 is read all the same, and a later other one is not mixed in."""
    one = {"index": 1, "delta": {"content": "x"}}
    assert read(event(one), event(one)).content == "xx"
    assert read(event(one), event({"index": 0, "delta": {"content": "a"}})).content == "x"
