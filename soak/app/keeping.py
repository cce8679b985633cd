"""Keeps the servers that soak started alive during a sitting: each death is told, and mended within the budget."""

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Protocol

from soak.app.sides import Side
from soak.errors import LaunchError
from soak.launch import Death, RunningServer
from soak.replay import Switch

LOOK_EVERY_S = 0.25
SHOWN_LINES = 3


class Tell(Protocol):
    """Records that something happened to the run."""

    def __call__(self, kind: str, text: str, arm: str | None = None, **data: object) -> None:
        """Record an event of this kind, with a sentence and details."""
        ...


@asynccontextmanager
async def keeping(sides: Sequence[Side], tell: Tell, switch: Switch) -> AsyncIterator[None]:
    """
    Watch every server of ours through the block.

    A death is told as `engine_died` with its reason, exit code and last log lines; the server is then started again on
    its port (`engine_restarted`) as often as its build allows. After that the run drains as `engine_gone`.
    """
    over = threading.Event()
    servers = [(side.name, side.server) for side in sides if side.server is not None]
    tasks = [asyncio.create_task(_keep(name, server, tell, switch, over)) for name, server in servers]
    try:
        yield
    finally:
        over.set()  # a start in another thread cannot be cancelled: it asks, and breaks itself off
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _keep(arm: str, server: RunningServer, tell: Tell, switch: Switch, over: threading.Event) -> None:
    while not switch.draining:
        await asyncio.sleep(LOOK_EVERY_S)
        death = server.death()
        if death is None:
            continue
        tell("engine_died", _sentence(death), arm, **_details(death))
        if not await _revived(arm, server, tell, switch, over):
            return


async def _revived(arm: str, server: RunningServer, tell: Tell, switch: Switch, over: threading.Event) -> bool:
    while server.may_restart and not switch.draining:
        try:
            took_s = await asyncio.to_thread(server.restart, lambda: over.is_set() or switch.draining)
        except LaunchError as error:
            if over.is_set() or switch.draining:
                return False
            tell("engine_died", f"{error.what}: {error.why}", arm, log_tail=list(error.log_tail))
        else:
            tell("engine_restarted", f"restart {server.restarts}: ready after {took_s:.0f} s", arm, took_s=took_s)
            return True
    if not switch.draining:
        tell("engine_given_up", f"it died once more than the {server.restarts} restarts its build allows", arm)
        switch.drain("engine_gone")
    return False


def _sentence(death: Death) -> str:
    lines = " | ".join(death.log_tail[-SHOWN_LINES:])
    return f"the engine died after {death.served_s:.0f} s: {death.why}; its last lines: {lines or '(none)'}"


def _details(death: Death) -> dict[str, object]:
    return {"why": death.why, "code": death.code, "served_s": death.served_s, "log_tail": list(death.log_tail)}
