"""Errors: broken endings, calls that cannot be used, markup that leaked."""

import pytest
from msgspec import structs
from unit.classify.turns import answer, call, judged, kinds

from soak.classify import Context, judge
from soak.classify.schema import missing_names, violations
from soak.facts import Ending, Message, Usage

TOOLS = (
    {
        "type": "function",
        "function": {
            "name": "read",
            "parameters": {
                "type": "object",
                "properties": {
                    "path": {"type": "string"},
                    "lines": {"type": "array", "items": {"type": "integer"}},
                    "mode": {"enum": ["text", "bytes"]},
                },
                "required": ["path"],
            },
        },
    },
    {"type": "function", "function": {"name": "submit", "parameters": {"type": "object", "properties": {}}}},
)
OFFERED = Context(tools=TOOLS)


@pytest.mark.parametrize(
    "ending",
    [
        "no_finish",
        "reset",
        "error_event",
        "malformed",
        "http_error",
        "unreachable",
        "deadline_first_chunk",
        "deadline_gap",
        "deadline_turn",
        "too_large",
    ],
)
def test_broken_endings(ending: Ending) -> None:
    """Each way in which a stream breaks is an error of that name."""
    judgement = judge(answer("The first step is done.", None, ending=ending), Context())
    assert judgement.class_ == "error"
    assert kinds(judgement) == [ending]


@pytest.mark.parametrize(
    ("finish", "kind"),
    [
        ("abort", "finish_abort"),
        ("CANCELLED", "finish_abort"),
        ("error", "finish_error"),
        ("timeout", "finish_timeout"),
        ("load", "finish_overload"),
        ("content_filter", "finish_content_filter"),
        ("SAFETY", "finish_content_filter"),
        ("recitation", "finish_content_filter"),
        ("Prohibited_Content", "finish_content_filter"),
    ],
)
def test_failed_finish(finish: str, kind: str) -> None:
    """An aborted, failed, late or filtered answer is an error, counted under one kind for all words that say so."""
    judgement = judged("The first step", finish)
    assert judgement.class_ == "error"
    assert kinds(judgement)[0] == kind


@pytest.mark.parametrize("finish", ["banana", "MODEL_REST", " ", "\ud800\x00" * 5000])
def test_unknown_finish(finish: str) -> None:
    """A finish reason that nobody knows is judged as `stop` is, with a note, whatever else is wrong."""
    assert kinds(judged("The first step is done.", finish)) == ["unknown_finish_reason"]
    assert judged("The first step is done.", finish).class_ == "ok"
    assert (judged("", finish).class_, judged("", "stop").class_) == ("early_stop", "early_stop")
    assert kinds(judged("", finish)) == ["empty", "unknown_finish_reason"]
    assert len(judged("The first step is done.", finish).reason) < 600


@pytest.mark.parametrize("finish", ["stop", "STOP", "end_turn", "eos_token", "stop_sequence", "COMPLETE"])
def test_known_normal_finish(finish: str) -> None:
    """The words for a normal end, in any case, are not noted."""
    assert kinds(judged("The first step is done.", finish)) == []


def test_missing_end_marker_is_complete() -> None:
    """A finish reason without an end marker is a complete answer."""
    assert judge(answer("Done.", ending="no_end_marker"), Context()).class_ == "ok"


@pytest.mark.parametrize(
    ("name", "arguments", "kind"),
    [
        ("read", '{"path": "a"', "tool_arguments_unparsable"),
        ("read", '{"path": NaN}', "tool_arguments_unparsable"),
        ("read", '"a.py"', "tool_arguments_not_object"),
        ("read", "", "tool_arguments_missing"),
        ("read", "{}", "tool_argument_required"),
        ("read", '{"path": 3}', "tool_schema_violation"),
        ("read", '{"path": "a", "mode": "hex"}', "tool_schema_violation"),
        ("read", '{"path": "a", "lines": [1, "2"]}', "tool_schema_violation"),
        ("write", '{"path": "a"}', "tool_name_unknown"),
        ("", '{"path": "a"}', "tool_name_missing"),
        ("read<|channel|>", '{"path": "a"}', "tool_name_contaminated"),
        ("readread", '{"path": "a"}', "tool_name_contaminated"),
    ],
)
def test_calls_that_cannot_be_used(name: str, arguments: str, kind: str) -> None:
    """Each defect of a call has its name."""
    judgement = judged("", "tool_calls", OFFERED, tool_calls=(call(arguments, name),))
    assert judgement.class_ == "error"
    assert kinds(judgement)[0] == kind


