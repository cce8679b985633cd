"""The run folder: made, opened, locked, damaged."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from soak.errors import RunFolderError
from soak.facts import ArmCard, Build
from soak.store import RunFolder, engine_log_path

HOLD_THE_LOCK = """
import sys, pathlib
from soak.store import RunFolder
with RunFolder.open(pathlib.Path(sys.argv[1])).writer() as writer:
    print("held", flush=True)
    sys.stdin.read()
"""
READ = """
import os, sys, pathlib
folder = pathlib.Path(sys.argv[1])
assert not os.access(folder, os.W_OK)
from soak.store import RunFolder
with RunFolder.open(folder).history() as history:
    print(len(list(history.records())), len(history.open_starts()))
"""
# Root may write anywhere; a program started without this one power may not, like everybody else.
WITHOUT_THE_POWER_TO_WRITE_ANYWHERE = """
import ctypes, os, sys
if os.geteuid() == 0 and ctypes.CDLL(None).prctl(24, 1, 0, 0, 0) != 0:  # PR_CAPBSET_DROP, CAP_DAC_OVERRIDE
    sys.exit(77)
os.execv(sys.executable, [sys.executable, "-c", *sys.argv[1:]])
"""


def three_lines(error: RunFolderError) -> tuple[str, str, str]:
    lines = error.lines()
    assert all(line.strip() and "\n" not in line for line in lines)
    assert error.exit_code == 7
    return lines


def test_a_new_run_can_be_opened_and_has_its_manifest(run: RunFolder, make: Any) -> None:
    """Create then open gives the same manifest, and the paths of the logs inside the folder."""
    again = RunFolder.open(run.path)
    assert again.manifest == make.manifest()
    assert again.log_path == run.path / "soak.log"
    assert engine_log_path(run.path, "candidate") == run.path / "engine-candidate.log"


def test_engine_logs_stay_in_the_folder_and_apart(run: RunFolder) -> None:
    """Arm names with slashes or dots cannot leave the folder, nor share a log with another arm."""
    arms = ["../../etc/passwd", ".._.._etc_passwd", "a/b", "a_b", "a b", "\ud800", "x" * 500]
    paths = [engine_log_path(run.path, arm) for arm in arms]
    assert {path.parent for path in paths} == {run.path}
    assert len(set(paths)) == len(arms)
    assert all(len(path.name) < 120 for path in paths)


def test_create_accepts_an_empty_folder_and_refuses_one_that_is_taken(
    tmp_path: Path, run: RunFolder, make: Any
) -> None:
    """A run is never written over a run, nor among other files; the hint says what to do instead."""
    (tmp_path / "empty").mkdir()
    RunFolder.create(tmp_path / "empty", make.manifest())
    with pytest.raises(RunFolderError) as caught:
        RunFolder.create(run.path, make.manifest())
    assert "soak resume" in three_lines(caught.value)[2]
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("precious")
    with pytest.raises(RunFolderError, match="cannot make"):
        RunFolder.create(tmp_path / "mine", make.manifest())
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["thesis.txt"]


def test_create_where_nothing_can_be_written_says_so(tmp_path: Path, make: Any) -> None:
    """A path below a file is an error with three lines and no traceback of the system."""
    (tmp_path / "file").write_text("")
    with pytest.raises(RunFolderError) as caught:
        RunFolder.create(tmp_path / "file" / "run", make.manifest())
    three_lines(caught.value)


def test_the_manifest_is_replaced_as_a_whole(run: RunFolder, make: Any) -> None:
    """After an update the new manifest is there, readable JSON, with no temporary file beside it."""
    changed = make.manifest(environment={"python": "3.11"})
    run.update_manifest(changed)
    assert run.manifest == changed
    assert RunFolder.open(run.path).manifest == changed
    assert json.loads((run.path / "manifest.json").read_text())["environment"] == {"python": "3.11"}
    assert not list(run.path.glob("*.new"))


def test_the_manifest_can_be_updated_while_writing(run: RunFolder, make: Any) -> None:
    """The writer of a run may replace its manifest; the run stays locked afterwards until the writer closes."""
    with run.writer():
        run.update_manifest(make.manifest(environment={"a": "b"}))
        with pytest.raises(RunFolderError, match="another process"):
            RunFolder.open(run.path).writer()
    RunFolder.open(run.path).writer().close()


@pytest.mark.parametrize(
    "changes",
    [
        {"given": {"api_key": "abc"}},
        {"given": {"target": {"apiKey": "abc"}}},
        {"given": {"headers": [{"Authorization": "x"}]}},
        {"given": {"header": "Bearer abcdefghij"}},
        {"given": {"flags": ["--api-key", "abc"]}},
        {"scenario": {"extra_body": {"password": "x"}}},
        {"environment": {"HF_TOKEN": "x"}},
        {"environment": {"SOAK_API_KEY": "x"}},
        {"arms": (ArmCard(name="a", build=Build(model="m", target="http://me:secret@host/v1")),)},
        {"arms": (ArmCard(name="a", build=Build(model="m", target="http://h", settings={"k": "sk-" + "a1" * 12})),)},
    ],
)
def test_a_manifest_with_something_like_a_key_is_refused(
    tmp_path: Path, run: RunFolder, make: Any, changes: dict[str, Any]
) -> None:
    """By its name or its look, a secret is not written: neither in a new folder nor in an update, nor in the error."""
    for write in (lambda m: RunFolder.create(tmp_path / "new", m), run.update_manifest):
        with pytest.raises(RunFolderError) as caught:
            write(make.manifest(**changes))
        assert "SOAK_API_KEY" in three_lines(caught.value)[2]
        assert "abc" not in str(three_lines(caught.value))
    assert run.manifest == RunFolder.open(run.path).manifest == make.manifest()


def test_ordinary_settings_are_no_secrets(run: RunFolder, make: Any) -> None:
    """Words of everyday use that look a little like secrets are accepted."""
    given = {"max_tokens": 20000, "token_ids": True, "api_key": None, "stop_token": "</s>", "task": "sk-learn"}
    run.update_manifest(make.manifest(given=given))
    assert run.manifest.given == given


def test_two_processes_cannot_write_one_run(run: RunFolder, make: Any) -> None:
    """The second writer is told which process has the run; readers are not hindered; a dead holder is no holder."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD_THE_LOCK, str(run.path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        for attempt in (run.writer, lambda: run.update_manifest(make.manifest())):
            with pytest.raises(RunFolderError) as caught:
                attempt()
            assert f"process {holder.pid} " in three_lines(caught.value)[1]
        with RunFolder.open(run.path).history() as history:
            assert list(history.records()) == []
        holder.kill()
    run.writer().close()


