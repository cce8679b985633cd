"""Whatever an episode holds, redacting it keeps its shape and its JSON, and finds nothing the second time."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from soak.facts import Message, ToolCall, make_episode
from soak.importers import redact

PIECES = st.sampled_from(
    [
        "ann@lamp.io",
        "/home/ann/x",
        "C:\\Users\\Ann",
        "sk-proj-abcDEF0123456789abcDEF0123456789",
        "token=abc123def456ghi789jkl012",
        "https://bob:Secr3tPass@host",
        "-----BEGIN PRIVATE KEY-----\nMIIEpAIBAAKCAQEA0123456789\n-----END PRIVATE KEY-----",
        "user1@example.com",
        "REDACTED_KEY_1",
        "@",
        ":",
        "=",
        '"',
        "\\",
        "\n",
        "-",
        "é",
        "a",
        "1",
    ]
)
TEXT = st.lists(PIECES, max_size=6).map("".join) | st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
VALUES = st.recursive(
    TEXT | st.none() | st.integers(), lambda v: st.lists(v, max_size=3) | st.dictionaries(TEXT, v, max_size=3)
)


@settings(max_examples=200, deadline=None)
@given(st.lists(TEXT, min_size=1, max_size=4), VALUES)
def test_redacting_is_steady_and_keeps_json(texts: list[str], value: object) -> None:
    """Twice is once, JSON stays JSON of the same form, and the count is of what changed."""
    call = ToolCall(id="c", name="f", arguments=json.dumps(value))
    messages = [*(Message(role="user", content=text) for text in texts), Message(role="assistant", tool_calls=(call,))]
    episode = make_episode("e", messages)
    (clean,), counts = redact([episode])
    assert redact([clean]) == ((clean,), {})
    assert (clean == episode) == (not counts)
    arguments = json.loads(clean.nodes[-1].message.tool_calls[0].arguments)
    assert shape(arguments) == shape(value)


def shape(value: object) -> object:
    """Return a JSON value without its texts."""
    if isinstance(value, dict):
        return [shape(item) for item in value.values()]
    if isinstance(value, list):
        return [shape(item) for item in value]
    return "" if isinstance(value, str) else value
