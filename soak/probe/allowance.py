"""How many requests a probe may send: said before the first, and never exceeded."""

from soak.errors import UsageError


class Allowance:
    """Counts requests against a limit; what an earlier process kept costs nothing again."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0

    @property
    def left(self) -> int:
        """How many requests may still be sent."""
        return self.limit - self.used

    def take(self, requests: int = 1) -> None:
        """Count requests about to be sent; raises `UsageError`, and counts nothing, if that is more than is left."""
        if requests > self.left:
            raise UsageError(
                f"this probe may send {self.limit} requests and needs more",
                why=f"{self.used} are sent, {requests} more are wanted",
                hint="give more with --max-requests; what was answered is kept and not asked again",
            )
        self.used += requests