@pytest.mark.parametrize(
    ("name", "arguments"), [("read", '{"path": "a", "lines": [1, 2.0]}'), ("submit", ""), ("submit", "{}")]
)
def test_calls_that_can(name: str, arguments: str) -> None:
    """Valid calls are ok, and a tool without parameters needs no arguments."""
    assert judged("", "tool_calls", OFFERED, tool_calls=(call(arguments, name),)).class_ == "ok"


def test_cut_argument() -> None:
    """The last call cut by the limit is max_tokens; a broken one before it is an error."""
    cut = call('{"path": "sr', "read")
    assert judged("", "length", OFFERED, tool_calls=(cut,)).class_ == "max_tokens"
    assert judged("", "length", OFFERED, tool_calls=(cut, cut)).class_ == "error"


def test_deep_arguments() -> None:
    """Arguments nested a hundred thousand deep are judged, not followed."""
    arguments = '{"path": "a", "lines": ' + "[" * 100_000 + "}"
    judgement = judged("", "tool_calls", OFFERED, tool_calls=(call(arguments, "read"),))
    assert {"char_flood", "tool_arguments_unparsable"} <= set(kinds(judgement))


def test_tool_calls_without_calls() -> None:
    """Finish reason tool_calls without a call is an error."""
    assert kinds(judged("Here.", "tool_calls"))[0] == "tool_calls_missing"


@pytest.mark.parametrize(
    ("content", "context", "wanted"),
    [
        ("<function=run>ls</function>", Context(), "error"),
        ("<function=run>ls</function>", Context(tool_mode="text"), "ok"),
        ("<function=run>ls</function>", Context(prompt_text="Write <function=run>…</function>."), "ok"),
        ('{"name": "run", "arguments": {"cmd": "ls"}}', Context(), "error"),
        (
            '{"name": "run", "arguments": {"cmd": "ls"}}',
            Context(reference=Message(role="assistant", content="{}")),
            "ok",
        ),
        ('{"name": "run", "kind": {"cmd": "ls"}}', Context(), "ok"),
        ("Write `<tool_call>` before the call.", Context(), "ok"),
        ("```\n<tool_call>\n```", Context(), "ok"),
        ("All good.<|im_end|>", Context(), "ok"),
        ("All good.<|im_end|>\n<|im_start|>user\nThanks, and now the docs please.", Context(), "error"),
    ],
)
def test_markup(content: str, context: Context, wanted: str) -> None:
    """Markup of calls and of the template is an error in the content, and none in code, at its end, or by agreement."""
    assert judged(content, context=context).class_ == wanted


def test_two_equal_calls_are_noted() -> None:
    """The same call twice is a note, not a class."""
    judgement = judged("", "tool_calls", tool_calls=(call("{}"), call("{}")))
    assert judgement.class_ == "ok"
    assert kinds(judgement) == ["repeated_call"]


@pytest.mark.parametrize(
    ("usage", "wanted"),
    [
        (Usage(completion=0), ["usage_zero"]),
        (Usage(completion=3, reasoning=4), ["usage_reasoning"]),
        (Usage(completion=20001), ["usage_above_limit"]),
        (Usage(prompt=10, cached=11), ["usage_cached"]),
        (Usage(prompt=1, cached=2, completion=3, reasoning=4), ["usage_reasoning", "usage_cached"]),
        (Usage(prompt=10, cached=10, completion=20000, reasoning=20000), []),
        (Usage(cached=5), []),
    ],
)
def test_usage_that_cannot_be_true(usage: Usage, wanted: list[str]) -> None:
    """Counts that contradict the text, the limit or each other are noted each by its name, and decide nothing."""
    judgement = judge(structs.replace(answer("The lamp is on and shines."), usage=usage), Context())
    assert (judgement.class_, kinds(judgement)) == ("ok", wanted)


def test_usage_without_a_known_limit() -> None:
    """Where the limit is not known (0), no count is above it."""
    bare = structs.replace(answer("The lamp is on and shines."), usage=Usage(completion=9), max_tokens=0)
    assert kinds(judge(bare, Context())) == []


def test_schema_checker() -> None:
    """Types, required names and enums are checked; unknown types, unions and deep schemas are let pass."""
    assert missing_names({"a": 1}, {"required": ["a", "b", 3]}) == ["b"]
    assert violations(True, {"type": "integer"}) and not violations(None, {"type": ["string", "null"]})
    assert not violations(1, {"type": "decimal"}) and not violations({"a": []}, {"properties": {"a": True}})
    deep: dict[str, object] = {"type": "string"}
    value: object = 1
    for _ in range(40):
        deep, value = {"properties": {"a": deep}}, {"a": value}
    assert violations(value, deep) == []
