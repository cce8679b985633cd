"""One arm's gate: open while its server answers; shut, with backoff and a limit, while it does not."""

import asyncio
from collections.abc import Callable

from soak.replay.ports import Clock, Desk
from soak.replay.switch import Switch

_FIRST_WAIT_S = 0.5
_LONGEST_WAIT_S = 10.0


class Gate:
    """Holds turns back while the server is down; after `return_limit_s` it drains the run as `engine_gone`."""

    def __init__(
        self, desk: Desk, *, clock: Clock, switch: Switch, tell: Callable[[str, str], None], return_limit_s: float
    ) -> None:
        self._desk = desk
        self._clock = clock
        self._switch = switch
        self._tell = tell
        self._limit_s = return_limit_s
        self._open = asyncio.Event()
        self._open.set()
        self._watch: asyncio.Task[None] | None = None
        self._turned = 0
        self.gone = False

    async def passed(self) -> bool:
        """Wait until the server is there; False if the run drains first or the server stayed away too long."""
        while not (self._open.is_set() or self.gone or self._switch.draining):
            await self._switch.unless_draining(self._open.wait())
        return self._open.is_set() and not self.gone

    async def suspect(self) -> None:
        """Ask whether the server is there; if not, shut the gate and begin to wait for it."""
        asked_at = self._turned
        if not self._open.is_set() or self.gone or await self._desk.is_up():
            return
        if self._turned == asked_at:  # else the answer is of a time before it was shut and opened again
            self.shut()

    def shut(self) -> None:
        """Shut the gate and wait for the server in the background; a second call changes nothing."""
        if not self._open.is_set() or self.gone:
            return
        self._turned += 1
        self._open.clear()
        self._tell("server_down", f"server does not answer; waiting up to {self._limit_s:.0f} s for it to come back")
        self._watch = asyncio.create_task(self._wait_for_server())

    async def close(self) -> None:
        """End the background wait."""
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.gather(self._watch, return_exceptions=True)

    async def _wait_for_server(self) -> None:
        began = self._clock.now()
        wait_s = _FIRST_WAIT_S
        while self._clock.now() - began < self._limit_s:
            await self._clock.sleep(wait_s)
            if await self._desk.is_up():
                self._reopen(self._clock.now() - began)
                return
            wait_s = min(wait_s * 2, _LONGEST_WAIT_S)
        self._give_up()

    def _reopen(self, away_s: float) -> None:
        self._tell("server_back", f"server is back after {away_s:.1f} s")
        self._turned += 1
        self._open.set()

    def _give_up(self) -> None:
        self.gone = True
        self._tell("server_gone", f"server did not come back within {self._limit_s:.0f} s")
        self._switch.drain("engine_gone")
