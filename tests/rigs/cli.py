"""The program as processes: commands, servers of their own, and what they leave behind."""

import json
import os
import queue
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Self

from rigs.planned import turn_keys
from soak.check import scenario_of
from soak.importers import load_corpus
from soak.plan import make_plan
from soak.store import RunFolder

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"
_QUIET = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


def wait_until(holds: Callable[[], Any], *, within_s: float = 30.0, what: str = "it") -> Any:
    """Return what `holds` returns once that is true; fails after `within_s`."""
    ends_at = time.monotonic() + within_s
    while not (value := holds()):
        if time.monotonic() > ends_at:
            raise AssertionError(f"{what} did not come about within {within_s:g} s")
        time.sleep(0.01)
    return value


def environment(**changes: str) -> dict[str, str]:
    """Return an environment for a command: ours, without targets and keys of whoever runs the tests."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SOAK_", "OPENAI_"))}
    return {**kept, **_QUIET, "COLUMNS": "200", **changes}


class Command:
    """One `soak` command in a process of its own, begun; its output goes to files."""

    def __init__(self, nursery: "Nursery", number: int, pid: int, files: Mapping[str, Path]) -> None:
        self._nursery = nursery
        self._number = number
        self.pid = pid
        self._files = files

    @property
    def out(self) -> str:
        """What it has printed to stdout so far."""
        return self._files["stdout"].read_bytes().decode("utf-8", "replace")

    @property
    def err(self) -> str:
        """What it has printed to stderr so far."""
        return self._files["stderr"].read_bytes().decode("utf-8", "replace")

    @property
    def code(self) -> int | None:
        """The exit code (negative: the signal that ended it), None while it runs."""
        return self._nursery.codes.get(self._number)

    @property
    def json(self) -> Any:
        """The one JSON document on stdout."""
        return json.loads(self.out)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process, unless it has ended."""
        if self.code is None:
            os.kill(self.pid, number)

    def wait(self, within_s: float = 60.0) -> Self:
        """Wait for the end; a process that does not end is killed, and the test fails."""
        try:
            wait_until(lambda: self.code is not None, within_s=within_s, what=f"the end of the command\n{self.err}\n")
        except AssertionError:
            self.signal(signal.SIGKILL)
            raise
        return self

    def said(self, text: str, within_s: float = 30.0) -> Self:
        """Wait until stderr contains `text`."""
        wait_until(lambda: text in self.err or self.code is not None, within_s=within_s, what=f"{text!r}\n{self.err}\n")
        assert text in self.err, self.err
        return self

    def error_lines(self) -> list[str]:
        """Return the error's three lines, after checking that they are one error and no traceback."""
        assert "Traceback" not in self.err, self.err
        lines = self.err.splitlines()
        begins = [number for number, line in enumerate(lines) if line.startswith("error: ")]
        assert len(begins) == 1, self.err
        three = lines[begins[0] : begins[0] + 3]
        assert len(three) == 3, self.err
        assert three[1].startswith("  why: "), self.err
        assert three[2].startswith("   do: "), self.err
        assert all(len(line) > 8 for line in three), self.err
        return three


class Nursery:
    """Makes commands quickly: forks of one process that has imported soak (see `nursery.py`)."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._numbers = 0
        self.codes: dict[int, int] = {}
        self._begun: queue.Queue[dict[str, Any]] = queue.Queue()
        self._process = subprocess.Popen(
            [sys.executable, str(TESTS / "rigs" / "nursery.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment(),
        )
        threading.Thread(target=self._listen, daemon=True).start()
        assert self._begun.get(timeout=60).get("ready"), "soak cannot be imported; see above"

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            message = json.loads(line)
            if "code" in message:
                self.codes[message["id"]] = message["code"]
            else:
                self._begun.put(message)
        self._begun.put({})  # it is gone: whoever waits for it shall not wait long

    def begin(
        self,
        *args: object,
        cwd: Path,
        env: Mapping[str, str] | None = None,
        stdin: bytes = b"",
        limits: Mapping[str, int] | None = None,
        powerless: bool = False,
    ) -> Command:
        """Begin `soak ARGS` in `cwd`; `limits` are resource limits by name; `powerless`: file permissions hold."""
        self._numbers += 1
        files = {name: self._folder / f"{self._numbers}.{name}" for name in ("stdin", "stdout", "stderr")}
        for path in files.values():
            path.write_bytes(stdin if path.suffix == ".stdin" else b"")
            path.chmod(0o666)
        order = {
            "id": self._numbers,
            "args": [str(arg) for arg in args],
            "cwd": str(cwd),
            "env": environment(**(env or {})),
            "limits": dict(limits or {}),
            "powerless": powerless,
            **{name: str(path) for name, path in files.items()},
        }
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        begun = self._begun.get(timeout=30)
        return Command(self, begun["id"], begun["pid"], files)

    def close(self) -> None:
        """End the nursery."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(10)


