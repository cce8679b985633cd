"""Reading a history: facts in the order they were written, while the run goes on or long after."""

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import msgspec

from soak.errors import RunFolderError
from soak.facts import (
    CONVERSATION_ENDED,
    ConversationEnd,
    EngineSample,
    Event,
    Message,
    Record,
    RecordOutline,
    Started,
    TurnKey,
    clean,
)
from soak.store.encoding import from_json, unpack
from soak.store.problems import damaged
from soak.store.schema import KEY, check_format, check_pages, connect_to_read

T = TypeVar("T")

_PAGE_ROWS = 256
_MAX_PREFIX_MESSAGES = 100_000
_OPEN_STARTS = """FROM starts AS s WHERE NOT EXISTS (SELECT 1 FROM ends AS e WHERE e.episode = s.episode AND
    e.turn = s.turn AND e.pass = s.pass AND e.arm = s.arm AND e.start = s.start) ORDER BY s.seq"""
_UNFINISHED_STARTS = """SELECT s.body, e.body FROM starts AS s LEFT JOIN ends AS e ON e.episode = s.episode AND
    e.turn = s.turn AND e.pass = s.pass AND e.arm = s.arm AND e.start = s.start
    WHERE e.outcome IS NOT 'finished' ORDER BY s.seq"""
_OF_KEY = "WHERE episode = ? AND turn = ? AND pass = ? AND arm = ?"


class _Ended(msgspec.Struct, frozen=True):
    """Of a record, when it was made."""

    at: float


