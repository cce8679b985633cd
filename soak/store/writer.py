"""Writing a history: one writer per run, one end per start, nothing lost in silence."""

import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from soak.errors import RunFolderError
from soak.facts import EngineSample, Event, Message, Node, Record, Started, TurnKey, clean, digest_of
from soak.store.committer import PATIENCE_S, Committer, Write
from soak.store.encoding import pack, to_json
from soak.store.history import key_values, starts_and_ends
from soak.store.lock import RunLock
from soak.store.schema import connect_to_write

_UNKNOWN_PARENT = "?"

_STORED = "SELECT digest FROM messages WHERE parent IS NOT '?' UNION ALL SELECT digest FROM tools"
_PUT_MESSAGE = """INSERT INTO messages VALUES (?, ?, ?)
    ON CONFLICT (digest) DO UPDATE SET parent = excluded.parent WHERE messages.parent = '?'"""


class HistoryWriter:
    """
    Appends to the history of a run; a context manager. Made by `RunFolder.writer`, used from one thread.

    Calls return at once; a thread of its own commits in groups, at most 1 s later. When that thread fails (disk full,
    I/O error), `failed` is set and every later call raises it. A turn recorded twice, or ended without a start, is
    refused with `RunFolderError` on the spot and harms nothing.
    """

    def __init__(self, database: Path, lock: RunLock, patience_s: float = PATIENCE_S) -> None:
        """Expects `lock` to be taken; `close` releases it. Raises `sqlite3.Error`."""
        connection = connect_to_write(database)
        self._database = database
        self._lock = lock
        self._closed = False
        try:
            self._seen = {digest for (digest,) in connection.execute(_STORED)}
            self._starts, self._open, self._done = starts_and_ends(connection)
        except sqlite3.Error:
            connection.close()
            raise
        self._committer = Committer(database, connection, patience_s)

    @property
    def failed(self) -> RunFolderError | None:
        """The error that ended writing, or None."""
        return self._committer.failed

    @property
    def open_starts(self) -> tuple[TurnKey, ...]:
        """Keys of the turns that were started and have no end yet."""
        return tuple(self._open)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except RunFolderError:
            if error is None:
                raise

    def close(self) -> None:
        """Write what is left and let the run go; raises `RunFolderError` if something could not be written."""
        if self._closed:
            return
        self._closed = True
        try:
            self._committer.close()
        finally:
            self._lock.release()

    def flush(self) -> None:
        """Block until all that was recorded is on disk; raises `RunFolderError` if it cannot be."""
        self._refuse_if_closed()
        self._committer.flush()

    def start(self, started: Started) -> None:
        """Record that a turn is about to be sent; `started.start` must be the number of its starts so far."""
        key = started.key
        if key in self._done:
            raise self._refused(key, "it has already been finished or skipped")
        if key in self._open:
            raise self._refused(key, "its last start has no end yet")
        if started.start != self._starts.get(key, 0):
            raise self._refused(key, f"it is start {started.start}, but {self._starts.get(key, 0)} are recorded")
        self._put(
            lambda connection: connection.execute(
                "INSERT INTO starts (episode, turn, pass, arm, start, body) VALUES (?, ?, ?, ?, ?, ?)",
                (*key_values(key), started.start, to_json(started)),
            )
        )
        self._open[key] = started.start
        self._starts[key] = started.start + 1

    def finish(self, record: Record, raw: bytes | None = None) -> None:
        """Record the end of a started turn (or that a turn was skipped without a start); `raw` keeps its stream."""
        key = record.key
        if key in self._done:
            raise self._refused(key, "it has already been finished or skipped")
        if key not in self._open and record.outcome != "skipped":
            raise self._refused(key, "it has no start that is still open")
        start = self._open.get(key)
        self._put(lambda connection: _write_end(connection, record, start, raw))
        self._open.pop(key, None)
        if record.outcome != "indeterminate":
            self._done.add(key)

    def sample(self, sample: EngineSample) -> None:
        """Record one reading of an engine's metrics."""
        self._put(
            lambda connection: connection.execute(
                "INSERT INTO samples (arm, body) VALUES (?, ?)", (clean(sample.arm), to_json(sample))
            )
        )

    def event(self, event: Event) -> None:
        """Record something that happened to the run."""
        self._put(lambda connection: connection.execute("INSERT INTO events (body) VALUES (?)", (to_json(event),)))

    def tick(self, active_s: float) -> None:
        """Record how many seconds the run has been active so far, all its sessions together."""
        self._put(lambda connection: connection.execute("INSERT INTO ticks (active_s) VALUES (?)", (active_s,)))

    def messages(self, nodes: Iterable[Node], tools: Iterable[dict[str, Any]] = ()) -> None:
        """
        Store messages and the tools offered with them, each once however often it is given.

        `nodes` is a chain, first message first (`Episode.chain`), with a recorded answer behind it if there is one,
        or all nodes of an episode.
        """
        given = tuple(nodes)
        root = self._tools(list(tools))
        for position, node in enumerate(given):
            if node.digest in self._seen:
                continue
            parent = root if node.parent is None else _parent(given, position)
            self._put_message(node.digest, parent, node.message)
            if parent != _UNKNOWN_PARENT:
                self._seen.add(node.digest)

    def _put_message(self, digest: str, parent: str | None, message: Message) -> None:
        self._put(lambda connection: connection.execute(_PUT_MESSAGE, (digest, parent, to_json(message))))

    def _tools(self, tools: list[dict[str, Any]]) -> str | None:
        if not tools:
            return None
        digest = digest_of(tools)
        if digest not in self._seen:
            row = (digest, to_json(tools))
            self._put(lambda connection: connection.execute("INSERT INTO tools VALUES (?, ?)", row))
            self._seen.add(digest)
        return digest

    def _put(self, write: Write) -> None:
        self._refuse_if_closed()
        self._committer.put(write)

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise RunFolderError(
                f"cannot write to {self._database}", why="its writer was closed", hint="open the run again"
            )

    def _refused(self, key: TurnKey, why: str) -> RunFolderError:
        return RunFolderError(
            f"turn {key} was not recorded in {self._database.parent}",
            why=why,
            hint="report this as a defect of soak; the run folder is unharmed",
        )


def _parent(nodes: Sequence[Node], position: int) -> str:
    """Return the digest of the message before `nodes[position]`, told by the hash chain itself; '?' if not given."""
    node = nodes[position]
    candidates = [nodes[position - 1]] if position else []
    if node.parent is not None and node.parent < position:
        candidates.append(nodes[node.parent])
    for candidate in candidates:
        if digest_of(node.message, candidate.digest) == node.digest:
            return candidate.digest
    return _UNKNOWN_PARENT


def _write_end(connection: sqlite3.Connection, record: Record, start: int | None, raw: bytes | None) -> None:
    row = connection.execute(
        "INSERT INTO ends (episode, turn, pass, arm, start, outcome, body) VALUES (?, ?, ?, ?, ?, ?, ?)",
        (*key_values(record.key), start, record.outcome, to_json(record)),
    )
    if raw is not None:
        connection.execute("INSERT INTO raw VALUES (?, ?)", (row.lastrowid, pack(raw)))
