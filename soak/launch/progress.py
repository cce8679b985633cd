"""What is being done now, for the person who waits."""

import time
from collections.abc import Callable

import msgspec


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """The step going on, a line about where it is, and the seconds since the step began."""

    step: str
    detail: str = ""
    elapsed_s: float = 0.0


Report = Callable[[Progress], None]

LEAST_INTERVAL_S = 0.5  # often enough to look alive, rare enough for a log file


class Step:
    """Tells a `Report` how one step goes: each new line, but no more than two a second."""

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
        """Report `detail` now."""
        self._detail = detail
        self._told_at = self.elapsed_s
        self._report(Progress(step=self.name, detail=detail, elapsed_s=self._told_at))

    def mention(self, detail: str) -> None:
        """Report `detail` if it is new and the last report is old enough."""
        if detail and detail != self._detail and self.elapsed_s - self._told_at >= LEAST_INTERVAL_S:
            self.say(detail)
