"""The JSONL of `soak classify`: what is read, what is refused, what is written."""

import json

import pytest

from soak.classify import answer_line, judge, parse_answer
from soak.errors import TranscriptError


def parsed(**fields: object) -> tuple[object, object]:
    """Return answer and context of a line with these fields."""
    return parse_answer(json.dumps({"id": "x", **fields}).encode())[1:]


def test_only_the_id_is_needed() -> None:
    """A line may hold nothing but an id: an answer without anything, and without a finish."""
    name, observation, _ = parse_answer(b'{"id": "x"}')
    assert name == "x"
    assert observation.ending == "no_finish"
    assert judge(*parse_answer(b'{"id": "x"}')[1:]).class_ == "error"


def test_repeat_is_spelled_out() -> None:
    """`repeat` stands for prefix, copies and suffix."""
    _, observation, _ = parse_answer(b'{"id": "x", "repeat": {"prefix": "a", "unit": "bc", "count": 3, "suffix": "d"}}')
    assert observation.content == "abcbcbcd"


@pytest.mark.parametrize(
    "calls",
    [
        [{"name": "run", "arguments": '{"a": 1}'}],
        [{"name": "run", "arguments": {"a": 1}}],
        [{"id": "c", "type": "function", "function": {"name": "run", "arguments": '{"a": 1}'}}],
        [{"id": "c", "type": "function", "index": 0, "function": {"name": "run", "arguments": {"a": 1}}}],
    ],
)
def test_forms_of_a_call(calls: list[object]) -> None:
    """Flat and nested calls, with arguments as text or as a value, are the same call."""
    line = json.dumps({"id": "x", "tool_calls": calls}).encode()
    (call,) = parse_answer(line)[1].tool_calls
    assert (call.name, json.loads(call.arguments)) == ("run", {"a": 1})


def test_context_and_reference() -> None:
    """`context` becomes the prompt, `recorded_reference` the reference with its tokens."""
    line = json.dumps(
        {"id": "x", "context": "p", "recorded_reference": {"content": "r", "completion_tokens": 7}}
    ).encode()
    _, _, context = parse_answer(line)
    assert context.prompt_text == "p"
    assert context.reference is not None and context.reference.content == "r"
    assert context.reference_tokens == 7


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"[]", "object"),
        (b"{", "truncated"),
        (b'{"output": "a"}', "id"),
        (b'{"id": 3}', "str"),
        (b'{"id": "x", "outptu": "a"}', "outptu"),
        (b'{"id": "x", "token_ids": [1.5]}', "int"),
        (b'{"id": "x", "token_ids": [-1]}', "int"),
        (b'{"id": "x", "completion_tokens": "12"}', "int"),
        (b'{"id": "x", "output": "a", "repeat": {"unit": "b", "count": 1}}', "both"),
        (b'{"id": "x", "repeat": {"unit": "b", "count": 999999999999}}', "at most"),
        (b'{"id": "x", "repeat": {"unit": "b"}}', "count"),
        (b'{"id": "\xff"}', "utf-8"),
        (b'{"id": "x", "tool_calls": [{"name": "a", "arguments": ' + b"[" * 100_000, "recursion"),
    ],
)
def test_what_is_refused(line: bytes, why: str) -> None:
    """A line that is not such an object is refused with its place and the reason."""
    with pytest.raises(TranscriptError) as caught:
        parse_answer(line, "answers.jsonl:7")
    assert "answers.jsonl:7" in caught.value.what
    assert why in caught.value.why.lower()


def test_output_form() -> None:
    """The output has id, class, reason and findings with the contract's fields, and is JSON."""
    name, observation, context = parse_answer(
        b'{"id": "x", "repeat": {"unit": "not so ", "count": 90}, "finish_reason": "length"}'
    )
    line = answer_line(name, judge(observation, context))
    assert json.loads(json.dumps(line)) == line
    assert line["class"] == "garbage_loop"
    wanted = {"kind", "where", "onset_char", "onset_token", "period_tokens", "copies", "covered", "unit", "confidence"}
    assert wanted <= set(line["findings"][0])
