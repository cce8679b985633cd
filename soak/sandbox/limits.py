"""What one command may use, and how it came to its end."""

from dataclasses import dataclass
from typing import Literal

Ending = Literal["exit", "time", "memory", "processes", "disk", "output", "stopped"]

_MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """
    Limits on one command and all it starts: seconds on the clock, processes and threads, bytes.

    `memory_bytes`: resident in all its processes; one process may address twice that. `disk_bytes`, `files`: in all
    the folders it can write, one file included, and in open files that have no name any more. `output_bytes`: stdout
    and stderr together.
    """

    time_s: float = 60.0
    processes: int = 128
    memory_bytes: int = 1024 * _MIB
    disk_bytes: int = 256 * _MIB
    files: int = 20_000
    output_bytes: int = _MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """
    How a command ended.

    `ended`: "exit" by itself, else the limit that ended it ("stopped": we were told to). `code`: its exit code, 128 +
    n if signal n ended it; None unless it ended by itself. `output`: stdout and stderr as they came, undecodable bytes
    as U+FFFD, at most `Limits.output_bytes`.
    """

    output: str
    code: int | None
    ended: Ending
    took_s: float
