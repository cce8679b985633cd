"""What is being done now, for the person who waits."""

import time
from collections.abc import Callable
from types import TracebackType

import msgspec


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """A step, in one line what it does, and the seconds since it began; `ended` is true once, when it is done."""

    step: str
    detail: str = ""
    elapsed_s: float = 0.0
    ended: bool = False


Report = Callable[[Progress], None]

LEAST_INTERVAL_S = 0.5


class Step:
    """
    Tells a `Report` how one step goes: what it does, that it still goes on (at most twice a second), that it is done.

    What the tools write that do the work is in their log; only the last line of an engine's is told while it starts. In
    a `with` block the end of the block is the end of the step; an exception ends it without a word.
    """

    def __init__(self, name: str, report: Report) -> None:
        self.name = name
        self._report = report
        self._began = time.monotonic()
        self._told_at = -1.0
        self._detail = ""

    @property
    def elapsed_s(self) -> float:
        """Seconds since the step began."""
        return time.monotonic() - self._began

    def say(self, detail: str) -> None:
        """Report `detail` now, unless it is what was reported last."""
        if detail != self._detail:
            self._detail = detail
            self._tell()

    def beat(self, log_line: Callable[[], str] = str) -> None:
        """Report that the step goes on, with the last line of a log, if the last report is old enough."""
        if self._detail and self.elapsed_s - self._told_at >= LEAST_INTERVAL_S:
            self._tell(log_line=log_line())

    def done(self) -> None:
        """Report the end of the step; one that never said anything ends in silence."""
        if self._detail:
            self._tell(ended=True)

    def _tell(self, *, ended: bool = False, log_line: str = "") -> None:
        self._told_at = self.elapsed_s
        detail = f"{self._detail} · its log: {log_line}" if log_line else self._detail
        self._report(Progress(step=self.name, detail=detail, elapsed_s=self._told_at, ended=ended))

    def __enter__(self) -> "Step":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.done()