class History:
    """
    The records of one run; a context manager. Made by `RunFolder.history`.

    Iterators read a few hundred rows at a time and hold no lock in between, so a run in progress is never slowed, and
    what is added meanwhile is seen. Every method raises `RunFolderError` where the history is damaged.
    """

    def __init__(self, database: Path) -> None:
        self._path = database
        try:
            self._connection, self._clean_up = connect_to_read(database)
        except (sqlite3.Error, OSError) as error:
            raise damaged(database, error) from error
        try:
            check_format(self._connection, database)
        except sqlite3.Error as error:
            self.close()
            raise damaged(database, error) from error
        except RunFolderError:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the database."""
        self._connection.close()
        self._clean_up()

    def check(self) -> None:
        """Raise `RunFolderError` if a page of the database is broken; reads all of it."""
        try:
            check_pages(self._connection, self._path)
        except sqlite3.Error as error:
            raise damaged(self._path, error) from error

    # -- turns -------------------------------------------------------------------------------------------------

    def records(self) -> Iterator[Record]:
        """Yield the end of every start, and every skipped turn, in the order of writing."""
        return self._facts("ends", Record)

    def final(self) -> dict[TurnKey, Record]:
        """Return for each turn its last word: a final end if it came to that, else its last indeterminate."""
        final: dict[TurnKey, Record] = {}
        for record in self.records():
            known = final.get(record.key)
            if known is None or known.outcome == "indeterminate":
                final[record.key] = record
        return final

    def last(self, key: TurnKey) -> Record | None:
        """Return the turn's last word, as `final` has it; None if it has no end."""
        order = "ORDER BY outcome = 'indeterminate', seq DESC LIMIT 1"
        rows = self._rows(f"SELECT body FROM ends {_OF_KEY} {order}", *key_values(key))
        return self._fact(rows[0][0], Record) if rows else None

    def outlines(self) -> Iterator[RecordOutline]:
        """Yield what `records` does, without what was generated: a fraction of the time and memory."""
        return self._facts("ends", RecordOutline)

    def done(self) -> set[TurnKey]:
        """Return the turns that are finished, skipped or aborted: what a resumed run need not do."""
        return self._ask(_done)

    def starts(self) -> Iterator[Started]:
        """Yield every start in the order of writing."""
        return self._facts("starts", Started)

    def open_starts(self) -> list[Started]:
        """Return the starts without an end: turns in flight now, or when the run was broken off."""
        rows = self._rows(f"SELECT s.body {_OPEN_STARTS}")
        return [self._fact(body, Started) for (body,) in rows]

    def broken_off(self) -> Iterator[tuple[Started, float | None]]:
        """Yield the starts that came to no finish, each with the UTC epoch time of its end (None: it has none)."""
        for start, end in self._rows(_UNFINISHED_STARTS):
            yield self._fact(start, Started), None if end is None else self._fact(end, _Ended).at

    def start_counts(self) -> dict[TurnKey, int]:
        """Return how often each turn was started; turns never started are absent."""
        return self._ask(_start_counts)

    def started(self, key: TurnKey) -> Started | None:
        """Return the turn's last start (of a finished turn: the one that led to its record), or None."""
        rows = self._rows(f"SELECT body FROM starts {_OF_KEY} ORDER BY start DESC LIMIT 1", *key_values(key))
        return self._fact(rows[0][0], Started) if rows else None

    def final_of(self, key: TurnKey) -> Record | None:
        """Return how the turn was finished, skipped or aborted; None if it has not come to that."""
        rows = self._rows(f"SELECT body FROM ends {_OF_KEY} AND outcome != 'indeterminate'", *key_values(key))
        return self._fact(rows[0][0], Record) if rows else None

    def raw(self, key: TurnKey) -> bytes | None:
        """Return the bytes of the turn's last stream as they came, or None where they were not kept."""
        rows = self._rows(
            f"SELECT raw.body FROM raw JOIN ends ON ends.seq = raw.end {_OF_KEY} ORDER BY raw.end DESC LIMIT 1",
            *key_values(key),
        )
        if not rows:
            return None
        try:
            return unpack(rows[0][0])
        except (ValueError, TypeError) as error:
            raise damaged(self._path, error) from error

    # -- what was sent -----------------------------------------------------------------------------------------

    def message(self, digest: str) -> Message:
        """Return one message; raises `RunFolderError` if it is not stored."""
        return self._message(digest)[1]

    def prefix(self, digest: str) -> tuple[Message, ...]:
        """Return the message with this digest and all before it, first message first."""
        messages: list[Message] = []
        at: str | None = digest
        while at is not None:
            parent, message = self._message(at)
            messages.append(message)
            if len(messages) > _MAX_PREFIX_MESSAGES:
                raise damaged(self._path, f"the messages before {digest[:80]} do not end")
            at = parent if parent is not None and not self._is_tools(parent) else None
        messages.reverse()
        return tuple(messages)

    def tools(self, digest: str | None) -> tuple[dict[str, Any], ...]:
        """Return the tool schemas with this digest (`Started.tools`); none for None."""
        if digest is None:
            return ()
        rows = self._rows("SELECT body FROM tools WHERE digest = ?", digest)
        if not rows:
            raise damaged(self._path, f"the tools {digest[:80]} are not stored")
        return self._fact(rows[0][0], tuple[dict[str, Any], ...])

    def _message(self, digest: str) -> tuple[str | None, Message]:
        rows = self._rows("SELECT parent, body FROM messages WHERE digest = ?", digest)
        if not rows:
            raise damaged(self._path, f"the message {digest[:80]} is not stored")
        return rows[0][0], self._fact(rows[0][1], Message)

    def _is_tools(self, digest: str) -> bool:
        return bool(self._rows("SELECT 1 FROM tools WHERE digest = ?", digest))

    # -- the rest ----------------------------------------------------------------------------------------------

    def samples(self, arm: str | None = None) -> Iterator[EngineSample]:
        """Yield the readings of the engines' metrics (of one arm) in the order of writing."""
        samples = self._facts("samples", EngineSample)
        return samples if arm is None else (sample for sample in samples if sample.arm == arm)

    def events(self) -> Iterator[Event]:
        """Yield what happened to the run, in the order of writing."""
        return self._facts("events", Event)

    def conversation_ends(self) -> Iterator[ConversationEnd]:
        """Yield how conversations came to their ends, where their turns were not planned beforehand."""
        for event in self.events():
            if event.kind == CONVERSATION_ENDED:
                try:
                    yield msgspec.convert(event.data, ConversationEnd)
                except msgspec.ValidationError as error:
                    raise damaged(self._path, error) from error

    def active_s(self) -> float:
        """Return the seconds the run has been active, all its sessions together; 0 before the first tick."""
        ((active_s,),) = self._rows("SELECT max(active_s) FROM ticks")
        try:
            return float(active_s or 0.0)
        except (TypeError, ValueError) as error:
            raise damaged(self._path, error) from error

    # -- rows --------------------------------------------------------------------------------------------------

    def _facts(self, table: str, kind: type[T]) -> Iterator[T]:
        last = -1
        while rows := self._rows(f"SELECT seq, body FROM {table} WHERE seq > ? ORDER BY seq LIMIT {_PAGE_ROWS}", last):
            for last, body in rows:  # noqa: B007 - where the next page begins
                yield self._fact(body, kind)

    def _fact(self, body: Any, kind: type[T]) -> T:
        try:
            return from_json(body, kind)
        except (ValueError, TypeError) as error:
            raise damaged(self._path, error) from error

    def _rows(self, sql: str, *values: Any) -> list[Any]:
        try:
            return self._connection.execute(sql, values).fetchall()
        except (sqlite3.Error, UnicodeError, OverflowError) as error:
            raise damaged(self._path, error) from error

    def _ask(self, question: Callable[[sqlite3.Connection], T]) -> T:
        try:
            return question(self._connection)
        except (sqlite3.Error, UnicodeError) as error:
            raise damaged(self._path, error) from error


def starts_and_ends(connection: sqlite3.Connection) -> tuple[dict[TurnKey, int], dict[TurnKey, int], set[TurnKey]]:
    """Return starts per turn, the number of the start that is open per turn, and the turns that are done."""
    rows = connection.execute(f"SELECT s.episode, s.turn, s.pass, s.arm, s.start {_OPEN_STARTS}")
    return _start_counts(connection), {_key(row): row[4] for row in rows}, _done(connection)


def _start_counts(connection: sqlite3.Connection) -> dict[TurnKey, int]:
    rows = connection.execute(f"SELECT {KEY}, count(*) FROM starts GROUP BY {KEY}")
    return {_key(row): row[4] for row in rows}


def _done(connection: sqlite3.Connection) -> set[TurnKey]:
    rows = connection.execute(f"SELECT {KEY} FROM ends WHERE outcome != 'indeterminate'")
    return {_key(row) for row in rows}


def _key(row: tuple[Any, ...]) -> TurnKey:
    return TurnKey(episode=row[0], turn=row[1], pass_=row[2], arm=row[3])


def key_values(key: TurnKey) -> tuple[str, int, int, str]:
    """Return what the columns KEY hold for `key`."""
    return clean(key.episode), key.turn, key.pass_, clean(key.arm)
