"""What a run of any kind listens to besides its turns: signals to end it, and the metrics pages of its servers."""

import asyncio
import signal
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from functools import partial

from soak.app.keeping import Tell
from soak.app.sides import Side
from soak.client import Desk
from soak.facts import EngineSample
from soak.scrape import Crowd, LoneTurns, Reader, poll


@contextmanager
def on_interrupt(act: Callable[[], None]) -> Iterator[None]:
    """Call `act` on each Ctrl-C or SIGTERM during the block; needs a running loop."""
    loop = asyncio.get_running_loop()
    signals: tuple[signal.Signals, ...] = (signal.SIGINT, signal.SIGTERM)
    try:
        for number in signals:
            loop.add_signal_handler(number, act)
    except (ValueError, RuntimeError):
        signals = ()  # not the main thread: whoever runs the loop handles signals
    try:
        yield
    finally:
        for number in signals:
            loop.remove_signal_handler(number)


@asynccontextmanager
async def polling(
    sides: Sequence[Side],
    take: Callable[[EngineSample], None],
    tell: Tell,
    *,
    every_s: float,
    wall_clock: Callable[[], float],
) -> AsyncIterator[dict[str, Reader]]:
    """
    Read every side's metrics page at the start of the block, every few seconds, and at its end.

    Yields what reads them, by arm; only of sides that have a page. A page that gives no reading any more is told, and
    again when it answers.
    """
    stop = asyncio.Event()
    async with AsyncExitStack() as stack:
        tasks, answering = [], {}
        for side in sides:
            desk = await stack.enter_async_context(Desk(side.target))
            reader = Reader(desk.metrics, take, arm=side.name, wall_clock=wall_clock)
            failure = await reader.read()  # a reading before the first turn, come what may
            if failure is None:
                answering[side.name] = reader
            changed = partial(_changed, tell, side.name)
            poller = poll(reader, every_s=every_s, stop=stop, on_change=changed, answered=failure is None)
            tasks.append(asyncio.create_task(poller))
        try:
            yield answering
        finally:
            stop.set()
            await asyncio.gather(*tasks)


@asynccontextmanager
async def lone_turns(sides: Sequence[Side], readers: Mapping[str, Reader]) -> AsyncIterator[dict[str, LoneTurns]]:
    """Yield what takes the readings around lone turns, by arm; arms that send to one server are one crowd."""
    crowds: dict[str, Crowd] = defaultdict(Crowd)
    found = {
        side.name: LoneTurns(readers[side.name], crowds[side.target.base_url]) for side in sides if side.name in readers
    }
    try:
        yield found
    finally:
        for lone in found.values():
            await lone.close()


def _changed(tell: Tell, arm: str, failure: str | None) -> None:
    if failure is None:
        tell("metrics_back", "the engine's metrics page answers again", arm)
    else:
        tell("metrics_silent", f"the engine's metrics page gives no reading any more ({failure})", arm)
