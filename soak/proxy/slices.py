"""Work that may wait until bytes have been passed on: done in order, a little at a time."""

import asyncio
from collections import deque
from collections.abc import Callable
from time import perf_counter

SLICE_S = 0.0005
WAITING_MAX_BYTES = 32 * 1024 * 1024

Work = Callable[[], bool | None]
"""A piece of work; True means that it is not done yet and wants to be called again."""


class Slices:
    """
    A queue of small pieces of work on the running loop.

    Each turn of the loop does `SLICE_S` seconds of it (at least one piece), so that what is read in between goes out
    first. Where more than `WAITING_MAX_BYTES` wait, all is done at once: memory is bounded, not the delay. Work must
    not raise.
    """

    def __init__(self) -> None:
        self._queue: deque[tuple[Work, int]] = deque()
        self._bytes = 0
        self._scheduled = False

    def put(self, work: Work, size: int = 0) -> None:
        """Have `work` done soon; `size` is how many bytes it holds meanwhile."""
        self._queue.append((work, size))
        self._bytes += size
        if self._bytes > WAITING_MAX_BYTES:
            self.finish()
        elif not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._slice)

    def finish(self) -> None:
        """Do all that waits, now."""
        while self._queue:
            self._one()

    def _slice(self) -> None:
        ends_at = perf_counter() + SLICE_S
        while self._queue:
            self._one()
            if perf_counter() >= ends_at:
                break
        self._scheduled = bool(self._queue)
        if self._scheduled:
            asyncio.get_running_loop().call_soon(self._slice)

    def _one(self) -> None:
        work, size = self._queue.popleft()
        self._bytes -= size
        if work():
            self._queue.appendleft((work, size))
            self._bytes += size
