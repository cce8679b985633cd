"""One writer per run: an advisory lock on `RUN/lock`, which the system lets go when its holder dies."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from soak.errors import RunFolderError
from soak.store.problems import unwritable


class RunLock:
    """The lock of one run folder; may be taken several times by its one holder."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = -1
        self._depth = 0

    def take(self) -> None:
        """Take the lock; raises `RunFolderError` naming the process that has it."""
        if self._depth == 0:
            self._file = self._locked_file()
        self._depth += 1

    def release(self) -> None:
        """Give the lock back as often as it was taken. The file stays: removing it would let two writers in."""
        self._depth -= 1
        if self._depth == 0:
            os.close(self._file)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lock inside a `with` block."""
        self.take()
        try:
            yield
        finally:
            self.release()

    def _locked_file(self) -> int:
        try:
            file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise unwritable(self._path.parent, error) from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(file, 0)
            os.pwrite(file, f"{os.getpid()}\n".encode(), 0)
        except BlockingIOError as error:
            holder = os.pread(file, 32, 0).decode("ascii", "replace").strip() or "unknown"
            os.close(file)
            raise self._taken(holder) from error
        except OSError as error:
            os.close(file)
            raise unwritable(self._path.parent, error) from error
        return file

    def _taken(self, holder: str) -> RunFolderError:
        return RunFolderError(
            f"{self._path.parent} is being written by another process",
            why=f"process {holder} holds its lock",
            hint="wait for it or stop it first; `soak show` and `soak check` may look at a run meanwhile",
        )