class Fake:
    """`python -m fakes` in a process of its own, on a port that stays the same over restarts."""

    def __init__(self, folder: Path, *args: object, port: int | None = None) -> None:
        self._args = [str(arg) for arg in args]
        self.port = port or free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.truth_file = folder / f"truth-{self.port}.jsonl"
        self._process: subprocess.Popen[str] | None = None

    @property
    def pid(self) -> int:
        """The server's process id."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> Self:
        """Start it and wait until it listens."""
        command = [
            sys.executable,
            "-m",
            "fakes",
            "--port",
            str(self.port),
            "--truth",
            str(self.truth_file),
            *self._args,
        ]
        self._process = subprocess.Popen(command, cwd=TESTS, stdout=subprocess.PIPE, text=True, env=environment())
        assert self._process.stdout is not None
        assert self._process.stdout.readline().strip() == self.url
        return self

    def kill(self) -> None:
        """End it with SIGKILL, as a crash does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            assert self._process.stdout is not None
            self._process.stdout.close()
            self._process = None

    def state(self) -> dict[str, int]:
        """Return requests running, chats so far, and how many of these the client broke off."""
        with urllib.request.urlopen(f"{self.url}/fake/state", timeout=10) as answer:
            return dict(json.load(answer))

    def truth(self) -> dict[int, dict[str, Any]]:
        """Return the ground truth by request seed: the row of the last arrival of each request."""
        rows = [json.loads(line) for line in self.truth_file.read_text().splitlines()]
        return {row["seed"]: row for row in rows if row["seed"] is not None}

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *error: object) -> None:
        self.kill()


def free_port() -> int:
    """Return a port that nobody listens on just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def processes_of_session(session: int) -> list[int]:
    """Return the processes that live in the session of a command: itself and whatever it has left behind."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == session and fields[0] != "Z":
            found.append(int(stat.parent.name))
    return found


def processes_holding(path: Path) -> list[int]:
    """Return the processes that have the file at `path` open: an engine has its log."""
    return [int(link.parts[2]) for link in Path("/proc").glob("[0-9]*/fd/*") if _leads_to(link, path)]


def _leads_to(link: Path, path: Path) -> bool:
    try:
        return os.readlink(link) == str(path)  # noqa: PTH115 - the target may be no path at all
    except OSError:
        return False


def run_folder_in(cwd: Path) -> Path:
    """Return the one run folder under `cwd`/runs."""
    (found,) = (cwd / "runs").iterdir()
    return found


def holds_bytes(folder: Path, needle: bytes) -> list[Path]:
    """Return the files below `folder` that contain `needle`."""
    return [path for path in folder.rglob("*") if path.is_file() and needle in path.read_bytes()]


def planned_keys(folder: Path) -> set[tuple[str, int, int, str]]:
    """Return what a run with a bounded budget was to do, from its manifest and corpus."""
    manifest = RunFolder.open(folder).manifest
    episodes = load_corpus(Path(manifest.corpus.path)).episodes
    plan = make_plan(scenario_of(manifest), episodes, [card.name for card in manifest.arms])
    return {(key.episode, key.turn, key.pass_, key.arm) for key in turn_keys(plan)}


def ends_of(folder: Path) -> dict[str, list[tuple[str, int, int, str]]]:
    """Return the turn keys of all ends in the history by outcome, one for each row."""
    with closing(sqlite3.connect(folder / "history.sqlite")) as history:
        rows = history.execute("SELECT outcome, episode, turn, pass, arm FROM ends").fetchall()
    kinds = ("finished", "skipped", "indeterminate", "aborted")
    ends: dict[str, list[tuple[str, int, int, str]]] = {kind: [] for kind in kinds}
    for outcome, *key in rows:
        ends[outcome].append(tuple(key))  # type: ignore[arg-type]
    return ends


def starts_of(folder: Path) -> int:
    """Return how many starts the history holds."""
    with closing(sqlite3.connect(folder / "history.sqlite")) as history:
        return int(history.execute("SELECT count(*) FROM starts").fetchone()[0])


def commands_of(help_text: str) -> Sequence[str]:
    """Return the names under "Commands:" of a help text."""
    listed = help_text.partition("Commands:")[2]
    return re.findall(r"^  ([a-z]+) ", listed, re.MULTILINE)
