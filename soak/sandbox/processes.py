"""The processes below one of ours, as /proc tells them: how many, and how much memory and nameless files they hold."""

import contextlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_BLOCK_BYTES = 512


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


def nameless_bytes(pid: int) -> int:
    """
    Return what files take that have no name any more and are kept open by descendants of `pid`, each counted once.

    They are removed or temporary ones, on disk or in memory (memfd): no walk through a folder shows them.
    """
    held: dict[tuple[int, int], int] = {}
    for child in descendants(pid):
        for known in _open_files(child):
            if stat.S_ISREG(known.st_mode) and not known.st_nlink:
                held[known.st_dev, known.st_ino] = known.st_blocks * _BLOCK_BYTES
    return sum(held.values())


def _open_files(pid: int) -> Iterator[os.stat_result]:
    with contextlib.suppress(OSError), os.scandir(_PROC / str(pid) / "fd") as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                yield entry.stat()


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
