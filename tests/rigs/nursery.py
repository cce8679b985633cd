"""
A process that has imported soak once and forks a child for each command asked for on stdin, one JSON line each.

Starting the interpreter and importing everything costs more than most commands; a fork of this process is a process of
its own all the same, in a session of its own, with its own files and signals. Children are reported on stdout: one
line when begun, one when ended.
"""

import ctypes
import json
import os
import resource
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any, NoReturn

_lock = threading.Lock()


def main() -> None:
    """Fork children until stdin closes."""
    from soak.cli.main import main as soak

    report({"ready": True})
    for line in sys.stdin:
        order = json.loads(line)
        pid = os.fork()
        if pid == 0:
            child(order, soak)
        report({"id": order["id"], "pid": pid})
        threading.Thread(target=wait_for, args=(order["id"], pid), daemon=True).start()


def report(message: dict[str, Any]) -> None:
    """Write one line of JSON."""
    with _lock:
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()


def wait_for(number: int, pid: int) -> None:
    """Report the end of one child."""
    _, status = os.waitpid(pid, 0)
    report({"id": number, "code": os.waitstatus_to_exitcode(status)})


def child(order: dict[str, Any], soak: Callable[[], None]) -> NoReturn:
    """Become the command: its own session, files, folder and environment."""
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for name, number, mode in (("stdin", 0, os.O_RDONLY), ("stdout", 1, os.O_WRONLY), ("stderr", 2, os.O_WRONLY)):
        file = os.open(order[name], mode | (os.O_APPEND if number else 0))
        os.dup2(file, number)
        os.close(file)
    os.chdir(order["cwd"])
    os.environ.clear()
    os.environ.update(order["env"])
    for name, limit in order["limits"].items():
        resource.setrlimit(getattr(resource, name), (limit, limit))
    if order["powerless"]:
        give_up_powers()
    sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w", buffering=1)  # noqa: SIM115
    sys.argv = ["soak", *order["args"]]
    code = 1
    try:
        soak()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def give_up_powers() -> None:
    """Drop all Linux capabilities, so that file permissions hold for root, too."""
    header, nothing = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    if ctypes.CDLL(None, use_errno=True).capset(header, nothing):
        raise OSError(ctypes.get_errno(), "capset")


if __name__ == "__main__":
    main()
