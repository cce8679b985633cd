"""The three deadlines of an attempt: first chunk with text, gap between chunks, whole turn."""

import asyncio
from time import perf_counter
from types import TracebackType
from typing import Self

from soak.client.attempt import Stream
from soak.client.fold import Closed
from soak.facts import Deadlines


class Watch:
    """
    Cancels the body of its `async with` when a deadline passes, and then raises `TimeoutError` with `fired` set.

    It costs nothing per read: the timer looks at the stream's stamps only when it goes off. Comments and events without
    text do not end the wait for the first chunk; after it, any event but a comment starts the gap anew.
    """

    def __init__(self, deadlines: Deadlines, stream: Stream) -> None:
        self._deadlines = deadlines
        self._stream = stream
        self._start = perf_counter()
        self._timeout = asyncio.timeout(None)
        self._handle: asyncio.TimerHandle | None = None
        self.fired: Closed | None = None

    async def __aenter__(self) -> Self:
        self._start = perf_counter()
        await self._timeout.__aenter__()
        self._check()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._handle is not None:
            self._handle.cancel()
        await self._timeout.__aexit__(kind, error, trace)

    def _check(self) -> None:
        due, kind = self._due()
        left = due - perf_counter()
        loop = asyncio.get_running_loop()
        if left > 0:
            # Looking at least once a gap keeps it exact: what is read between two looks is due after the second.
            self._handle = loop.call_later(min(left, self._deadlines.gap_s), self._check)
            return
        self.fired = kind
        self._timeout.reschedule(loop.time())

    def words(self) -> str:
        """Return the sentence for the deadline that passed."""
        limits = self._deadlines
        if self.fired == "deadline_first_chunk":
            return f"no text within {limits.first_chunk_s:g} s"
        return (
            f"silent for {limits.gap_s:g} s" if self.fired == "deadline_gap" else f"not done after {limits.turn_s:g} s"
        )

    def _due(self) -> tuple[float, Closed]:
        fold, limits = self._stream.fold, self._deadlines
        step: tuple[float, Closed] = (self._start + limits.first_chunk_s, "deadline_first_chunk")
        if fold.begun:
            step = (fold.last_at + limits.gap_s, "deadline_gap")
        return min((self._start + limits.turn_s, "deadline_turn"), step)
