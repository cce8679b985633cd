"""
The run folder: `RUN/`.

    manifest.json      what was run (facts.Manifest); written last, so a folder without it was never a run
    history.sqlite     what happened (see schema.py); -wal and -shm beside it, while present, belong to it
    soak.log           the log, for people
    engine-<arm>.log   the log of an engine that soak itself started
    lock               held by the process that writes the run; its content is that process's id

Nothing outside the folder is needed to judge the run, and nothing in it is an API key.
"""

import hashlib
import re
import sqlite3
from pathlib import Path
from typing import Self

from soak.errors import RunFolderError
from soak.facts import Manifest
from soak.store.committer import PATIENCE_S
from soak.store.history import History
from soak.store.lock import RunLock
from soak.store.manifest_file import read_manifest, write_manifest
from soak.store.problems import damaged, not_a_run, unwritable
from soak.store.schema import create_database
from soak.store.writer import HistoryWriter

_MANIFEST, _HISTORY = "manifest.json", "history.sqlite"


class RunFolder:
    """One run on disk: made by `create` or `open`; written through `writer`, read through `history`."""

    def __init__(self, path: Path, manifest: Manifest) -> None:
        self._path = path
        self._manifest = manifest
        self._lock = RunLock(path / "lock")

    @classmethod
    def create(cls, path: Path, manifest: Manifest) -> Self:
        """Make a new run folder (its parents too); raises `RunFolderError` if `path` is taken or cannot be written."""
        cls.refuse_taken(path)
        _sweep(path)
        run = cls(path, manifest)
        try:
            path.mkdir(parents=True, exist_ok=True)
            create_database(path / _HISTORY)
        except (OSError, sqlite3.Error) as error:
            raise unwritable(path, error) from error
        try:
            run.update_manifest(manifest)
        except RunFolderError:
            _sweep(path)
            raise
        return run

    @staticmethod
    def refuse_taken(path: Path) -> None:
        """
        Raise `RunFolderError` if no new run can be made in `path`.

        Logs of an engine just started may lie there, and what is left of a run that was killed before it had begun.
        """
        try:
            taken = any(not entry.name.endswith(".log") for entry in path.iterdir()) and not _never_begun(path)
        except FileNotFoundError:
            return
        except OSError as error:
            raise unwritable(path, error) from error
        if taken:
            is_run = (path / _MANIFEST).exists()
            raise RunFolderError(
                f"cannot make a new run in {path}",
                why="a run is there already" if is_run else "the folder is not empty",
                hint="go on with it by `soak resume`, or give another folder" if is_run else "give another folder",
            )

    @classmethod
    def open(cls, path: Path) -> Self:
        """
        Open the run in `path`, also while another process writes it.

        Raises `RunFolderError` if it is missing, not a run, made by a newer soak, or damaged. Reads the whole history
        once to know.
        """
        try:
            names = {entry.name for entry in path.iterdir()}
        except OSError as error:
            raise not_a_run(path, error.strerror or str(error)) from error
        if not names & {_MANIFEST, _HISTORY}:
            raise not_a_run(path, "it holds neither a manifest nor a history")
        if _HISTORY not in names:
            raise damaged(path, f"its {_HISTORY} is missing")
        run = cls(path, read_manifest(path / _MANIFEST))
        with run.history() as history:
            history.check()
        return run

    @property
    def path(self) -> Path:
        """The folder."""
        return self._path

    @property
    def manifest(self) -> Manifest:
        """What was run."""
        return self._manifest

    @property
    def log_path(self) -> Path:
        """Where the log goes."""
        return self._path / "soak.log"

    def update_manifest(self, manifest: Manifest) -> None:
        """Replace the manifest, as a whole or not at all; raises `RunFolderError` if another process has the run."""
        with self._lock.held():
            write_manifest(self._path / _MANIFEST, manifest)
        self._manifest = manifest

    def writer(self, patience_s: float = PATIENCE_S) -> HistoryWriter:
        """
        Take the run for writing; raises `RunFolderError` if another writer has it or it cannot be written.

        `patience_s`: how long a call may wait for a disk that takes nothing, before that record is refused.
        """
        self._lock.take()
        try:
            return HistoryWriter(self._path / _HISTORY, self._lock, patience_s)
        except sqlite3.Error as error:
            self._lock.release()
            raise unwritable(self._path / _HISTORY, error) from error

    def history(self) -> History:
        """Open the history for reading; raises `RunFolderError` if it is damaged or from a newer soak."""
        return History(self._path / _HISTORY)


_OF_HISTORY = (_HISTORY, f"{_HISTORY}-wal", f"{_HISTORY}-shm", "lock")


def _never_begun(path: Path) -> bool:
    """Whether the folder holds no manifest, which is written last, and nothing but an empty history and logs."""
    names = {entry.name for entry in path.iterdir() if not entry.name.endswith(".log")}
    if not names or not names <= set(_OF_HISTORY):
        return False
    try:
        with History(path / _HISTORY) as history:
            return next(history.starts(), None) is None
    except RunFolderError:
        return False


def _sweep(path: Path) -> None:
    """Remove what a run that never began has left; does nothing to any other folder."""
    try:
        if path.is_dir() and not (path / _MANIFEST).exists() and _never_begun(path):
            for name in _OF_HISTORY:
                (path / name).unlink(missing_ok=True)
    except OSError as error:
        raise unwritable(path, error) from error


def engine_log_path(folder: Path, arm: str) -> Path:
    """Return where the log of this arm's engine goes: always inside the run's folder, and another for another arm."""
    safe = re.sub(r"[^A-Za-z0-9_.-]", "_", arm)[:80]
    if safe != arm:
        safe += "-" + hashlib.sha256(arm.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return folder / f"engine-{safe}.log"
