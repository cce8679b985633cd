"""
`history.sqlite`, the history of a run, format 1.

A SQLite database; append-only: rows are added and never changed. JSON columns hold the facts of `soak.facts` as text,
so that any SQLite tool can read them. `seq` counts up in the order of writing.

    meta      name, value           "schema" → the number of this format
    messages  digest, parent, body  one message of a conversation, stored once however many turns see it. `parent` is
                                    the digest of the message before it; of the first one, the digest of the tools
                                    offered, or NULL if there are none; '?' where what came before is not stored
    tools     digest, body          the tool schemas of an episode, a JSON list
    starts    seq, KEY, start, body a facts.Started, written before anything is sent; one per (key, start)
    ends      seq, KEY, start, outcome, body
                                    a facts.Record: the end of that start (NULL: a turn skipped before any start).
                                    One end per start; one `finished`, `skipped` or `aborted` per key
    raw       end, body             the bytes of the answer's stream as received, zlib; `end` is ends.seq
    samples   seq, arm, body        a facts.EngineSample
    events    seq, body             a facts.Event
    ticks     seq, active_s         seconds the run had been active, all its sessions together

KEY is `episode, turn, pass, arm`. A start without an end was in flight when the run was broken off.

**Writing.** While a run is written the database is in WAL mode (files `-wal` and `-shm` beside it belong to it) and
one thread commits in groups: every 0.25 s or 256 records, each with one fsync (`synchronous=FULL`: at four commits a
second it costs a few milliseconds and makes the promise hold for a power cut too). What is lost when the process or
the machine dies is at most the last second of records, and always whole records from the end: SQLite's log has a
checksum per frame, and a group is there as a whole or not at all. A closed run is turned back into one plain file,
readable from a read-only medium.
"""

import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from shutil import copyfile

from soak.store.problems import damaged, newer, not_a_run

SCHEMA = 1
KEY = "episode, turn, pass, arm"

_KEY_COLUMNS = "episode TEXT NOT NULL, turn INTEGER NOT NULL, pass INTEGER NOT NULL, arm TEXT NOT NULL"
_TABLES = f"""
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE messages (digest TEXT PRIMARY KEY, parent TEXT, body TEXT NOT NULL);
CREATE TABLE tools (digest TEXT PRIMARY KEY, body TEXT NOT NULL);
CREATE TABLE starts (seq INTEGER PRIMARY KEY, {_KEY_COLUMNS}, start INTEGER NOT NULL, body TEXT NOT NULL,
                     UNIQUE ({KEY}, start));
CREATE TABLE ends (seq INTEGER PRIMARY KEY, {_KEY_COLUMNS}, start INTEGER, outcome TEXT NOT NULL, body TEXT NOT NULL,
                   UNIQUE ({KEY}, start));
CREATE UNIQUE INDEX one_final_end ON ends ({KEY}) WHERE outcome != 'indeterminate';
CREATE TABLE raw (end INTEGER PRIMARY KEY, body BLOB NOT NULL);
CREATE TABLE samples (seq INTEGER PRIMARY KEY, arm TEXT NOT NULL, body TEXT NOT NULL);
CREATE TABLE events (seq INTEGER PRIMARY KEY, body TEXT NOT NULL);
CREATE TABLE ticks (seq INTEGER PRIMARY KEY, active_s REAL NOT NULL);
INSERT INTO meta VALUES ('schema', '{SCHEMA}');
"""


def create_database(path: Path) -> None:
    """Make an empty history at `path`; raises `sqlite3.Error`."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.executescript(f"BEGIN; {_TABLES} COMMIT;")


def connect_to_write(path: Path) -> sqlite3.Connection:
    """Open the history for its one writer, in WAL mode; raises `sqlite3.Error`. Usable from any one thread."""
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=rw", uri=True, isolation_level=None, check_same_thread=False, timeout=10.0
    )
    try:
        connection.execute("PRAGMA journal_mode=WAL").fetchone()
        connection.execute("PRAGMA synchronous=FULL")
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def close_as_one_file(connection: sqlite3.Connection) -> None:
    """Close the writer's connection and fold the log into the database, so that one plain file remains."""
    try:
        connection.execute("PRAGMA busy_timeout=0")
        connection.execute("PRAGMA journal_mode=DELETE").fetchone()
    except sqlite3.Error:
        pass  # somebody reads it right now, or the disk is full: it stays a database with its log, as good as the other
    finally:
        connection.close()


def connect_to_read(path: Path) -> tuple[sqlite3.Connection, Callable[[], None]]:
    """
    Open the history read-only, while it is being written or not; returns the connection and what to call after it.

    A log that was left behind by a killed run needs a writable folder to be read. Where there is none, the history
    is read from a copy in the temporary folder; without a log, it is read as a file that nobody changes.
    """
    try:
        return _probed(f"{path.absolute().as_uri()}?mode=ro"), _nothing
    except sqlite3.OperationalError:
        log = path.with_name(path.name + "-wal")
        if not log.exists() or not log.stat().st_size:
            return _probed(f"{path.absolute().as_uri()}?mode=ro&immutable=1"), _nothing
    place = tempfile.TemporaryDirectory(prefix="soak-history-")
    try:
        for part in (path, log):
            copyfile(part, Path(place.name) / part.name)
        return _probed(f"{(Path(place.name) / path.name).as_uri()}?mode=rw"), place.cleanup
    except (sqlite3.Error, OSError):
        place.cleanup()
        raise


def _probed(uri: str) -> sqlite3.Connection:
    connection = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False, timeout=10.0)
    try:
        connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def _nothing() -> None:
    """Nothing to clean up."""


def check_format(connection: sqlite3.Connection, path: Path) -> None:
    """Raise `RunFolderError` if the database is not a history or comes from a newer soak; may raise `sqlite3.Error`."""
    if not connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'meta'").fetchone():
        raise not_a_run(path, "the database holds no history")
    row = connection.execute("SELECT value FROM meta WHERE name = 'schema'").fetchone()
    if row is None or not str(row[0]).isdecimal():
        raise damaged(path, "its format number is missing")
    if int(row[0]) > SCHEMA:
        raise newer(path, f"history format {row[0]}; this soak knows {SCHEMA}")


def check_pages(connection: sqlite3.Connection, path: Path) -> None:
    """Raise `RunFolderError` if SQLite finds a broken page; reads the whole file; may raise `sqlite3.Error`."""
    (answer,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if answer != "ok":
        raise damaged(path, answer)
