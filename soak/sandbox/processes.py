"""The processes below one of ours, as /proc tells them: how many, and how much memory they hold."""

import os
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Usage:
    """Processes and threads, and the bytes resident in all processes together (shared pages count each time)."""

    processes: int
    memory_bytes: int


def usage_below(pid: int) -> Usage:
    """Return what all descendants of `pid` use, `pid` itself left out; processes that end meanwhile are left out."""
    threads, pages = 0, 0
    for child in descendants(pid):
        try:
            known = _PROC.joinpath(str(child), "stat").read_text(errors="replace").rpartition(")")[2].split()
        except OSError:
            continue
        threads += int(known[17])
        pages += int(known[21])
    return Usage(threads, pages * _PAGE_BYTES)


def descendants(pid: int) -> list[int]:
    """Return the ids of all processes below `pid`, parents first."""
    children: dict[int, list[int]] = {}
    for entry in os.scandir(_PROC):
        if entry.name.isdecimal() and (parent := _parent(entry.path)) is not None:
            children.setdefault(parent, []).append(int(entry.name))
    found, waiting = [], [pid]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


def _parent(path: str) -> int | None:
    try:
        return int(Path(path, "stat").read_text(errors="replace").rpartition(")")[2].split()[1])
    except (OSError, IndexError, ValueError):
        return None
