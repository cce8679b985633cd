"""The scripted engine as a build, and a way to await the end of any process."""

import os
import select
import sys
from pathlib import Path

from soak.launch import LaunchSpec

SCRIPT = Path(__file__).with_name("scripted_engine.py")


def scripted(mode: str, **changes: object) -> LaunchSpec:
    """A build whose server is the scripted engine behaving as `mode`."""
    fields = {
        "name": "scripted",
        "engine": "script",
        "version": "1",
        "served_model": "echo",
        "command": (sys.executable, str(SCRIPT), mode, "{port}"),
    }
    return LaunchSpec(**(fields | changes))  # type: ignore[arg-type]


def gone(pid: int, within_s: float = 20.0) -> bool:
    """Whether the process ends within the time (it may be a zombie that its parent has not collected yet)."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], within_s)[0])
    finally:
        os.close(descriptor)
