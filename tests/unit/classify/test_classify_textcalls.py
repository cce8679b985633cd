"""Calls that are written into the text, in tool mode `text`: judged like the calls a server parses."""

import json
from pathlib import Path

import pytest
from unit.classify.turns import judged, kinds

from soak.classify import Context
from soak.classify.textcalls import calls_in_text
from soak.facts import Message, text_of
from soak.importers import load_corpus

READ = {
    "type": "function",
    "function": {
        "name": "read",
        "parameters": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
    },
}
TEXT = Context(tools=(READ,), tool_mode="text")
CORPORA = Path(__file__).parents[3] / "transcripts"


def written(name: str = "read", end: str = "\n</tool_call>", **arguments: object) -> str:
    """Return a call as a model writes it."""
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}{end}"


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        ("I read it.\n" + written(name="raed", path="a"), "tool_name_unknown"),
        ("I read it.\n" + written(file="a"), "tool_argument_required"),
        ("I read it.\n" + written(path=3), "tool_schema_violation"),
        ('I read it.\n<tool_call>\n{"name": "read", "arguments": {"path", 3}}\n</tool_call>', "tool_call_unparsable"),
        ("I read it.\n<tool_call>\nread the file\n</tool_call>", "tool_call_unparsable"),
        ('<tool_call>{"arguments": {"path": "a"}}</tool_call>', "tool_call_unparsable"),
        ("<tool_call>[]\n" + written(path="a"), "tool_call_unparsable"),
    ],
)
def test_unusable_calls(content: str, kind: str) -> None:
    """A call in the text that cannot be parsed, routed or run is an error of the kind a parsed call would be."""
    judgement = judged(content, context=TEXT)
    assert judgement.class_ == "error"
    assert kinds(judgement)[0] == kind


@pytest.mark.parametrize(
    "content",
    [
        "I read it.\n" + written(path="a"),
        "I read it:\n" + written(path="a", end=""),
        written(path="a") + "\n" + written(path="b"),
        "Write `<tool_call>` and `</tool_call>` around the call.",
        "```\n<tool_call>\nname and arguments\n</tool_call>\n```\nThat is the form.",
        written(path="a </tool_call> and <tool_call> in a string"),
        written(path="```sh\nls") + "\n" + written(path="b"),
        written(path="<think>") + "\n" + written(path="b"),
        "<think><tool_call>no</tool_call></think>The file is empty.",
    ],
)
def test_usable_calls(content: str) -> None:
    """A call that can be run is ok, its closing tag or not; so is a tag that is only spoken of."""
    assert judged(content, context=TEXT).class_ == "ok"


def test_strings_hold_no_calls() -> None:
    """Tags, fences and think tags in the arguments of a call neither end it nor hide the next."""
    content = "\n".join(written(path=text) for text in ("<tool_call>", "```", "<think>", "</tool_call>"))
    assert [json.loads(call.arguments)["path"] for call in calls_in_text(content)] == [
        "<tool_call>", "```", "<think>", "</tool_call>",
    ]  # fmt: skip


def test_no_arguments() -> None:
    """Arguments that are null or left out are none."""
    assert [call.arguments for call in calls_in_text('<tool_call>{"name": "a", "arguments": null}')] == ["{}"]
    assert [call.arguments for call in calls_in_text('<tool_call>{"name": "a"}</tool_call>')] == ["{}"]


@pytest.mark.parametrize(
    "content",
    [
        "<tool_call>lamp" + " " * 300_000 + "door",
        ("<tool_call>lamp" + "\n" * 5_000 + "door") * 60,
        "<tool_call>" + '{"a":"' * 60_000,
        "`a` " * 90_000 + "<tool_call>[]</tool_call>",
        "<tool_call>" + "[" * 300_000,
    ],
    ids=["blanks", "lines", "strings", "code", "brackets"],
)
def test_hostile_blocks(content: str) -> None:
    """Whatever stands in a block, its reading takes steps in proportion to its length, or the test would not end."""
    assert calls_in_text(content) == ()


def test_announced_call_in_text() -> None:
    """An announced action without a call is early where the record holds a call in its text."""
    record = Message(role="assistant", content="Let me read the module.\n" + written(path="a"))
    context = Context(tools=(READ,), reference=record, tool_mode="text")
    assert judged("Let me read the module.", context=context).class_ == "early_stop"
    assert judged("The module is empty, so there is nothing to read.", context=context).class_ == "ok"


def test_open_call() -> None:
    """A call without an end is an early stop where the model stopped, and max_tokens where the limit cut it."""
    content = 'I read it.\n<tool_call>\n{"name": "read", "argum'
    assert judged(content, context=TEXT).class_ == "early_stop"
    assert judged(content, "length", context=TEXT).class_ == "max_tokens"


def test_same_call_again_and_again() -> None:
    """The same call many times in one text is a garbage loop, as it is among parsed calls."""
    assert judged("\n".join([written(path="a")] * 12), context=TEXT).class_ == "garbage_loop"


@pytest.mark.parametrize("folder", sorted(path.parent for path in CORPORA.glob("*/CORPUS.md")), ids=lambda at: at.name)
def test_bundled_answers_as_text(folder: Path) -> None:
    """Every recorded answer of the bundled corpora, its calls written out, is ok, and its calls are found again."""
    for episode in load_corpus(folder).episodes:
        for message in filter(None, (episode.answer(turn) for turn in episode.turns)):
            calls = [written(call.name, **json.loads(call.arguments or "{}")) for call in message.tool_calls]
            content = "\n".join([text_of(message.content), *calls])
            judgement = judged(content, context=Context(tools=episode.tools, reference=message, tool_mode="text"))
            assert judgement.class_ == "ok", (episode.id, judgement)
            assert [call.name for call in calls_in_text(content)] == [call.name for call in message.tool_calls]
