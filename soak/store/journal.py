"""
A journal: facts of one type, one JSON line each, added one at a time and never changed; what probes keep.

Each line is written and flushed whole, and synchronised to the disk at most once a second and at the end. A process
killed in mid-line leaves a torn last line, which is dropped when the journal is opened again; any other line that
cannot be read is damage and an error.
"""

import os
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Generic, Self, TypeVar

import msgspec

from soak.errors import RunFolderError
from soak.facts import encode
from soak.store.lock import RunLock

T = TypeVar("T")

_SYNC_EVERY_S = 1.0
_MAX_LINE_BYTES = 256 * 1024 * 1024


class Journal(Generic[T]):
    """A context manager: opens (or makes) the journal, holds its lock, and closes it."""

    def __init__(self, path: Path, kind: type[T]) -> None:
        self._path = path
        self._kind = kind
        self._lock = RunLock(path.with_name(path.name + ".lock"))
        self._synced = time.monotonic()
        self._file: int | None = None
        self.kept: list[T] = []
        """All facts, in the order in which they were added; those of earlier processes first."""

    def __enter__(self) -> Self:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _unwritable(self._path, error) from error
        self._lock.take()
        try:
            self.kept, whole = _read(self._path, self._kind)
            self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT, 0o644)
            os.ftruncate(self._file, whole)
            os.lseek(self._file, 0, os.SEEK_END)
        except OSError as error:
            self._lock.release()
            raise _unwritable(self._path, error) from error
        except RunFolderError:
            self._lock.release()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            try:
                os.fsync(self._file)
            except OSError as refused:
                if error is None:
                    raise _unwritable(self._path, refused) from refused
            finally:
                os.close(self._file)
                self._file = None
                self._lock.release()

    def add(self, fact: T) -> None:
        """Add one fact; raises `RunFolderError` if the disk does not take it, and then nothing of it stays."""
        assert self._file is not None, "used outside its `with`"
        line = encode(fact) + b"\n"
        end = os.lseek(self._file, 0, os.SEEK_END)
        try:
            _write(self._file, line)
            if time.monotonic() - self._synced >= _SYNC_EVERY_S:
                os.fsync(self._file)
                self._synced = time.monotonic()
        except OSError as error:
            with suppress(OSError):  # a torn line is dropped by the next process
                os.ftruncate(self._file, end)
            raise _unwritable(self._path, error) from error
        self.kept.append(fact)


def read_journal(path: Path, kind: type[T]) -> list[T]:
    """Return the facts of a journal, also while another process adds to it; raises `RunFolderError` if damaged."""
    return _read(path, kind)[0]


def _read(path: Path, kind: type[T]) -> tuple[list[T], int]:
    """Return the facts, and the bytes of the whole lines."""
    decoder = msgspec.json.Decoder(kind)
    facts: list[T] = []
    whole = 0
    try:
        with path.open("rb") as file:
            while line := file.readline(_MAX_LINE_BYTES):
                if not line.endswith(b"\n"):
                    if len(line) == _MAX_LINE_BYTES:
                        raise _too_long(path, len(facts) + 1)
                    break  # torn
                facts.append(_decoded(decoder, line, path, len(facts) + 1))
                whole += len(line)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise _unwritable(path, error) from error
    return facts, whole


def _decoded(decoder: msgspec.json.Decoder[T], line: bytes, path: Path, number: int) -> T:
    try:
        return decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RunFolderError(
            f"{path} is damaged",
            why=f"line {number}: {error}",
            hint="put the file back from a copy, or begin anew in another folder",
        ) from error


def _too_long(path: Path, number: int) -> RunFolderError:
    return RunFolderError(
        f"{path} is damaged",
        why=f"line {number} is longer than {_MAX_LINE_BYTES} bytes",
        hint="put the file back from a copy, or begin anew in another folder",
    )


def _write(file: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]


def _unwritable(path: Path, error: OSError) -> RunFolderError:
    return RunFolderError(
        f"{path} cannot be used",
        why=error.strerror or str(error),
        hint="make room or give another folder; what was kept before is whole",
    )
