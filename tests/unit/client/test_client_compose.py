"""Bodies of requests."""

import json
from typing import Any

import pytest

from soak.client import compose
from soak.errors import UsageError
from soak.facts import Capabilities, Message, Sampling, ToolCall

TOOL = {"type": "function", "function": {"name": "bash", "parameters": {"type": "object"}}}
TALK = [
    Message(role="system", content="Be brief."),
    Message(role="user", content="List files."),
    Message(
        role="assistant",
        content="Looking.",
        reasoning="secret thought",
        tool_calls=(
            ToolCall(id="a", name="bash", arguments='{"command":  "ls"}'),
            ToolCall(id="b", name="bash", arguments="{broken"),
        ),
    ),
    Message(role="tool", content="a.py", tool_call_id="a"),
    Message(role="tool", content="no", tool_call_id="b"),
    Message(role="user", content="And now?"),
]


def composed(messages: list[Message] = TALK, tools: Any = (TOOL,), **changes: Any) -> dict[str, Any]:
    """Return a body with the defaults of these tests."""
    fields: dict[str, Any] = {"mode": "native", "model": "m", "sampling": Sampling(), "max_tokens": 100, "seed": 5}
    return compose(messages, tools, **{**fields, **changes})


def test_native_messages_are_sent_as_recorded() -> None:
    """Roles, ids and argument text are verbatim, also where they do not parse; reasoning is left out."""
    body = composed()
    assert [message["role"] for message in body["messages"]] == ["system", "user", "assistant", "tool", "tool", "user"]
    calls = body["messages"][2]["tool_calls"]
    assert [call["function"]["arguments"] for call in calls] == ['{"command":  "ls"}', "{broken"]
    assert body["messages"][3] == {"role": "tool", "content": "a.py", "tool_call_id": "a"}
    assert body["tools"] == [TOOL]
    assert "secret thought" not in json.dumps(body)


def test_the_request_asks_for_a_stream_with_usage() -> None:
    """Stream, usage, limit, seed and the given sampling are set; what is None is not sent."""
    body = composed(sampling=Sampling(top_p=None, min_p=0.1, stop=("x",)))
    assert (body["stream"], body["stream_options"]) == (True, {"include_usage": True})
    assert (body["max_tokens"], body["seed"], body["temperature"], body["min_p"]) == (100, 5, 1.0, 0.1)
    assert body["stop"] == ["x"]
    assert "top_p" not in body
    assert "top_k" not in body


def test_extras_are_asked_for_only_where_known() -> None:
    """Token ids and log probabilities are asked of servers that have them, and of no other."""
    able = Capabilities(model="m", token_ids=True, logprobs=True)
    assert composed(capabilities=able, logprobs=3)["top_logprobs"] == 3
    assert composed(capabilities=able)["return_token_ids"] is True
    assert "logprobs" not in composed(capabilities=able)
    plain = composed(capabilities=Capabilities(model="m"), logprobs=3)
    assert "return_token_ids" not in plain
    assert "logprobs" not in plain


def test_text_mode_renders_calls_and_results() -> None:
    """Without a tool template all is plain text: schemas in the system prompt, calls and results in tags."""
    body = composed(mode="text")
    assert "tools" not in body
    assert [message["role"] for message in body["messages"]] == ["system", "user", "assistant", "user"]
    system, _, assistant, results = (message["content"] for message in body["messages"])
    assert system.startswith("Be brief.\n\n# Tools")
    assert '{"name":"bash","parameters":{"type":"object"}}' in system
    assert assistant.startswith(
        'Looking.\n<tool_call>\n{"name": "bash", "arguments": {"command":  "ls"}}\n</tool_call>'
    )
    assert "{broken" in assistant
    assert results == ("<tool_response>\na.py\n</tool_response>\n\n<tool_response>\nno\n</tool_response>\n\nAnd now?")


def test_text_mode_keeps_system_messages_at_the_head() -> None:
    """A later system message becomes a user message, and a missing one is made for the schemas."""
    late = [Message(role="user", content="a"), Message(role="system", content="b")]
    assert composed(late, (), mode="text")["messages"] == [{"role": "user", "content": "a\n\nb"}]
    made = composed(late[:1], mode="text")["messages"]
    assert [message["role"] for message in made] == ["system", "user"]


@pytest.mark.parametrize("mode", ["native", "text"])
def test_a_salt_comes_before_everything(mode: str) -> None:
    """The salt is the first thing in the prompt, with or without a system message, and changes nothing else."""
    plain, salted = composed(mode=mode), composed(mode=mode, salt="k7")
    assert salted["messages"][0]["content"] == "k7\n" + plain["messages"][0]["content"]
    assert salted["messages"][1:] == plain["messages"][1:]
    assert composed(TALK[1:2], (), mode=mode, salt="k7")["messages"][0] == {"role": "system", "content": "k7"}


def test_parts_of_content_survive() -> None:
    """Content given in parts is sent in parts, salted with one more, and read as text in text mode."""
    parts = [Message(role="system", content=[{"type": "text", "text": "Be brief."}])]
    assert composed(parts, (), salt="k7")["messages"][0]["content"][0] == {"type": "text", "text": "k7\n"}
    assert composed(parts, (), mode="text")["messages"][0]["content"] == "Be brief."


def test_extra_body_comes_last_but_may_not_change_the_question() -> None:
    """Extra fields win over ours, except for messages, stream and the number of answers."""
    assert composed(extra_body={"temperature": 0.2, "chat_template_kwargs": {}})["temperature"] == 0.2
    for name in ("messages", "stream", "stream_options", "n"):
        with pytest.raises(UsageError):
            composed(extra_body={name: None})
