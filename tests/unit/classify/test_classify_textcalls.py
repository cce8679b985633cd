"""Calls that are written into the text, in tool mode `text`: judged like the calls a server parses."""

import json
from pathlib import Path

import pytest
from unit.classify.turns import judged, kinds

from soak.classify import Context
from soak.classify.textcalls import calls_in_text
from soak.facts import text_of
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
        "<think><tool_call>no</tool_call></think>The file is empty.",
    ],
)
def test_usable_calls(content: str) -> None:
    """A call that can be run is ok, its closing tag or not; so is a tag that is only spoken of."""
    assert judged(content, context=TEXT).class_ == "ok"


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
