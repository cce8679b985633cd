"""The writer's process is killed, or its disk is full: what was promised holds."""

import random
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from soak.store import RunFolder

WRITE_ON = """
import sys, pathlib
from soak.facts import Record, Started, TurnKey
from soak.store import RunFolder, close_open_starts

run = RunFolder.open(pathlib.Path(sys.argv[1]))
with run.history() as history:
    turn, counts = len(history.done()), history.start_counts()

def key(turn):
    return TurnKey(episode="e", turn=turn, pass_=0, arm="a")

def write(writer, turn):
    writer.start(Started(key=key(turn), start=counts.get(key(turn), 0), at=0.0, seed=0, prefix="p", request="r"))
    reason = "x" * (turn * 997 % 20000)
    writer.finish(Record(key=key(turn), outcome="skipped", at=0.0, reason=reason), raw=b"y" * turn)
"""
UNTIL_KILLED = """
with run.writer() as writer:
    close_open_starts(writer, 0.0, "killed")
    while turn < 100_000:
        for _ in range(7):
            write(writer, turn)
            turn += 1
        writer.start(Started(key=key(turn), start=counts.get(key(turn), 0), at=0.0, seed=0, prefix="p", request="r"))
        counts[key(turn)] = counts.get(key(turn), 0) + 1
        writer.flush()
        print(turn, flush=True)
        writer.finish(Record(key=key(turn), outcome="indeterminate", at=0.0, reason="given up"))
"""
THEN_IDLE = """
with run.writer() as writer:
    for turn in range(50):
        write(writer, turn)
    print("written", flush=True)
    sys.stdin.read()
"""
UNTIL_FULL = """
from soak.errors import RunFolderError

def fill():
    taken = 0
    writer = run.writer()
    try:
        while taken < 100_000:
            write(writer, turn + taken)
            taken += 1
            if taken % 10 == 0:
                writer.flush()
    except RunFolderError as error:
        lines = error.lines()
        assert writer.failed is error and len(lines) == 3 and "not written" in lines[1], lines
        for call in (lambda: writer.tick(1.0), writer.flush, writer.close):
            try:
                call()
                print("no error")
            except RunFolderError:
                pass
    return taken

def count():
    with RunFolder.open(run.path).history() as history:
        turns = [record.key.turn for record in history.records()]
    assert turns == list(range(len(turns))), turns
    return len(turns)
"""
# A soft limit on the size of files, lifted again for what follows.
ON_A_LIMITED_FILE = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (3_000_000, resource.RLIM_INFINITY))
taken = fill()
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
"""
ON_A_SMALL_DISK = """
ballast = run.path.parent / "ballast"
taken = fill()
ballast.unlink()
"""
THEN_GO_ON = """
kept = count()
assert 50 <= kept <= taken < 100_000, (kept, taken)
with run.writer() as writer:
    close_open_starts(writer, 0.0, "disk full")
with run.history() as history:
    counts = history.start_counts()
with run.writer() as writer:
    for turn in range(kept, kept + 5):
        write(writer, turn)
with run.history() as history:
    assert len(history.done()) == kept + 5
print("went on")
"""


def start(script: str, path: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", WRITE_ON + script, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def test_killed_again_and_again_a_run_loses_nothing_that_was_flushed(run: RunFolder) -> None:
    """After each of 20 kills the history is whole records in order, with all that was flushed; then it goes on."""
    moments = random.Random(5)
    for _ in range(20):
        with start(UNTIL_KILLED, run.path) as writing:
            assert writing.stdout is not None
            for _ in range(moments.randrange(1, 6)):
                flushed = int(writing.stdout.readline())
            writing.kill()
        with RunFolder.open(run.path).history() as history:
            done = [record for record in history.records() if record.outcome == "skipped"]
            assert [record.key.turn for record in done] == list(range(len(done)))
            assert len(done) >= flushed
            assert all(record.reason == "x" * (record.key.turn * 997 % 20000) for record in done)
            assert all(history.raw(record.key) == b"y" * record.key.turn for record in done[-9:])
            assert len(history.open_starts()) <= 1
            ended = len(list(history.records()))
            assert len(list(history.starts())) == ended + len(history.open_starts())


def test_what_was_recorded_a_second_before_a_kill_is_kept(run: RunFolder) -> None:
    """The promise of the loss window: records older than 1 s survive a kill although nobody flushed."""
    with start(THEN_IDLE, run.path) as writing:
        assert writing.stdout is not None
        assert writing.stdout.readline() == "written\n"
        threading.Event().wait(1.0)  # the window itself is what is tested
        writing.kill()
    with RunFolder.open(run.path).history() as history:
        assert [record.key.turn for record in history.records()] == list(range(50))


def test_a_file_that_cannot_grow_is_told_and_the_run_goes_on_later(run: RunFolder) -> None:
    """When writing fails the next call says so, what was written is whole, and with space again the run goes on."""
    with start(UNTIL_FULL + ON_A_LIMITED_FILE + THEN_GO_ON, run.path) as writing:
        assert writing.communicate()[0] == "went on\n"


def test_a_full_disk_is_told_and_the_run_goes_on_when_there_is_space(tmp_path: Path, make: Any) -> None:
    """The same on a real, small file system that is full (where this system lets a test make one)."""
    disk = tmp_path / "disk"
    disk.mkdir()
    script = tmp_path / "script.py"
    script.write_text(WRITE_ON + UNTIL_FULL + ON_A_SMALL_DISK + THEN_GO_ON)
    RunFolder.create(tmp_path / "fresh", make.manifest())
    command = """
        mount -t tmpfs -o size=3m tmpfs "$1" || exit 77
        cp -r "$2" "$1/run" && head -c 2000000 /dev/zero > "$1/ballast" && exec "$3" "$4" "$1/run"
    """
    arguments = [str(disk), str(tmp_path / "fresh"), sys.executable, str(script)]
    try:
        done = subprocess.run(
            ["unshare", "-m", "sh", "-c", command, "sh", *arguments], capture_output=True, text=True, timeout=100
        )
    except FileNotFoundError:
        pytest.skip("no unshare on this system")
    if done.returncode == 77 or done.stderr.startswith("unshare:"):
        pytest.skip("this system lets no test mount a file system")
    assert (done.stdout, done.stderr) == ("went on\n", "")
