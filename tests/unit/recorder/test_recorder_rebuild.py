"""The recorder: rebuilds byte for byte, says precisely what differs, and its parts do what they say."""

import json
from pathlib import Path

import pytest

from ops.recorder.__main__ import main
from ops.recorder.corpus import differences, environment_differences, first_difference
from ops.recorder.repository import RepositoryError, _states
from ops.recorder.sandbox import SandboxError, clip, fixed_order, workplace
from ops.recorder.script import Call, ScriptError, read_script
from ops.recorder.tools import Toolbox

TRANSCRIPTS = Path(__file__).parents[3] / "transcripts"


def same_environment(corpus: str) -> None:
    """Skip where outputs may differ because other programs are installed than recorded."""
    found = environment_differences(TRANSCRIPTS / corpus)
    if found:
        pytest.skip("recorded with other versions: " + "; ".join(found))


def test_smoke_is_rebuilt_byte_for_byte(capsys: pytest.CaptureFixture[str]) -> None:
    """Recording the smoke corpus again gives the files that are there."""
    same_environment("smoke")
    assert main(["rebuild", "--corpus", "smoke"]) == 0
    assert "smoke: the same byte for byte" in capsys.readouterr().out


def test_one_deep_episode_is_rebuilt(capsys: pytest.CaptureFixture[str]) -> None:
    """Recording one episode of swe_agent again gives its line."""
    same_environment("swe_agent")
    assert main(["rebuild", "--corpus", "swe_agent", "--episode", "quill_default"]) == 0
    assert "quill-default: the same byte for byte" in capsys.readouterr().out


def test_a_difference_is_reported_precisely(tmp_path: Path) -> None:
    """A changed tool result is named by episode, message, field and line, with both spellings."""
    data = (TRANSCRIPTS / "smoke" / "pocket.jsonl").read_bytes()
    episodes = [json.loads(line) for line in data.splitlines()]
    at = next(number for number, message in enumerate(episodes[1]["messages"]) if message["role"] == "tool")
    lines = episodes[1]["messages"][at]["content"].split("\n")
    lines[2] = "another line"
    episodes[1]["messages"][at]["content"] = "\n".join(lines)
    changed = b"".join(json.dumps(episode).encode() + b"\n" for episode in episodes)
    (tmp_path / "pocket.jsonl").write_bytes(changed)
    (found,) = differences("smoke", {"pocket.jsonl": data}, tmp_path)
    place = f"smoke/pocket.jsonl: episode pocket-duration, message {at} (tool), content: line 3"
    assert found.startswith(f"{place}: was 'another line', is ")


def test_missing_and_extra_parts_are_reported(tmp_path: Path) -> None:
    """Files and episodes on one side only are named."""
    data = (TRANSCRIPTS / "smoke" / "pocket.jsonl").read_bytes()
    lines = data.splitlines(keepends=True)
    (tmp_path / "pocket.jsonl").write_bytes(b"".join(lines[:2]))
    (tmp_path / "old.jsonl").write_bytes(lines[0])
    found = differences("c", {"pocket.jsonl": b"".join(lines[1:]), "new.jsonl": lines[0]}, tmp_path)
    assert found == [
        f"c/new.jsonl: not there; recorded now with {len(lines[0]):,} bytes",
        "c/old.jsonl: there, but not recorded any more",
        "c/pocket.jsonl: episode pocket-boundary was not recorded again",
        "c/pocket.jsonl: episode pocket-units is new",
    ]


def test_other_versions_are_named(tmp_path: Path) -> None:
    """A program with another version than recorded is named with both versions."""
    episode = json.loads((TRANSCRIPTS / "smoke" / "pocket.jsonl").read_bytes().splitlines()[0])
    episode["meta"]["recorder"] |= {"git": "1.0.0"}
    (tmp_path / "a.jsonl").write_text(json.dumps(episode) + "\n")
    assert any(text.startswith("git: recorded with 1.0.0, here ") for text in environment_differences(tmp_path))


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("a\nb", "a\nc", "line 2: was 'b', is 'c'"),
        ("a", "a\nb", "1 lines before, 2 now"),
        ("x" * 300, "y", f"line 1: was '{'x' * 200}', is 'y'"),
    ],
)
def test_first_difference(old: str, new: str, told: str) -> None:
    """The first differing line is quoted, at most 200 characters of it; texts that only end differently are counted."""
    assert first_difference(old, new) == told


@pytest.mark.parametrize(
    "text, told",
    [
        ("== episode a\n== say\nx\n", "no block check, defect, repository"),
        ("== bash ls\n", "x.episode:1: a call needs"),
        ("== say\na\n== edit f\nold\n", "x.episode:3: an edit needs a line"),
        ("== user\na\n== dance\n", "x.episode:3: unknown block `dance`"),
        ("a\n== say\n", "x.episode:1: text before the first block"),
    ],
)
def test_wrong_scripts_name_the_line(tmp_path: Path, text: str, told: str) -> None:
    """A script that is wrong is refused with file, line and problem."""
    (tmp_path / "x.episode").write_text(text)
    with pytest.raises(ScriptError, match=told):
        read_script(tmp_path / "x.episode")


