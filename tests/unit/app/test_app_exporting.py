"""Corpora as the files of other tools, and back."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from rigs.transcripts import NAMES, lay_out

from soak.app.exporting import export_corpus
from soak.cli.corpora import export_command
from soak.errors import CorpusError, UsageError
from soak.facts import Episode, Message, ToolCall, Turn, make_episode
from soak.importers import (
    Exported,
    available_corpora,
    exporting,
    find_corpus,
    load_corpus,
    read_transcripts,
    write_corpus,
)

CALL = ToolCall(id="c1", name="run", arguments='{"command": "ls"}')
TOOL = {"type": "function", "function": {"name": "run", "parameters": {"type": "object"}}}
LONG = [
    Message(role="system", content="You work."),
    Message(role="user", content="List."),
    Message(role="assistant", content="Yes.", reasoning="hm", tool_calls=(CALL,)),
    Message(role="tool", content="a.py", tool_call_id="c1"),
    Message(role="assistant", content="One file."),
    Message(role="user", content="Thanks."),
    Message(role="assistant", content="Bye."),
]


def long(**more: Any) -> Episode:
    """Return a conversation of three turns with a tool call."""
    meta = {"request": {"model": "m1", "temperature": 0.6, "max_tokens": 900, "stop": ["END"]}, "licence": "MIT"}
    return make_episode("long", LONG, tools=(TOOL,), meta={**meta, **more})


def corpus(folder: Path, *episodes: Episode) -> str:
    """Write a corpus and return its path."""
    write_corpus(folder / "corpus", episodes or [long()])
    return str(folder / "corpus")


def lines(path: Path) -> list[dict[str, Any]]:
    """Return the values of a JSON Lines file."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_openai_bodies_are_those_a_run_sends_with_what_was_recorded(tmp_path: Path) -> None:
    """A body a turn: all messages before it, tools, and the recorded model and sampling; what is lost is counted."""
    done = export_corpus(corpus(tmp_path), tmp_path / "out.jsonl", "openai")
    bodies = lines(tmp_path / "out.jsonl")
    assert [len(body["messages"]) for body in bodies] == [2, 4, 6]
    assert bodies[1]["messages"][2]["tool_calls"][0]["function"] == {"name": "run", "arguments": CALL.arguments}
    assert "reasoning" not in bodies[1]["messages"][2]
    for body in bodies:
        assert body["tools"] == [TOOL]
        assert (body["model"], body["temperature"], body["max_tokens"], body["stop"]) == ("m1", 0.6, 900, ["END"])
        assert body["stream"] is True
        assert "conversation_id" not in body  # AIPerf takes a line that has one for another format
    assert done == Exported(
        path=str(tmp_path / "out.jsonl"), format="openai", conversations=1, requests=3, lost=done.lost
    )
    assert done.lost == {
        "recorded answers that no request holds (the last of a conversation)": 1,
        "reasoning texts of answers": 1,
    }


def test_a_model_can_be_named_and_its_absence_is_told(tmp_path: Path) -> None:
    """`model` takes the place of the recorded one; without either the bodies have none, which is counted."""
    name = corpus(tmp_path, make_episode("bare", LONG[:3]))
    assert (
        export_corpus(name, tmp_path / "a", "openai").lost["models, which were not recorded: name one with --model"]
        == 1
    )
    assert "model" not in lines(tmp_path / "a")[0]
    done = export_corpus(name, tmp_path / "b", "openai", model="m2")
    assert lines(tmp_path / "b")[0]["model"] == "m2"
    assert not [reason for reason in done.lost if "model" in reason]


def test_one_conversation_or_one_turn_is_exported(tmp_path: Path) -> None:
    """An episode and a turn can be named; unknown ones are errors that say where to look."""
    name = corpus(tmp_path, long(), make_episode("other", LONG[:3]))
    assert export_corpus(name, tmp_path / "a", "openai", episode="long").requests == 3
    assert export_corpus(name, tmp_path / "b", "openai", episode="long", turn=1).requests == 1
    assert [len(body["messages"]) for body in lines(tmp_path / "b")] == [4]
    export_corpus(name, tmp_path / "c", "vllm", episode="long", turn=1)
    assert len(json.loads((tmp_path / "c").read_text())[0]["messages"]) == 4
    for episode, turn in (("none", None), ("long", 3), ("long", -1)):
        with pytest.raises(CorpusError) as caught:
            export_corpus(name, tmp_path / "d", "openai", episode=episode, turn=turn)
        assert "soak corpus show" in caught.value.hint
    with pytest.raises(UsageError):
        export_corpus(name, tmp_path / "d", "csv")


def test_aiperf_payloads_are_a_file_a_conversation(tmp_path: Path) -> None:
    """AIPerf reads a folder: a file is a session, its lines the turns."""
    name = corpus(tmp_path, long(), make_episode("other", LONG[:3]))
    done = export_corpus(name, tmp_path / "out", "aiperf")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["long.jsonl", "other.jsonl"]
    assert [len(body["messages"]) for body in lines(tmp_path / "out" / "long.jsonl")] == [2, 4, 6]
    assert (done.conversations, done.requests) == (2, 4)


