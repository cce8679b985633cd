"""Corpora: written and read, hostile lines refused by place, odd ones reported."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from soak.errors import CorpusError
from soak.facts import Episode, Message, ToolCall, Turn, episode_from_json, episode_to_json, make_episode
from soak.importers import (
    available_corpora,
    check_corpus,
    corpus_digest,
    find_corpus,
    load_corpus,
    outline,
    outline_corpus,
    write_corpus,
)

CALLS = (
    ToolCall(id="c1", name="bash", arguments='{"command":"ls"}'),
    ToolCall(id="c2", name="bash", arguments="{oops"),
)
BASH = {"type": "function", "function": {"name": "bash", "parameters": {"type": "object"}}}


def episode(name: str = "e") -> Episode:
    """Return an episode with parallel calls, reasoning and two turns."""
    messages = [
        Message(role="system", content="sys"),
        Message(role="user", content="do it"),
        Message(role="assistant", content=None, reasoning="hm", tool_calls=CALLS),
        Message(role="tool", content="a b", tool_call_id="c1"),
        Message(role="tool", content="", tool_call_id="c2"),
        Message(role="assistant", content="done"),
    ]
    return make_episode(name, messages, tools=(BASH,), meta={"licence": "MIT"})


def line(**changes: Any) -> dict[str, Any]:
    """Return the JSON of an episode with some top-level fields changed."""
    return {**json.loads(episode_to_json(episode())), **changes}


def refused(folder: Path, *lines: bytes) -> CorpusError:
    """Return the error of a corpus with these lines."""
    folder.mkdir(exist_ok=True)
    (folder / "a.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    with pytest.raises(CorpusError) as caught:
        load_corpus(folder)
    return caught.value


def test_written_corpus_is_read_back_equal(tmp_path: Path) -> None:
    """Episodes, card and digest are the same after writing and reading; CORPUS.md tells them."""
    episodes = (episode("one"), episode("two"))
    card = write_corpus(tmp_path / "mine", episodes, "Source: made up.")
    corpus = load_corpus(tmp_path / "mine")
    text = (tmp_path / "mine" / "CORPUS.md").read_text()
    assert corpus.episodes == episodes
    assert corpus.card == card
    assert (card.name, card.episodes, card.turns, card.digest) == ("mine", 2, 4, corpus_digest(episodes))
    assert "Source: made up." in text
    assert card.digest in text
    assert "MIT (2)" in text
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_digest_covers_what_is_sent_and_not_the_meta(tmp_path: Path) -> None:
    """Another id, message, tool or set of turns changes the digest; another licence note does not."""
    base = episode()
    messages = [node.message for node in base.nodes]
    others = [
        make_episode("f", messages, tools=base.tools),
        make_episode("e", messages[:-1], tools=base.tools),
        make_episode("e", messages),
        make_episode("e", messages, tools=base.tools, turns=[base.turns[0]]),
    ]
    digests = {corpus_digest([item]) for item in [base, *others]}
    assert len(digests) == 5
    assert corpus_digest([make_episode("e", messages, tools=base.tools)]) == corpus_digest([base])


def test_turns_and_links_may_be_left_out_or_given() -> None:
    """A line without turns gets one for each answer; `after` makes a tree; the same line comes out again."""
    tree = {
        "schema": "soak.episode/1",
        "id": "t",
        "messages": [
            {"role": "user", "content": "a"},
            {"role": "assistant", "content": "b"},
            {"role": "assistant", "content": "c", "after": 0},
        ],
    }
    read = episode_from_json(json.dumps(tree))
    assert [(turn.prefix, turn.answer) for turn in read.turns] == [(0, 1), (0, 2)]
    assert [node.parent for node in read.nodes] == [None, 0, 0]
    assert episode_from_json(episode_to_json(read)) == read


def test_files_are_read_in_the_order_of_their_names(tmp_path: Path) -> None:
    """A corpus of several files is one list, in the order of names, blank lines and a byte-order mark ignored."""
    (tmp_path / "b.jsonl").write_bytes(episode_to_json(episode("second")))
    (tmp_path / "a.jsonl").write_bytes(b"\xef\xbb\xbf" + episode_to_json(episode("first")) + b"\n\n")
    assert [item.id for item in load_corpus(tmp_path).episodes] == ["first", "second"]


GOOD = episode_to_json(episode("good"))


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (b"{", "is not an episode"),
        (b"[]", "is not an episode"),
        (b'{"schema":"soak.episode/2","id":"x","messages":[]}', "is not an episode"),
        (json.dumps(line(id="x", extra=1)).encode(), "unknown field `extra`"),
        (json.dumps(line(id="")).encode(), "the id ''"),
        (json.dumps(line(id="a b")).encode(), "the id 'a b'"),
        (json.dumps(line(id="a\nInjected: header")).encode(), "the id"),
        (json.dumps(line(id="x", messages=[{"role": "robot"}])).encode(), "Invalid enum value 'robot'"),
        (json.dumps(line(id="x", messages=[])).encode(), "points outside the 0 messages"),
        (json.dumps(line(id="x", messages=[], turns=[])).encode(), "it has no message"),
        (json.dumps(line(id="x", turns=[{"prefix": 99}])).encode(), "points outside"),
        (json.dumps(line(id="x", turns=[{"prefix": 1, "index": 4}])).encode(), "index is not its place"),
        (json.dumps(line(id="x", turns=[{"prefix": 0, "answer": 1}])).encode(), "is by the user"),
        (json.dumps(line(id="x", turns=[{"prefix": 0, "answer": 2}])).encode(), "does not follow message 0"),
        (
            json.dumps(line(id="x", turns=[{"prefix": 1, "wait_s": -0.5}])).encode(),
            "wait_s or completion_tokens is negative",
        ),
        (json.dumps(line(id="x", turns=[{"prefix": 1, "completion_tokens": -1}])).encode(), "is negative"),
        (json.dumps(line(id="x", messages=[{"role": "user", "after": 5}])).encode(), "follows message 5"),
        (b'{"schema":"soak.episode/1","id":"caf\xe9","messages":[]}', "is not UTF-8"),
        (json.dumps(line(id="x", meta=json.loads("[" * 80 + "]" * 80))).encode(), "is not an episode"),
        (json.dumps(line(id="x", meta={"a": json.loads("[" * 80 + "]" * 80)})).encode(), "nested deeper than 64"),
        (b'{"schema":"soak.episode/1","id":"x","messages":[],"meta":{"a":' + b"[" * 10**6, "nested deeper"),
        (json.dumps(line(id="x", meta={"a": 10**400})).encode(), "beyond 64 bits"),
        (json.dumps(line(id="x", tools=[{"a": 10**400}])).encode(), "beyond 64 bits"),
        (json.dumps(line(id="x", messages=[{"role": "user", "content": "\ud800"}])).encode(), "is not an episode"),
        (GOOD, "the episode id 'good' is already used"),
    ],
)
def test_wrong_line_is_named_with_its_place(bad: bytes, why: str, tmp_path: Path) -> None:
    """A line that is no episode is refused with file, line number and reason, exit code 4."""
    error = refused(tmp_path / "c", GOOD, b"", bad)
    assert error.exit_code == 4
    assert f"{tmp_path}/c/a.jsonl:3" in error.what
    assert why in error.why
    assert all(len(text) < 2000 for text in error.lines())


def test_line_of_fifty_megabytes_is_refused(tmp_path: Path) -> None:
    """A line above 32 MiB is refused by its place, without being read whole."""
    error = refused(tmp_path / "c", GOOD, b'{"schema":"' + b"x" * (50 << 20) + b'"}')
    assert "a.jsonl:2" in error.what
    assert "longer than 32 MiB" in error.why


@pytest.mark.parametrize("name", ["absent", "empty", "blank"])
def test_folder_without_episodes_is_refused(name: str, tmp_path: Path) -> None:
    """A folder that is not there, has no JSONL, or only blank lines is no corpus."""
    if name != "absent":
        (tmp_path / name).mkdir()
    if name == "blank":
        (tmp_path / name / "a.jsonl").write_text("\n \n")
    with pytest.raises(CorpusError):
        load_corpus(tmp_path / name)


def test_folder_in_use_is_never_overwritten(tmp_path: Path) -> None:
    """A folder with other files is refused even with `replace`, and stays as it was."""
    (tmp_path / "thesis.txt").write_text("precious")
    for replace in (False, True):
        with pytest.raises(CorpusError, match="cannot be used"):
            write_corpus(tmp_path, [episode()], replace=replace)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_corpus_is_replaced_only_on_request(tmp_path: Path) -> None:
    """A corpus that is there is kept unless `replace` says otherwise; then the new one stands alone."""
    folder = tmp_path / "c"
    write_corpus(folder, [episode("old")])
    with pytest.raises(CorpusError):
        write_corpus(folder, [episode("new")])
    assert load_corpus(folder).episodes[0].id == "old"
    write_corpus(folder, [episode("new")], replace=True)
    assert [item.id for item in load_corpus(folder).episodes] == ["new"]
    assert [path.name for path in tmp_path.iterdir()] == ["c"]


def test_bad_episodes_are_not_written(tmp_path: Path) -> None:
    """No episode, a repeated id, an unfit id: nothing appears on the disk."""
    for episodes in ([], [episode(), episode()], [episode("a:b")]):
        with pytest.raises(CorpusError):
            write_corpus(tmp_path / "c", episodes)
    assert list(tmp_path.iterdir()) == []


def test_killed_writer_leaves_no_corpus(tmp_path: Path) -> None:
    """A writer killed before the exchange leaves nothing under the corpus's name."""
    code = (
        "import os, sys, pathlib\n"
        "from soak.importers import corpus\n"
        "from soak.facts import Message, make_episode\n"
        "corpus.exchange = lambda part, folder: os._exit(9)\n"
        "e = make_episode('e', [Message(role='user', content='a'), Message(role='assistant', content='b')])\n"
        "corpus.write_corpus(pathlib.Path(sys.argv[1]), [e])\n"
    )
    ended = subprocess.run([sys.executable, "-c", code, str(tmp_path / "c")], timeout=60, check=False)
    assert ended.returncode == 9
    assert not (tmp_path / "c").exists()


