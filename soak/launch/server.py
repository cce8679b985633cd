"""Starts a build's server, waits until it is ready, says why it died, stops it."""

import http.client
import os
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from soak.errors import LaunchError
from soak.facts import Build
from soak.launch.command import command_for
from soak.launch.diagnose import Diagnosis, diagnose
from soak.launch.guarded import Guarded
from soak.launch.machine import GIB, LOOPBACK, free_memory_bytes, free_port
from soak.launch.prepare import Prepared, condemn, note_ready, quiet
from soak.launch.progress import Report, Step

READY_WITHIN_S = 600.0
LOOK_EVERY_S = 0.25
HEALTH_TIMEOUT_S = 2.0
TAIL_LINES = 15
DIAGNOSIS_LINES = 200
GRACE_S = 10.0


class RunningServer:
    """
    A server of ours that became ready. Use it in a `with` block, or call `stop`; it also ends when this process does.

    `url` is `http://127.0.0.1:PORT` without a path, `pid` the server's process, which leads its process group,
    `build` what it serves, `log_path` the file it writes to.
    """

    def __init__(self, process: Guarded, build: Build, port: int) -> None:
        self.url = f"http://{LOOPBACK}:{port}"
        self.port = port
        self.pid = process.pid
        self.build = build
        self.log_path = process.log_path
        self._process = process
        self._stopped = False

    def alive(self) -> bool:
        """Whether its process runs (not whether it answers)."""
        return self._process.alive()

    def exit_reason(self) -> str | None:
        """Return why it is gone, in one sentence; None while it runs."""
        if self.alive():
            return None
        if self._stopped:
            return "stopped by soak"
        return diagnose(self._process.code, self._process.log_tail(DIAGNOSIS_LINES)).why

    def log_tail(self, lines: int = TAIL_LINES) -> tuple[str, ...]:
        """Return its last log lines, printable, each at most 300 characters."""
        return self._process.log_tail(lines)

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
    ready_within_s: float = READY_WITHIN_S,
) -> RunningServer:
    """
    Start the build's server on `port` (default: a free one) of the loopback interface and return it when it is ready.

    Its output is appended to `log_path`. `extra_flags` follow the build's own and win over them. `report` is told that
    it starts, goes on starting, and is ready. If waiting is broken off by any exception, the server is stopped first.

    Raises `LaunchError` if the port is taken, the server dies first (with the reason and `log_tail`), or it is not
    ready in time. An environment whose packages turn out not to fit is made anew by the next `prepare`.
    """
    step = Step("start", report)
    port = free_port(port)
    command = command_for(prepared, port, extra_flags, os.environ)
    _say_what_starts(prepared, port, step)
    process = Guarded(
        command.words,
        log_path=log_path.absolute(),
        environment=command.environment,
        folder=prepared.folder,
        grace_s=GRACE_S,
    )
    try:
        _await_ready(process, prepared, port, step, ready_within_s)
    except BaseException:
        process.stop()
        raise
    note_ready(prepared, step.elapsed_s)
    step.done()
    return RunningServer(process, command.build, port)


def _say_what_starts(prepared: Prepared, port: int, step: Step) -> None:
    spec = prepared.spec
    free, short = free_memory_bytes(), ""
    if free is not None and free < spec.needs_memory_bytes:
        short = f"; it needs about {spec.needs_memory_bytes / GIB:.0f} GiB of memory, {free / GIB:.1f} GiB are free"
    step.say(f"{spec.engine} {spec.version} with {spec.served_model} on port {port}{short}")


def _await_ready(process: Guarded, prepared: Prepared, port: int, step: Step, limit_s: float) -> None:
    while not process.wait(LOOK_EVERY_S):
        if _is_ready(port, prepared.spec.ready_path):
            return
        step.beat()
        if step.elapsed_s > limit_s:
            raise _too_late(process, limit_s)
    raise _died(process, prepared)


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
