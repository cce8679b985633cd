"""The real clock."""

import asyncio
import time


class RealClock:
    """Monotonic time for budgets, UTC for stamps."""

    def now(self) -> float:
        """Return monotonic seconds."""
        return time.monotonic()

    def wall(self) -> float:
        """Return UTC epoch seconds."""
        return time.time()

    async def sleep(self, seconds: float) -> None:
        """Wait in real time."""
        await asyncio.sleep(seconds)
