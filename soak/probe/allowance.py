"""How many requests a probe may send: said before the first, and never exceeded."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from soak.errors import UsageError


def _unnoted() -> None:
    """Note nothing: for a probe that keeps nothing."""


class Allowance:
    """
    Counts requests against a limit, over every process that works on one probe; a `client.Meter`.

    Whatever can make the server generate or prefill is counted as it is sent: answers, attempts repeated after a
    refusal or a broken connection, and scores. What an earlier process kept costs nothing again. `note` is called
    before each is sent, so that a killed process leaves none uncounted; `used` starts with what was noted before.
    """

    def __init__(self, limit: int, used: int = 0, note: Callable[[], None] = _unnoted) -> None:
        self.limit = limit
        self.used = used
        self._held = 0
        self._note = note

    @property
    def left(self) -> int:
        """How many requests may still be sent besides those held back for what is being asked."""
        return max(0, self.limit - self.used - self._held)

    @contextmanager
    def held(self, requests: int) -> Iterator[None]:
        """
        Hold requests back for what is asked within, so that no repeated attempt takes the place of one of them.

        Raises `UsageError`, before any is sent, if that is more than is left.
        """
        if requests > self.left:
            raise self._too_many(requests)
        others = self._held
        self._held += requests
        try:
            yield
        finally:
            self._held = others

    def send(self) -> None:
        """Count one request about to be sent, of those held back if there are; raises `UsageError` if none is left."""
        if self._held:
            self._held -= 1
        elif not self.left:
            raise self._too_many(1)
        self._count()

    def again(self) -> bool:
        """Whether a request that failed may be sent once more, and counts it; what is held back is not taken for it."""
        if not self.left:
            return False
        self._count()
        return True

    def _count(self) -> None:
        self._note()
        self.used += 1

    def _too_many(self, requests: int) -> UsageError:
        return UsageError(
            f"this probe may send {self.limit} requests and needs more",
            why=f"{self.used} are sent, repeated attempts and scoring included, and {requests} more are wanted",
            hint="give more with --max-requests; what was answered is kept and not asked again",
        )
