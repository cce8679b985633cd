"""Starts a build's server, waits until it is ready, says why it died, stops it."""

import http.client
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType

import msgspec

from soak.errors import LaunchError
from soak.facts import EnvironmentCard
from soak.launch.command import ServerCommand, command_for
from soak.launch.diagnose import Diagnosis, diagnose
from soak.launch.guarded import Guarded
from soak.launch.machine import GIB, LOOPBACK, Place, free_memory_bytes, free_port, whole_machine
from soak.launch.prepare import Prepared, condemn, note_ready, quiet
from soak.launch.progress import Report, Step
from soak.launch.told import card_of, log_text

LOOK_EVERY_S = 0.25
HEALTH_TIMEOUT_S = 2.0
TAIL_LINES = 15
DIAGNOSIS_LINES = 200
GRACE_S = 10.0
_LINE_CHARS = 100  # of the log's last line, while the server starts


class Death(msgspec.Struct, frozen=True, kw_only=True):
    """A server ended by itself: why in a sentence, its exit code if known, how long it had served, its last lines."""

    why: str
    code: int | None
    served_s: float
    log_tail: tuple[str, ...]


class RunningServer:
    """
    A server of ours that became ready. Use it in a `with` block, or call `stop`; it also ends when this process does.

    `url` is `http://127.0.0.1:PORT` without a path, `pid` the server's process, which leads its process group,
    `build` what it serves, `log_path` the file it writes to, `restarts` how often it was started again.
    """

    def __init__(self, start: "_Start", process: Guarded) -> None:
        self.url = f"http://{LOOPBACK}:{start.port}"
        self.port = start.port
        self.build = start.command.build
        self.log_path = process.log_path
        self.restarts = 0
        self._start = start
        self._process = process
        self._ready_at = time.monotonic()
        self._stopped = False

    @property
    def pid(self) -> int:
        """The process id of the server."""
        return self._process.pid

    @property
    def may_restart(self) -> bool:
        """Whether its build allows one more start after a death."""
        return self.restarts < self._start.prepared.spec.restarts

    def alive(self) -> bool:
        """Whether its process runs (not whether it answers)."""
        return self._process.alive()

    def exit_reason(self) -> str | None:
        """Return why it is gone, in one sentence; None while it runs."""
        death = self.death()
        return death.why if death else "stopped by soak" if not self.alive() else None

    def death(self) -> Death | None:
        """Return how it ended by itself; None while it runs, and after `stop`."""
        if self.alive() or self._stopped:
            return None
        return Death(
            why=diagnose(self._process.code, self._process.log_tail(DIAGNOSIS_LINES)).why,
            code=self._process.code,
            served_s=time.monotonic() - self._ready_at,
            log_tail=self.log_tail(),
        )

    def log_tail(self, lines: int = TAIL_LINES) -> tuple[str, ...]:
        """Return its last log lines, printable, each at most 300 characters."""
        return self._process.log_tail(lines)

    def card(self) -> EnvironmentCard:
        """Return what is known of it without asking it."""
        return card_of(self._start.prepared, self._start.place, log_text(self.log_path, self._process.log_start))

    def restart(self, abandon: Callable[[], bool] = lambda: False) -> float:
        """
        Start it again on its port after it died, and return the seconds until it was ready.

        What its dead process left in its group is ended first. `abandon` is asked while it starts and breaks it off.
        Raises `LaunchError` as `start` does; the attempt counts among `restarts`.
        """
        self._process.stop()
        self.restarts += 1
        began = time.monotonic()
        process = self._start.begin(lambda: self._stopped or abandon())
        self._process, self._ready_at = process, time.monotonic()
        if self._stopped:
            process.stop()
        return time.monotonic() - began

    def stop(self) -> None:
        """End it and every process it started; returns when they are gone. Does nothing if it is gone already."""
        self._stopped = self._stopped or self.alive()
        self._process.stop()

    def __enter__(self) -> "RunningServer":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def start(
    prepared: Prepared,
    *,
    log_path: Path,
    port: int | None = None,
    extra_flags: Sequence[str] = (),
    report: Report = quiet,
    ready_within_s: float | None = None,
    place: Place | None = None,
) -> RunningServer:
    """
    Start the build's server on `port` (default: a free one) of the loopback interface and return it when it is ready.

    Its output is appended to `log_path`. `extra_flags` follow the build's own and win over them. `report` is told that
    it starts, goes on starting, and is ready. `place` is what of the machine it gets (default: all). If waiting is
    broken off by any exception, the server is stopped first.

    Raises `LaunchError` if the port is taken, the server dies first (with the reason and `log_tail`), or it is not
    ready in time. An environment whose packages turn out not to fit is made anew by the next `prepare`.
    """
    place = place or whole_machine()
    port = free_port(port)
    beginning = _Start(
        prepared=prepared,
        command=command_for(prepared, port, extra_flags, os.environ, place),
        port=port,
        place=place,
        log_path=log_path.absolute(),
        report=report,
        ready_within_s=ready_within_s or prepared.spec.ready_within_s,
    )
    return RunningServer(beginning, beginning.begin(lambda: False))


