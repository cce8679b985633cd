"""
Who begins together, and when nothing is in flight: siblings, prefills that are released at once, idle gaps.

Nothing here waits for what cannot come: a conversation that stands aside says so, and once none is left that could
still come, those who wait for company are let go. When the run drains, nobody waits any longer.
"""

import asyncio
from collections import defaultdict

from soak.facts import Load
from soak.plan import Conversation, Gap, gaps
from soak.replay.ports import Clock
from soak.replay.switch import Switch


class Crowd:
    """All conversations of a sitting; `begun`: turns that earlier sittings have done, for gaps are counted in turns."""

    def __init__(self, load: Load, seed: int, *, clock: Clock, switch: Switch, begun: int) -> None:
        self._together = load.staggered.together if load.staggered else 1
        self._clock = clock
        self._switch = switch
        self._begun = begun
        self._gaps = gaps(load.idle_gaps, seed) if load.idle_gaps else iter(())
        self._gap = self._next_gap()
        self._rest: asyncio.Task[None] | None = None
        self._open = asyncio.Event()
        self._open.set()
        self._running = 0
        self._coming = 0
        self._groups: dict[tuple[str, int], tuple[int, asyncio.Event]] = {}
        self._waiting: dict[str, list[asyncio.Event]] = defaultdict(list)

    def close(self) -> None:
        """End a gap in progress."""
        if self._rest is not None:
            self._rest.cancel()

    # -- siblings ----------------------------------------------------------------------------------------------

    async def begins(self, conversation: Conversation) -> None:
        """A conversation was taken up: if it has siblings, wait until all of them were."""
        self._coming += 1
        if conversation.together == 1:
            return
        group = conversation.episode.id, conversation.trip
        count, whole = self._groups.pop(group, (0, asyncio.Event()))
        if count + 1 == conversation.together:
            whole.set()
            return
        self._groups[group] = count + 1, whole
        await self._aside(whole)

    def ends(self) -> None:
        """A conversation is over."""
        self._coming -= 1
        self._look()

    # -- prefills released at once -----------------------------------------------------------------------------

    async def together(self, arm: str) -> None:
        """Wait until enough turns stand ready for this arm, or until no more can come."""
        if self._together == 1 or self._switch.draining:
            return
        ready = asyncio.Event()
        self._waiting[arm].append(ready)
        self._coming -= 1
        if len(self._waiting[arm]) >= self._together:
            self._release(arm)
        self._look()
        try:
            await self._switch.unless_draining(ready.wait())
        finally:
            if not ready.is_set():
                self._waiting[arm].remove(ready)
                self._coming += 1

    def _look(self) -> None:
        """Let everyone go who waits for company that cannot come."""
        if self._coming <= 0:
            for arm in self._waiting:
                self._release(arm)

    def _release(self, arm: str) -> None:
        for ready in self._waiting[arm]:
            ready.set()
            self._coming += 1
        self._waiting[arm].clear()

    # -- idle gaps ---------------------------------------------------------------------------------------------

    async def turn_begins(self) -> bool:
        """Wait while a gap lasts; False if the run drains meanwhile, else the turn counts as begun."""
        if self._gap is not None and self._begun >= self._gap.after_turns and self._open.is_set():
            self._open.clear()
            self._rest_if_empty()
        while not self._open.is_set():
            if not await self._aside(self._open):
                return False
        self._begun += 1
        self._running += 1
        return True

    def turn_ends(self) -> None:
        """A turn has ended on every arm."""
        self._running -= 1
        self._rest_if_empty()

    def _rest_if_empty(self) -> None:
        if not self._running and not self._open.is_set() and self._rest is None:
            self._rest = asyncio.create_task(self._idle())

    async def _idle(self) -> None:
        assert self._gap is not None
        await self._clock.sleep(self._gap.length_s)
        self._gap, self._rest = self._next_gap(), None
        self._open.set()

    def _next_gap(self) -> Gap | None:
        """Return the first gap that is still to come."""
        return next((gap for gap in self._gaps if gap.after_turns > self._begun), None)

    async def _aside(self, event: asyncio.Event) -> bool:
        """Wait for `event`, unable to come meanwhile; False if the run drains first."""
        self._coming -= 1
        self._look()
        try:
            return await self._switch.unless_draining(event.wait())
        finally:
            self._coming += 1