def test_outline_counts_each_message_once() -> None:
    """Turns, calls, results, characters (text and arguments), deepest prefix, licence of one episode."""
    numbers = outline(episode())
    assert (numbers.turns, numbers.messages, numbers.calls, numbers.results) == (2, 6, 2, 2)
    assert (numbers.parallel, numbers.reasoning, numbers.tools, numbers.unanswered) == (1, 1, 1, 0)
    assert numbers.characters == len("sysdo it" + '{"command":"ls"}' + "{oops" + "a b" + "done")
    assert numbers.deepest_characters == numbers.characters - len("done")
    assert numbers.deepest_tokens == -(-numbers.deepest_characters // 4)
    assert numbers.licence == "MIT"


def test_check_names_oddities() -> None:
    """Orphan calls and results, unparsable arguments, unknown tools, empty answers and no turns are all reported."""
    messages = [
        Message(role="system", content=""),
        Message(role="user", content="q"),
        Message(role="assistant", tool_calls=CALLS),
        Message(role="tool", content="r", tool_call_id="c1"),
        Message(role="tool", content="r", tool_call_id="c9"),
        Message(role="assistant", content=" "),
    ]
    odd = make_episode("odd", messages, tools=({"type": "function", "function": {"name": "other"}},))
    bare = make_episode("bare", [Message(role="user", content="q")], meta={"licence": "MIT"})
    found = {(item.episode, item.message, item.severity, item.text) for item in check_corpus([odd, bare])}
    assert found == {
        ("odd", None, "note", "states no licence"),
        ("odd", 0, "note", "an empty message by the system"),
        ("odd", 2, "note", "the arguments of bash are not a JSON object"),
        ("odd", 2, "note", "calls bash, which is not among the tools offered"),
        ("odd", 4, "problem", "a tool result without a call (id c9)"),
        ("odd", 5, "problem", "1 tool calls before it have no result"),
        ("odd", 5, "note", "the recorded answer of turn 1 is empty"),
        ("bare", None, "problem", "has no turn to replay"),
    }


def test_check_follows_branches() -> None:
    """In a tree, a result belongs to the calls of its own branch."""
    messages = [
        Message(role="user", content="q"),
        Message(role="assistant", tool_calls=CALLS[:1]),
        Message(role="tool", content="r", tool_call_id="c1"),
        Message(role="tool", content="again", tool_call_id="c1"),
    ]
    turns = [Turn(index=0, prefix=0, answer=1)]
    tree = make_episode("t", messages, parents=[None, 0, 1, 1], turns=turns, tools=(BASH,), meta={"licence": "MIT"})
    assert check_corpus([tree]) == ()


@pytest.mark.parametrize("name", sorted(available_corpora()))
def test_shipped_corpus_is_clean(name: str) -> None:
    """Each corpus of the project loads, states its licence, and has no problem."""
    corpus = load_corpus(find_corpus(name))
    numbers = outline_corpus(corpus.card, corpus.episodes)
    assert "not stated" not in numbers.licences
    assert [item for item in check_corpus(corpus.episodes) if item.severity == "problem"] == []


def test_unknown_corpus_lists_the_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A misspelt corpus is answered with what there is; the working folder comes first."""
    monkeypatch.chdir(tmp_path)
    write_corpus(tmp_path / "transcripts" / "mine", [episode()])
    with pytest.raises(CorpusError) as caught:
        find_corpus("mien")
    assert "mine" in caught.value.why
    assert find_corpus("mine") == Path("transcripts/mine")
    assert find_corpus(str(tmp_path)) == tmp_path