# -- damage ----------------------------------------------------------------------------------------------------


def text_instead_of_a_database(path: Path) -> None:
    (path / "history.sqlite").write_text("this was a database once\n" * 1000)


def cut_in_half(path: Path) -> None:
    os.truncate(path / "history.sqlite", (path / "history.sqlite").stat().st_size // 2)


def overwritten_in_the_middle(path: Path) -> None:
    with (path / "history.sqlite").open("r+b") as file:
        file.seek(8192)
        file.write(b"\xff" * 8192)


def another_database(path: Path) -> None:
    (path / "history.sqlite").unlink()
    connection = sqlite3.connect(path / "history.sqlite")
    connection.execute("CREATE TABLE other (x)")
    connection.close()


def from_the_future(path: Path) -> None:
    connection = sqlite3.connect(path / "history.sqlite")
    connection.execute("UPDATE meta SET value = '2'")
    connection.commit()
    connection.close()


def manifest_of(change: Callable[[str], str]) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        file = path / "manifest.json"
        file.write_text(change(file.read_text()), "latin-1")

    return damage


DAMAGES: dict[str, Callable[[Path], None]] = {
    "no history": lambda path: (path / "history.sqlite").unlink(),
    "empty history": lambda path: os.truncate(path / "history.sqlite", 0),
    "history is text": text_instead_of_a_database,
    "history cut in half": cut_in_half,
    "history overwritten": overwritten_in_the_middle,
    "history is a folder": lambda path: ((path / "history.sqlite").unlink(), (path / "history.sqlite").mkdir())[0],
    "another database": another_database,
    "newer history": from_the_future,
    "no manifest": lambda path: (path / "manifest.json").unlink(),
    "empty manifest": manifest_of(lambda text: ""),
    "manifest cut in half": manifest_of(lambda text: text[: len(text) // 2]),
    "manifest not utf-8": manifest_of(lambda text: text.replace("smoke", "\xff")),
    "manifest too deep": manifest_of(lambda text: "[" * 100_000),
    "manifest of something else": manifest_of(lambda text: text.replace("soak.run/1", "other/1")),
    "newer manifest": manifest_of(lambda text: text.replace("soak.run/1", "soak.run/2")),
    "manifest without a field": manifest_of(lambda text: text.replace("plan_digest", "plan")),
    "manifest too large": manifest_of(lambda text: text + " " * 17_000_000),
    "all gone": lambda path: [file.unlink() for file in path.iterdir()] and None,
    "no folder": lambda path: shutil.rmtree(path),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_a_damaged_folder_is_refused_with_three_lines(
    run: RunFolder, make: Any, damage: Callable[[Path], None]
) -> None:
    """Whatever is missing, cut or foreign in a run folder, opening it says what, why and what to do."""
    with run.writer() as writer:
        for turn in range(100):
            writer.start(make.started(turn))
            writer.finish(make.finished(turn, "x" * 300))
    damage(run.path)
    with pytest.raises(RunFolderError) as caught:
        RunFolder.open(run.path)
    assert str(run.path) in three_lines(caught.value)[0]


def test_a_file_instead_of_a_folder_is_refused(tmp_path: Path) -> None:
    """A path that is a file is not a run."""
    (tmp_path / "file").write_text("{}")
    with pytest.raises(RunFolderError, match="not a run folder"):
        RunFolder.open(tmp_path / "file")


def test_a_row_that_is_not_a_fact_is_an_error_where_it_is_read(run: RunFolder) -> None:
    """Rows changed by hand do not crash a reader, nor are they left out in silence."""
    connection = sqlite3.connect(run.path / "history.sqlite")
    for table, columns, values in [
        ("events", "(body)", "('{}')"),
        ("samples", "(arm, body)", "('a', x'00ff')"),
        ("ends", "(episode, turn, pass, arm, start, outcome, body)", "('e', 0, 0, 'a', 0, 'finished', '[')"),
        ("messages", "(digest, parent, body)", "('d', 'd', '{\"role\":\"user\"}')"),
        ("raw", "(end, body)", "(1, x'00')"),
    ]:
        connection.execute(f"INSERT INTO {table} {columns} VALUES {values}")
    connection.commit()
    connection.close()
    with RunFolder.open(run.path).history() as history:
        (key,) = history.done()
        for question in (history.events, history.samples, history.records):
            with pytest.raises(RunFolderError, match="damaged"):
                list(question())
        with pytest.raises(RunFolderError, match="damaged"):
            history.raw(key)
        with pytest.raises(RunFolderError, match="damaged"):
            history.prefix("d")


# -- read-only media -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", ["closed", "killed", "killed without shm"])
def test_a_copy_on_a_read_only_medium_can_be_read(tmp_path: Path, run: RunFolder, make: Any, state: str) -> None:
    """A run that was closed, or killed with records in its log, is read whole where nothing can be written."""
    writer = run.writer()
    writer.start(make.started(0))
    writer.finish(make.finished(0))
    writer.start(make.started(1))
    writer.flush()
    if state == "closed":
        writer.close()
    ignore = shutil.ignore_patterns("*-shm") if state == "killed without shm" else None
    copy = Path(shutil.copytree(run.path, tmp_path / "copy", ignore=ignore))
    writer.close()
    for file in copy.iterdir():
        file.chmod(0o444)
    copy.chmod(0o555)
    program = [sys.executable, "-c", WITHOUT_THE_POWER_TO_WRITE_ANYWHERE, READ, str(copy)]
    done = subprocess.run(program, capture_output=True, text=True, timeout=60)
    copy.chmod(0o755)
    if done.returncode == 77:
        pytest.skip("this system does not let a test give up the power to write anywhere")
    assert (done.stdout, done.stderr) == ("1 1\n", "")
    assert (
        sorted(file.name for file in copy.iterdir() if file.name.endswith(("-wal", "-shm")))
        == {
            "closed": [],
            "killed": ["history.sqlite-shm", "history.sqlite-wal"],
            "killed without shm": ["history.sqlite-wal"],
        }[state]
    )


def test_what_a_killed_beginning_leaves_is_no_obstacle(run: RunFolder, make: Any) -> None:
    """A folder with an empty history and no manifest is begun anew; one with turns and a lost manifest is refused."""
    (run.path / "manifest.json").unlink()
    again = RunFolder.create(run.path, make.manifest())
    with again.writer() as writer:
        writer.start(make.started(0))
    (run.path / "manifest.json").unlink()
    with pytest.raises(RunFolderError):
        RunFolder.create(run.path, make.manifest())
