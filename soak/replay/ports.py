"""What the engine needs from the world: five small protocols, met by real things in `app` and by fakes in tests."""

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from soak.client import Exchange, Request
from soak.facts import Chunk, Event, Node, Record, Signal, Started, TurnKey


class StreamClient(Protocol):
    """Sends one request and folds what comes back."""

    async def exchange(self, request: Request, sink: Callable[[Chunk], bool]) -> Exchange:
        """
        Stream one answer; `sink` sees each chunk and returns True to have the stream closed.

        Never raises for the server's faults; raises `UsageError` where a limit of our own machine is met.
        """
        ...


class Desk(Protocol):
    """Asks a server things that are not timed."""

    async def is_up(self) -> bool:
        """Whether the server answers at all."""
        ...

    async def count_tokens(self, body: dict[str, Any]) -> int | None:
        """Return the prompt tokens of a request body, or None where the server cannot count."""
        ...


class Ledger(Protocol):
    """The append-only history of the run; calls return at once and raise `RunFolderError` if writing has failed."""

    def messages(self, nodes: Iterable[Node], tools: Iterable[dict[str, Any]]) -> None:
        """Store a prefix; what is stored already is not stored again."""
        ...

    def start(self, started: Started) -> None:
        """Record that a turn is about to be sent."""
        ...

    def finish(self, record: Record, raw: bytes | None = None) -> None:
        """Record the end of a started (or skipped) turn; `raw` keeps the stream's bytes as proof."""
        ...

    def event(self, event: Event) -> None:
        """Record something that happened to the run."""
        ...

    def tick(self, active_s: float) -> None:
        """Record how much of the budget is used, in seconds."""
        ...


class Clock(Protocol):
    """The budget clock (jumps in tests) and the wall clock; the stopwatch inside the client is always real."""

    def now(self) -> float:
        """Return monotonic seconds."""
        ...

    def wall(self) -> float:
        """Return UTC epoch seconds."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        ...


class Listener(Protocol):
    """Is told what happens, as it happens; must return at once and not raise."""

    def started(self, key: TurnKey) -> None:
        """A turn is being sent."""
        ...

    def signal(self, key: TurnKey, signal: Signal) -> None:
        """Something was noticed in mid-stream."""
        ...

    def ended(self, record: Record) -> None:
        """A turn ended, was skipped, or was broken off."""
        ...

    def event(self, event: Event) -> None:
        """Something happened to the run."""
        ...
