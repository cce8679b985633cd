"""
A reading immediately before and after each turn that is alone in flight, so that what the counters did between the two
is this turn's own.

The reading after a turn is the one before the next, so a lone turn costs one reading. The turn to come waits for it,
no other turn does, and no time of a turn contains it: they count from the sending. All waiting together is at most
`SHARE_OF_TIME` of the time that has passed and `ALLOWANCE_S`; where pages are slow or turns short, some turns go
without, and what the regular readings say of them is shared out by overlap.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import perf_counter

from soak.scrape.reader import Reader

SHARE_OF_TIME = 0.02
"""
A replay that is a fiftieth longer for it is still the load that was asked for. A reading of a real vLLM on the CPU took
10 to 180 ms, median 40, on a machine with ten times the work it could do, beside turns of a minute.
"""

ALLOWANCE_S = 0.5
LONGEST_WAIT_S = 0.5
"""One wait. A page that takes longer than this tells nothing that is worth holding a turn back."""


class Crowd:
    """The turns in flight on one server, whichever arms send them."""

    def __init__(self) -> None:
        self.in_flight = 0
        self.begun = 0


class LoneTurns:
    """Takes the readings of one arm's lone turns; `crowd` is shared by all arms that send to the same server."""

    def __init__(self, reader: Reader, crowd: Crowd) -> None:
        self._reader = reader
        self._crowd = crowd
        self._began = perf_counter()
        self._waited_s = 0.0
        self._reading: asyncio.Task[None] | None = None
        self._read_after = -1  # how many turns had begun when the last good reading was asked for with none in flight

    @asynccontextmanager
    async def around(self) -> AsyncIterator[None]:
        """Surround the sending of one turn; readings are taken if it is alone, and a failed one harms nothing."""
        crowd = self._crowd
        lone = crowd.in_flight == 0 and self._may_wait
        before = crowd.begun
        crowd.in_flight += 1
        crowd.begun += 1
        try:
            if lone:
                await self._look_before(before)
            yield
        finally:
            crowd.in_flight -= 1
            if lone and crowd.begun == before + 1:
                self._look()

    async def close(self) -> None:
        """End a reading that is still under way."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)

    @property
    def _may_wait(self) -> bool:
        return self._waited_s <= SHARE_OF_TIME * (perf_counter() - self._began) + ALLOWANCE_S

    async def _look_before(self, begun: int) -> None:
        """Have a reading that was asked for when all turns so far had ended; wait for it."""
        if self._reading is None and self._read_after == begun:
            return
        asked = perf_counter()
        if self._reading is None:
            self._look(begun)
        if self._reading is not None:
            await asyncio.wait((self._reading,), timeout=LONGEST_WAIT_S)
        self._waited_s += perf_counter() - asked

    def _look(self, begun: int | None = None) -> None:
        """Begin a reading, unless one is under way (then it began while a turn was in flight, and says too little)."""
        if self._reading is None:
            self._reading = asyncio.create_task(self._read(self._crowd.begun if begun is None else begun))
            self._reading.add_done_callback(self._over)

    async def _read(self, begun: int) -> None:
        # A history that cannot be written is told by the next turn that has to be recorded.
        with contextlib.suppress(Exception):
            if await self._reader.read() is None:
                self._read_after = begun

    def _over(self, _: asyncio.Task[None]) -> None:
        self._reading = None
