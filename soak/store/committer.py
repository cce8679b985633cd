"""The writer thread: takes records from a bounded queue and commits them in groups."""

import queue
import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path

from soak.errors import RunFolderError
from soak.store.problems import unwritable
from soak.store.schema import close_as_one_file

Write = Callable[[sqlite3.Connection], object]

COMMIT_EVERY_S = 0.25
COMMIT_MOST = 256
_DEPTH = 4096
PATIENCE_S = 30.0


class _Stop:
    """The last thing in the queue."""


class Committer:
    """
    Carries out writes in order, off the caller's thread.

    `failed` is the error that ended it, if one did; every later call raises it. A record handed in is on disk at most
    1 s later: 0.25 s of waiting for company, and the commit.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection, patience_s: float = PATIENCE_S) -> None:
        self._path = path
        self._patience_s = patience_s
        self._connection = connection
        self._queue: queue.Queue[Write | threading.Event | _Stop] = queue.Queue(_DEPTH)
        self._grouped = 0
        self.failed: RunFolderError | None = None
        self._thread = threading.Thread(target=self._work, name="soak-history", daemon=True)
        self._thread.start()

    def put(self, write: Write) -> None:
        """Have `write` carried out; waits at most `patience_s` where thousands wait. Raises `RunFolderError`."""
        self._enqueue(write)

    def flush(self) -> None:
        """Return when all that was put before is on disk; raises `RunFolderError` if it is not."""
        done = threading.Event()
        self._enqueue(done)
        while not done.wait(1.0) and self._thread.is_alive():
            pass
        self._raise_failure()

    def close(self) -> None:
        """Commit what is left and close the history; raises `RunFolderError` if that failed."""
        if self._thread.is_alive():
            self._queue.put(_Stop())
        self._thread.join()
        self._raise_failure()

    def _raise_failure(self) -> None:
        if self.failed is not None:
            raise self.failed

    def _enqueue(self, item: Write | threading.Event) -> None:
        self._raise_failure()
        try:
            self._queue.put(item, timeout=self._patience_s)
        except queue.Full:
            raise unwritable(self._path, f"the disk took no record for {self._patience_s:.0f} s") from None

    # -- the thread --------------------------------------------------------------------------------------------

    def _work(self) -> None:
        try:
            while self._commit_group():
                pass
        except Exception as error:  # whatever it was, the caller must hear of it: nothing is lost in silence
            lost = self._grouped + self._queue.qsize()
            self.failed = unwritable(self._path, f"{error}; the last {lost} or so records were not written")
            self.failed.__cause__ = error
        finally:
            self._let_go()
            close_as_one_file(self._connection)

    def _commit_group(self) -> bool:
        """Wait for a record, take what comes within the time and number of a group, commit. False when told to stop."""
        item = self._queue.get()
        waiters: list[threading.Event] = []
        if not isinstance(item, _Stop):
            self._connection.execute("BEGIN IMMEDIATE")
            last = self._take_group(item, waiters)
            self._connection.execute("COMMIT")
            item = last
        self._grouped = 0
        for waiter in waiters:
            waiter.set()
        return not isinstance(item, _Stop)

    def _take_group(
        self, item: Write | threading.Event | _Stop, waiters: list[threading.Event]
    ) -> Write | threading.Event | _Stop:
        """Carry out one group of writes, beginning with `item`; return the last thing taken from the queue."""
        ends_at = time.monotonic() + COMMIT_EVERY_S
        while True:
            if isinstance(item, threading.Event):
                waiters.append(item)
                return item
            if isinstance(item, _Stop):
                return item
            self._grouped += 1
            item(self._connection)
            left_s = ends_at - time.monotonic()
            if left_s <= 0 or self._grouped >= COMMIT_MOST:
                return item
            try:
                item = self._queue.get(timeout=left_s)
            except queue.Empty:
                return item

    def _let_go(self) -> None:
        """Wake everyone who waits for a flush; they look at `failed`."""
        while True:
            try:
                item = self._queue.get_nowait()
            except queue.Empty:
                return
            if isinstance(item, threading.Event):
                item.set()