def test_scripts_group_calls_into_answers(tmp_path: Path) -> None:
    """Reasoning, content and the calls after them make one answer; the next `say` begins another."""
    head = "== episode a\n== repository r\n== defect d\n== check\npass\n"
    (tmp_path / "y.phase").write_text("== think\nt\n== say\ns\n== bash ls\n== view f 1 2\n")
    (tmp_path / "x.episode").write_text(f"{head}== include y\n== say\nu\n== bash cat <<E\na\nE\n== submit\nw\n")
    first, second = read_script(tmp_path / "x.episode").steps
    assert (first.reasoning, first.text) == ("t", "s")
    view = Call("view_file", {"path": "f", "start_line": 1, "end_line": 2})
    assert first.calls == [Call("bash", {"command": "ls"}), view]
    assert second.text == "u"
    assert second.calls == [Call("bash", {"command": "cat <<E\na\nE"}), Call("submit", {"summary": "w"})]


@pytest.mark.parametrize(
    ("command", "fine"),
    [
        ("find . -name x", False),
        ("find . -name x | sort", True),
        ("grep -rn x .", False),
        ("git grep -n x", True),
        ("ls -l", False),
        ("ls", True),
        ("cat <<'E'\nfind . x\nE\n", True),
        ("true && date", False),
        ("for f in a; do stat $f; done | sort", False),
    ],
)
def test_commands_that_do_not_repeat_are_refused(command: str, fine: bool) -> None:
    """Commands whose output depends on the file system or the moment are refused, texts that only name them are not."""
    assert fixed_order(command) is fine


def test_sandbox_hides_the_machine_and_the_moment() -> None:
    """Paths, durations and addresses come out the same on every machine; nothing of our environment gets in."""
    with workplace() as box:
        box.fresh()
        folder = box.work / "thing"
        folder.mkdir()
        assert box.run("pwd; echo $HOME $TMPDIR $USER", folder)[0] == "/workspace/thing\n/home/agent /tmp agent\n"
        assert "PYTEST_CURRENT_TEST" not in box.run("env", folder)[0]
        text, code = box.run("python -c 'import json; json.loads(\"{\")'", folder)
        assert code == 1
        assert 'File "/usr/lib/python3.' in text
        first = box.run("python -c 'print(object(), object())'", folder)[0]
        assert first.startswith("<object object at 0x7f3c5e8a1000> <object object at 0x7f3c5e8a11b0>")
        (folder / "test_x.py").write_text("def test_a():\n    pass\n")
        assert box.run("pytest -q", folder)[0].endswith("\n1 passed in 0.03s\n")
        with pytest.raises(SandboxError, match="would not repeat"):
            box.run("ls -l", folder)


def test_tools_answer_wrong_calls_with_an_error() -> None:
    """Calls that are wrong get an error text as their result and change nothing."""
    with workplace() as box:
        box.fresh()
        (box.work / "a.txt").write_text("one\ntwo\ntwo\n")
        tools = Toolbox(box, box.work)
        edit = {"path": "a.txt", "new_text": "x"}
        assert "not found" in tools.use(Call("edit_file", {**edit, "old_text": "three"}))
        assert "occurs 2 times" in tools.use(Call("edit_file", {**edit, "old_text": "two"}))
        assert "exists already" in tools.use(Call("edit_file", {**edit, "old_text": ""}))
        assert "does not exist" in tools.use(Call("view_file", {"path": "b.txt"}))
        assert "only 3 lines" in tools.use(Call("view_file", {"path": "a.txt", "start_line": 9}))
        assert "no tool bash with the arguments cmd" in tools.use(Call("bash", {"cmd": "ls"}))
        assert "no tool" in tools.use(Call("fly", {"to": "moon"}))
        assert (box.work / "a.txt").read_text() == "one\ntwo\ntwo\n"
        assert tools.use(Call("bash", {"command": "exit 3"})) == "[exit code: 3]"
        assert tools.use(Call("bash", {"command": "true"})) == "(no output)"
        assert tools.use(Call("edit_file", {**edit, "path": "d/b.txt", "old_text": ""})) == "Created d/b.txt (1 lines)."


def test_clip_keeps_head_and_tail() -> None:
    """A text over the limit keeps its head and tail and says how many characters are missing."""
    assert clip("abc", 3) == "abc"
    assert clip("a" * 60 + "b" * 60 + "c" * 40, 100) == "a" * 60 + "\n[… 60 characters elided …]\n" + "c" * 40


def test_histories_undo_later_edits() -> None:
    """A commit's state is the last state without later edits and later files; an edit that does not fit is refused."""
    edit = {"path": "a", "before": "old", "after": "new"}
    commits = [{"message": "1"}, {"message": "2", "adds": ["b"], "edits": [edit]}]
    assert _states("r", commits, {"a": "new!", "b": "x"}) == [{"a": "old!"}, {"a": "new!", "b": "x"}]
    edit["after"] = "nowhere"
    with pytest.raises(RepositoryError, match="stands there 0 times"):
        _states("r", commits, {"a": "new!", "b": "x"})
