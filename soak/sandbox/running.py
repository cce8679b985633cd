"""
Run one walled-in command to its end, watching what it uses.

What the kernel can refuse by itself (one process's memory, the number of processes, the size of one file) is set by
the walls; time, output and the sums over all processes and files are watched here, ten times a second.
"""

import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Protocol

from soak.errors import SandboxError
from soak.sandbox.limits import Ended, Ending, Limits
from soak.sandbox.processes import descendants, nameless_bytes, usage_below

_TICK_S = 0.1
_END_WITHIN_S = 10.0
_READ_BYTES = 1 << 16
# How much of the time goes into measuring folders at the most: a look at a big tree may take longer than a tick.
_DISK_SHARE = 0.1


class Measured(Protocol):
    """Where a command writes."""

    def over(self, limits: Limits, more_bytes: int = 0) -> bool:
        """Whether it holds more than the limits allow, with `more_bytes` that the command holds elsewhere."""
        ...


def run_walled(
    command: Sequence[str],
    *,
    limits: Limits,
    stopped: Callable[[], bool],
    measured: Measured | None = None,
    given: bytes = b"",
    kill: Callable[[], None] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Ended:
    """
    Run `command` (walls and all) and return how it ended; nothing it started is left.

    `stopped` is asked ten times a second; `given` (at most 64 KiB, what a pipe holds) is what the command reads from
    stdin; `kill` is what ends the command besides killing its processes; `environment` is what the walls themselves
    need. Raises `SandboxError` if it cannot be started.
    """
    began = time.monotonic()
    try:
        process = subprocess.Popen(
            list(command),
            stdin=subprocess.PIPE if given else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={"PATH": os.defpath} if environment is None else dict(environment),
            start_new_session=True,
        )
    except OSError as error:
        raise SandboxError(
            f"{command[0]} cannot be started", why=error.strerror or str(error), hint="install it, or give another"
        ) from error
    output = bytearray()
    try:
        _give(process, given)
        broken = _watch(process, output, _Watch(measured, limits, stopped, began))
    finally:
        _end(process, kill)
    code = process.returncode
    return Ended(
        output=bytes(output[: limits.output_bytes]).decode("utf-8", "replace"),
        code=None if broken else code if code >= 0 else 128 - code,
        ended=broken or "exit",
        took_s=time.monotonic() - began,
    )


def _give(process: "subprocess.Popen[bytes]", given: bytes) -> None:
    if process.stdin is not None:
        with contextlib.suppress(BrokenPipeError):
            os.write(process.stdin.fileno(), given)
        process.stdin.close()


class _Watch:
    """Says which limit a running command has broken."""

    def __init__(self, measured: Measured | None, limits: Limits, stopped: Callable[[], bool], began: float) -> None:
        self._measured = measured
        self.limits = limits
        self._stopped = stopped
        self._deadline = began + limits.time_s
        self._disk_at = began

    def broken(self, pid: int) -> Ending | None:
        """Return the limit that is broken now, or None."""
        now = time.monotonic()
        if self._stopped():
            return "stopped"
        if now >= self._deadline:
            return "time"
        used = usage_below(pid)
        if used.memory_bytes > self.limits.memory_bytes:
            return "memory"
        if used.processes > self.limits.processes + _OWN_PROCESSES:
            return "processes"
        if now >= self._disk_at and self.too_full(pid):
            return "disk"
        return None

    def too_full(self, pid: int) -> bool:
        """Whether the folders hold too much, with files that are open and removed; sets when to look again."""
        if self._measured is None:
            return False
        began = time.monotonic()
        full = self._measured.over(self.limits, nameless_bytes(pid))
        now = time.monotonic()
        self._disk_at = now + max(_TICK_S, (now - began) / _DISK_SHARE)
        return full


# The walls' own processes below the first one: bubblewrap's init, for example.
_OWN_PROCESSES = 4


def _watch(process: "subprocess.Popen[bytes]", output: bytearray, watch: _Watch) -> Ending | None:
    """Read the output until the command has ended or breaks a limit; return that limit."""
    assert process.stdout is not None
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        tick_at = time.monotonic() + _TICK_S
        open_ = True
        while open_ or process.poll() is None:
            if open_ and selector.select(_TICK_S / 2):
                open_ = _read(process.stdout, output)
            elif not open_:
                _wait(process, _TICK_S / 2)
            if len(output) > watch.limits.output_bytes:
                return "output"
            if process.poll() is not None and not selector.select(0):
                break
            if time.monotonic() >= tick_at:
                if (broken := watch.broken(process.pid)) is not None:
                    return broken
                tick_at = time.monotonic() + _TICK_S
    return "disk" if watch.too_full(process.pid) else None


def _read(stream: IO[bytes], output: bytearray) -> bool:
    data = os.read(stream.fileno(), _READ_BYTES)
    output += data
    return bool(data)


def _wait(process: "subprocess.Popen[bytes]", seconds: float) -> None:
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(seconds)


def _end(process: "subprocess.Popen[bytes]", kill: Callable[[], None] | None) -> None:
    """Kill whatever is left: the group, and every process below it, whichever session it moved to."""
    for pid in [*descendants(process.pid), process.pid] if process.poll() is None else []:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    if kill is not None:
        kill()
    if process.stdout is not None:
        process.stdout.close()
    try:
        process.wait(_END_WITHIN_S)
    except subprocess.TimeoutExpired as stuck:
        raise SandboxError(
            "a command in the sandbox does not die",
            why=f"it was killed and is still there after {_END_WITHIN_S:g} s",
            hint="look at the machine: a process that waits for a disk cannot be killed",
        ) from stuck
