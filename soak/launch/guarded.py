"""A command under a guardian, as its master sees it."""

import contextlib
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from soak.errors import LaunchError
from soak.launch.log import last_lines

GUARDIAN = Path(__file__).with_name("guardian.py")
START_WITHIN_S = 30.0
KILL_WITHIN_S = 20.0


class Guarded:
    """
    A running command whose output goes to the end of a log file, and which does not outlive this process.

    `pid` is the command's, which also leads its process group; `log_start` is where in the log its output
    begins. `code` is None while it runs, afterwards its exit code
    (minus the signal's number if one killed it; None for good if the guardian itself was killed).
    Raises `LaunchError` if it cannot be started.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        log_path: Path,
        environment: Mapping[str, str],
        folder: Path,
        grace_s: float = 10.0,
        keep_open: tuple[int, ...] = (),
    ) -> None:
        self.log_path = log_path
        self.pid = 0
        self.code: int | None = None
        self.ended = False
        self._grace_s = grace_s
        self._news = b""
        self._reading = threading.Lock()
        self.log_start = 0
        self._guardian = self._spawn(command, environment, folder, keep_open)
        self._await_start(command[0])

    def _spawn(
        self, command: Sequence[str], environment: Mapping[str, str], folder: Path, keep_open: tuple[int, ...]
    ) -> "subprocess.Popen[bytes]":
        try:
            self.log_path.parent.mkdir(parents=True, exist_ok=True)
            with self.log_path.open("ab") as log:
                self.log_start = log.tell()
                return subprocess.Popen(
                    [sys.executable, "-I", str(GUARDIAN), str(self._grace_s), *command],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    cwd=folder,
                    env=dict(environment),
                    start_new_session=True,
                    pass_fds=keep_open,
                    bufsize=0,
                )
        except OSError as error:
            raise _unstartable(command[0], str(error)) from error

    def _await_start(self, program: str) -> None:
        deadline = time.monotonic() + START_WITHIN_S
        while not self.pid and not self.ended and time.monotonic() < deadline:
            self._listen(deadline - time.monotonic())
        if not self.pid:
            reason = self._news.decode("utf-8", "replace").strip() or "its guardian said nothing"
            tail = self.log_tail(15)
            self.stop()
            raise _unstartable(program, reason.removeprefix("failed "), tail)

    def wait(self, limit_s: float) -> bool:
        """Wait until the command has ended, at most `limit_s` seconds; return whether it has."""
        deadline = time.monotonic() + limit_s
        while not self.ended:
            left_s = deadline - time.monotonic()
            self._listen(max(0.0, left_s))
            if left_s <= 0:
                break
        return self.ended

    def alive(self) -> bool:
        """Whether the command runs."""
        return not self.wait(0.0)

    def log_tail(self, lines: int) -> tuple[str, ...]:
        """Return the last lines this command wrote, without control characters, each at most 300 characters."""
        return last_lines(self.log_path, lines, start=self.log_start)

    def stop(self) -> None:
        """End the command and all it started; returns when they are gone. Does nothing the second time."""
        with contextlib.suppress(OSError, ValueError):
            self._pipe(self._guardian.stdin).close()
        try:
            self._guardian.wait(self._grace_s + KILL_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._guardian.kill()
            self._guardian.wait()
        self.wait(1.0)
        if self.code is None and self.pid:  # the guardian was killed and could not do its work
            with contextlib.suppress(OSError):
                os.killpg(self.pid, signal.SIGKILL)
        self.ended = True
        with contextlib.suppress(OSError, ValueError):
            self._pipe(self._guardian.stdout).close()

    def _listen(self, limit_s: float) -> None:
        """Take in what the guardian says within `limit_s` seconds; end of file means that it is gone."""
        with self._reading:
            if self.ended:
                return
            pipe = self._pipe(self._guardian.stdout).fileno()
            if not select.select([pipe], [], [], limit_s)[0]:
                return
            data = os.read(pipe, 4096)
            self._news += data
            *lines, self._news = self._news.split(b"\n")
            for line in lines:
                self._hear(line)
            self.ended = self.ended or not data

    def _hear(self, line: bytes) -> None:
        word, _, rest = line.partition(b" ")
        if word == b"started":
            self.pid = int(rest)
        elif word == b"ended":
            self.code, self.ended = int(rest), True
        else:
            self._news, self.ended = line, True

    @staticmethod
    def _pipe(end: IO[bytes] | None) -> IO[bytes]:
        assert end is not None  # Popen was told to make it
        return end


def _unstartable(program: str, reason: str, tail: tuple[str, ...] = ()) -> LaunchError:
    return LaunchError(
        f"cannot start {program}", why=reason, hint="check free memory and disk, then try again", log_tail=tail
    )
