"""
How a run comes to its end: running → draining → stopped, never back.

Draining: no new turn is offered, turns in flight go on. Stopped: turns in flight are cancelled and close as
*indeterminate*. The first reason given stays.
"""

import asyncio
from collections.abc import Awaitable
from typing import Literal

Reason = Literal["budget", "interrupt", "decided", "threshold", "engine_gone", "nothing_fits"]


class Switch:
    """Told by the budget, by Ctrl-C, by a threshold or by a gate; asked by everything that waits."""

    def __init__(self) -> None:
        self.reason: Reason | None = None
        self._draining = asyncio.Event()
        self._stopped = asyncio.Event()

    @property
    def draining(self) -> bool:
        """Whether no new turn may be offered."""
        return self._draining.is_set()

    def drain(self, reason: Reason) -> None:
        """Offer no more turns."""
        if self.reason is None:
            self.reason = reason
        self._draining.set()

    def stop(self, reason: Reason) -> None:
        """Break off what is in flight, too."""
        self.drain(reason)
        self._stopped.set()

    async def drained(self) -> None:
        """Wait until draining begins."""
        await self._draining.wait()

    async def stopping(self) -> None:
        """Wait until turns in flight are to be broken off."""
        await self._stopped.wait()

    async def unless_draining(self, wait: Awaitable[object]) -> bool:
        """Await `wait` (cancelling it when draining begins) and return whether it came to its end."""
        task = asyncio.ensure_future(wait)
        drained = asyncio.ensure_future(self._draining.wait())
        try:
            await asyncio.wait((task, drained), return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                task.result()
                return True
            return False
        finally:
            task.cancel()
            drained.cancel()
            await asyncio.gather(task, drained, return_exceptions=True)