def test_vllm_conversations_take_turns_and_have_text_only(tmp_path: Path) -> None:
    """User and answer by turns, the system text before the first, calls and results as text, ends on an answer."""
    open_end = make_episode("open", [*LONG[:6]], turns=[Turn(index=0, prefix=1, answer=2), Turn(index=1, prefix=5)])
    done = export_corpus(corpus(tmp_path, long(), open_end), tmp_path / "out.json", "vllm")
    for conversation in json.loads((tmp_path / "out.json").read_text()):
        messages = conversation["messages"]
        assert [one["role"] for one in messages] == ["user", "assistant"] * (len(messages) // 2)
        assert all(one.keys() == {"role", "content"} for one in messages)
        assert all(isinstance(one["content"], str) for one in messages)
        assert messages[0]["content"].startswith("You work.")
        assert '"command": "ls"' in messages[1]["content"]
        assert "a.py" in messages[2]["content"]
    assert done.lost["last messages without a recorded answer"] == 1
    assert done.lost["tool calls written as text"] == 2
    assert done.requests == 5


@pytest.mark.parametrize(
    ("roles", "kept"),
    [
        ("s", ""),
        ("su", ""),
        ("sa", "ua"),
        ("a", ""),
        ("aua", "ua"),
        ("suaua", "uaua"),
        ("uau", "ua"),
        ("", ""),
    ],
)
def test_conversation_of_any_shape_begins_with_the_user_and_ends_with_an_answer(roles: str, kept: str) -> None:
    """Whatever neighbours there are, what comes out is pairs; nothing else is invented."""
    names = {"s": "system", "u": "user", "a": "assistant"}
    said = [{"role": names[one], "content": one} for one in roles]
    found = exporting.by_turns(said, Counter())
    assert "".join(one["role"][0] for one in found) == kept


@pytest.mark.parametrize("format_", ["openai", "aiperf"])
@pytest.mark.parametrize("name", available_corpora())
def test_requests_of_a_shipped_corpus_come_back_as_the_same_turns(name: str, format_: str, tmp_path: Path) -> None:
    """Exported and imported again, every turn has the same prefix, tool schemas included, in the same order."""
    export_corpus(name, tmp_path / "out", format_)
    back = read_transcripts([tmp_path / "out"]).episodes
    before = load_corpus(find_corpus(name)).episodes
    assert [prefixes(one) for one in back] == [prefixes(one) for one in before]


def prefixes(episode: Episode) -> list[list[Message]]:
    """Return what the model sees at each turn, without what is never sent."""
    keep = ("role", "content", "tool_calls", "tool_call_id", "name")
    seen = [[{key: getattr(one, key) for key in keep} for one in episode.prefix(turn)] for turn in episode.turns]
    return [[Message(**{**one, "content": one["content"] or None}) for one in way] for way in seen]


@pytest.mark.parametrize("name", NAMES)
def test_vllm_conversations_of_every_format_come_back_equal(name: str, tmp_path: Path) -> None:
    """Whatever was imported, an export that is imported and exported again is the same file."""
    write_corpus(tmp_path / "one", read_transcripts([lay_out(name, tmp_path)]).episodes)
    if not any(
        node.message.role == "assistant" for one in load_corpus(tmp_path / "one").episodes for node in one.nodes
    ):
        with pytest.raises(CorpusError):
            export_corpus(str(tmp_path / "one"), tmp_path / "a.json", "vllm")
        return
    export_corpus(str(tmp_path / "one"), tmp_path / "a.json", "vllm")
    write_corpus(tmp_path / "two", read_transcripts([tmp_path / "a.json"]).episodes)
    export_corpus(str(tmp_path / "two"), tmp_path / "b.json", "vllm")
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()


def test_nothing_is_overwritten_without_the_flag(tmp_path: Path) -> None:
    """A file or folder that is there stays; with --replace only an earlier export goes."""
    name = corpus(tmp_path)
    for format_, target in (("openai", tmp_path / "a"), ("aiperf", tmp_path / "b")):
        export_corpus(name, target, format_)
        with pytest.raises(UsageError) as caught:
            export_corpus(name, target, format_)
        assert "--replace" in caught.value.hint
        assert export_corpus(name, target, format_, replace=True).requests == 3
    (tmp_path / "b" / "notes.md").write_text("mine")
    for format_, target in (("aiperf", tmp_path / "b"), ("openai", tmp_path / "b"), ("aiperf", tmp_path / "a")):
        with pytest.raises(UsageError):
            export_corpus(name, target, format_, replace=True)
    assert (tmp_path / "b" / "notes.md").read_text() == "mine"


def test_export_that_fails_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the limit is reached half-way, the earlier export stays as it was and no part is left."""
    name = corpus(tmp_path, long(), make_episode("other", LONG[:3]))
    for format_ in exporting.EXPORT_FORMATS:
        target = tmp_path / format_
        export_corpus(name, target, format_)
        before = [path.read_bytes() for path in sorted(target.rglob("*") if target.is_dir() else [target])]
        monkeypatch.setattr(exporting, "BYTES_MAX", 700)
        with pytest.raises(CorpusError, match="cannot export"):
            export_corpus(name, target, format_, replace=True)
        monkeypatch.undo()
        assert [path.read_bytes() for path in sorted(target.rglob("*") if target.is_dir() else [target])] == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["aiperf", "corpus", "openai", "vllm"]


def test_command_prints_what_was_written_and_lost(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Text for people, one document for scripts."""
    name = corpus(tmp_path)
    assert export_command(name, tmp_path / "a") == 0
    printed = capsys.readouterr().out
    assert "1 conversations, 3 requests (openai)\n" in printed
    assert "lost or changed 1: reasoning texts of answers" in printed
    assert export_command(name, tmp_path / "a", replace=True, format_="openai", as_json=True) == 0
    assert json.loads(capsys.readouterr().out)["requests"] == 3
