"""
Runs one command in a session of its own and ends all of it when told to, or when its master is gone.

Started as a script (`python -I guardian.py GRACE_S COMMAND…`), so that it needs nothing but the standard library.
Its standard input is a pipe whose other end the master holds: end of file means stop, whether the master closed it,
crashed or was killed with SIGKILL. Signals from the terminal do not reach it and would not stop it. On standard
output it tells, one line each: `started PID`, `failed REASON`, `ended CODE` (a negative code is a signal's number).
The command writes to the guardian's standard error, which is the log.

To stop is SIGTERM to the whole process group, after GRACE_S seconds SIGKILL, then SIGKILL to whatever left the group:
on Linux the guardian is the *subreaper*, so a process whose parent has died becomes its child and is found. Should the
guardian itself be killed, the kernel sends SIGTERM to the command.
"""

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

PR_SET_PDEATHSIG = 1  # linux/prctl.h
PR_SET_CHILD_SUBREAPER = 36
LOOK_EVERY_S = 0.05
KILL_WITHIN_S = 10.0


def main(arguments: list[str]) -> int:
    """Run the command until it ends or the master wants it to; return 0 if it could be started."""
    grace_s, command = float(arguments[0]), arguments[1:]
    wakeups = _listen_for_signals()
    _prctl(PR_SET_CHILD_SUBREAPER)
    try:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=sys.stderr.fileno(),
            start_new_session=True,
            preexec_fn=_die_with_guardian,  # safe: there is one thread
        )
    except OSError as error:
        _tell(f"failed {error}")
        return 1
    _tell(f"started {child.pid}")
    code = _watch(child, wakeups)
    if code is not None:
        _tell(f"ended {code}")
    last = _end(child, grace_s)
    if code is None:
        _tell(f"ended {last}")
    return 0


def _listen_for_signals() -> int:
    """
    Turn the signals we care about into bytes on the returned descriptor, and the terminal's into nothing.

    A handler that does nothing, not SIG_IGN: the command would inherit the latter.
    """
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, lambda *_: None)
    return reader


def _prctl(option: int, value: int = 1) -> None:
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _die_with_guardian() -> None:
    _prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def _tell(line: str) -> None:
    """Write one line to the master; that it has gone shows elsewhere."""
    with contextlib.suppress(OSError):
        os.write(sys.stdout.fileno(), f"{' '.join(line.split())}\n".encode())


def _watch(child: "subprocess.Popen[bytes]", wakeups: int) -> int | None:
    """Return the command's exit code when it has ended by itself, None when it is to be stopped."""
    master = sys.stdin.fileno()
    while True:
        code = child.poll()
        if code is not None:
            return code
        ready, _, _ = select.select([master, wakeups], [], [])
        if wakeups in ready and signal.SIGTERM in os.read(wakeups, 1024):
            return None
        if master in ready and not os.read(master, 1024):
            return None


def _end(child: "subprocess.Popen[bytes]", grace_s: float) -> int:
    """Stop what is left of the command's group and of its strays; return the command's exit code."""
    _signal_group(child.pid, signal.SIGTERM)
    _wait_until_gone(child, grace_s)
    _signal_group(child.pid, signal.SIGKILL)
    deadline = time.monotonic() + KILL_WITHIN_S
    while time.monotonic() < deadline and (strays := _offspring(os.getpid())):
        for pid in strays:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        _reap(child)
        time.sleep(LOOK_EVERY_S)
    return child.wait()


def _wait_until_gone(child: "subprocess.Popen[bytes]", limit_s: float) -> None:
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        _reap(child)
        if child.poll() is not None and not _signal_group(child.pid, 0):
            return
        time.sleep(LOOK_EVERY_S)


def _signal_group(group: int, number: int) -> bool:
    """Send a signal to the group; return whether anyone was there."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    except PermissionError:  # macOS: only zombies are left
        return False
    return True


def _reap(child: "subprocess.Popen[bytes]") -> None:
    """Collect the command's exit code first, then processes that became ours when their parents died."""
    child.poll()
    for pid in _offspring(os.getpid()):
        if pid != child.pid:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)


def _offspring(root: int) -> list[int]:
    """Return the pids of all descendants of `root`; nothing where there is no /proc."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            after_name = stat.read_text("utf-8", "replace").rpartition(")")[2].split()
            children.setdefault(int(after_name[1]), []).append(int(stat.parent.name))
    found: list[int] = []
    queue = [root]
    while queue:
        below = children.get(queue.pop(), [])
        found += below
        queue += below
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
