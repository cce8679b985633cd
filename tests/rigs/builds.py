"""Builds of the scripted server, started by soak, and the processes that they are."""

import json
import sys
from pathlib import Path
from typing import Any

from rigs.cli import TESTS, processes_holding


def scripted_build(folder: Path, name: str, *options: str, **fields: Any) -> str:
    """Write a build that starts the scripted server, which answers well unless told otherwise; return its name."""
    rates = () if "--rates" in options else ("--rates", "none")
    words = [sys.executable, "-m", "fakes", "--port", "{port}", *rates, *options]
    content = {
        "about": "The scripted server.",
        "engine": "command",
        "model": "fake-model",
        "command": words,
        "environment": {"PYTHONPATH": str(TESTS), "OPENBLAS_NUM_THREADS": "1"},
    }
    path = folder / f"{name}.yaml"
    path.write_text(json.dumps(content | fields))
    return path.name


def engines(log: Path) -> list[int]:
    """Return the scripted servers that write to this log."""
    writers = {pid: cmdline(pid) for pid in processes_holding(log)}
    return [pid for pid, line in writers.items() if b"fakes\0--port" in line and b"guardian" not in line]


def cmdline(pid: int) -> bytes:
    """Return the command line of a process; empty where it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
