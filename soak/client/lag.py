"""How late our own event loop runs: what is slow here must not be blamed on the engine."""

import asyncio
from collections import deque
from time import perf_counter

TICK_S = 0.05


class LoopLag:
    """
    Ticks every 50 ms and remembers how late each tick came; `since(t)` is the worst lateness in ms from t on.

    Keeps a sliding maximum: ticks that a later and worse one makes irrelevant are dropped, and those more than
    `keep_s` old.
    """

    def __init__(self, keep_s: float = 7200.0) -> None:
        self._keep_s = keep_s
        self._peaks: deque[tuple[float, float]] = deque()
        self._handle: asyncio.TimerHandle | None = None
        self._due = 0.0

    def start(self) -> None:
        """Begin to tick on the running loop."""
        self._due = perf_counter() + TICK_S
        self._handle = asyncio.get_running_loop().call_later(TICK_S, self._tick)

    def stop(self) -> None:
        """Stop ticking."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _tick(self) -> None:
        now = perf_counter()
        self.note(now, max(0.0, now - self._due) * 1000)
        self.start()

    def note(self, at: float, late_ms: float) -> None:
        """Remember that the tick at `at` (stopwatch seconds) was `late_ms` late."""
        while self._peaks and self._peaks[-1][1] <= late_ms:
            self._peaks.pop()
        self._peaks.append((at, late_ms))
        while self._peaks[0][0] < at - self._keep_s:
            self._peaks.popleft()

    def since(self, start: float) -> float:
        """Return the worst lateness in milliseconds of the ticks at or after `start` (stopwatch seconds)."""
        overdue = 0.0 if self._handle is None else (perf_counter() - self._due) * 1000
        return max(0.0, overdue, *(late for at, late in self._peaks if at >= start))