@dataclass(frozen=True, kw_only=True)
class _Start:
    """All that a server is started from, and started again."""

    prepared: Prepared
    command: ServerCommand
    port: int
    place: Place
    log_path: Path
    report: Report
    ready_within_s: float

    def begin(self, abandon: Callable[[], bool]) -> Guarded:
        """Start it and return its process when it is ready; raises `LaunchError`."""
        step = Step("start", self.report)
        free_port(self.port)
        _say_what_starts(self.prepared, self.port, step)
        process = Guarded(
            self.command.words,
            log_path=self.log_path,
            environment=self.command.environment,
            folder=self.prepared.folder if self.prepared.spec.tells else Path.cwd(),
            grace_s=GRACE_S,
        )
        try:
            self._await_ready(process, step, abandon)
        except BaseException:
            process.stop()
            raise
        note_ready(self.prepared, step.elapsed_s)
        step.done()
        return process

    def _await_ready(self, process: Guarded, step: Step, abandon: Callable[[], bool]) -> None:
        while not process.wait(LOOK_EVERY_S):
            if _is_ready(self.port, self.prepared.spec.ready_path):
                return
            step.beat(partial(_last_line, process))
            if step.elapsed_s > self.ready_within_s:
                raise _too_late(process, self.ready_within_s)
            if abandon():
                raise LaunchError("the start was broken off", why="the run ends", hint="start it again")
        raise _died(process, self.prepared)


def _say_what_starts(prepared: Prepared, port: int, step: Step) -> None:
    spec = prepared.spec
    what = " ".join(word for word in (spec.engine, spec.version) if word)
    free, short = free_memory_bytes(), ""
    if free is not None and free < spec.needs_memory_bytes:
        short = f"; it needs about {spec.needs_memory_bytes / GIB:.0f} GiB of memory, {free / GIB:.1f} GiB are free"
    step.say(f"{spec.name}: {what} with {spec.served_model or 'its model'} on port {port}{short}")


def _last_line(process: Guarded) -> str:
    """Return the last line of the engine's log, or its beginning: for whoever waits."""
    tail = process.log_tail(1)
    return tail[-1][:_LINE_CHARS] if tail else ""


def _is_ready(port: int, path: str) -> bool:
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=HEALTH_TIMEOUT_S)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _too_late(process: Guarded, limit_s: float) -> LaunchError:
    tail = process.log_tail(TAIL_LINES)
    return LaunchError(
        f"the server was not ready within {limit_s:.0f} s",
        why=f"its last line: {tail[-1] if tail else '(none)'}; log: {process.log_path}",
        hint="look at the log; on a busy machine give it more time",
        log_tail=tail,
    )


def _died(process: Guarded, prepared: Prepared) -> LaunchError:
    cause: Diagnosis = diagnose(process.code, process.log_tail(DIAGNOSIS_LINES))
    if cause.kind == "packages":
        condemn(prepared)
    return LaunchError(
        f"the server of build {prepared.spec.name} died before it was ready",
        why=f"{cause.why}; log: {process.log_path}",
        hint=cause.hint,
        log_tail=process.log_tail(TAIL_LINES),
    )
