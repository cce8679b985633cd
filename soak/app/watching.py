"""What a run of any kind listens to besides its turns: signals to end it, and the metrics pages of its servers."""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from functools import partial

from soak.app.keeping import Tell
from soak.app.sides import Side
from soak.client import Desk
from soak.facts import EngineSample
from soak.scrape import parse_metrics, poll


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
) -> AsyncIterator[None]:
    """
    Read every side's metrics page at the start of the block, every few seconds, and at its end.

    A page that gives no reading any more is told, and again when it answers.
    """
    stop = asyncio.Event()
    async with AsyncExitStack() as stack:
        tasks = []
        for side in sides:
            desk = await stack.enter_async_context(Desk(side.target))
            if (page := await desk.metrics()) is not None:  # a reading before the first turn, come what may
                take(parse_metrics(page, arm=side.name, at=wall_clock()))
            poller = poll(
                desk.metrics,
                take,
                arm=side.name,
                every_s=every_s,
                wall_clock=wall_clock,
                stop=stop,
                on_change=partial(_changed, tell, side.name),
                answered=page is not None,
            )
            tasks.append(asyncio.create_task(poller))
        try:
            yield
        finally:
            stop.set()
            await asyncio.gather(*tasks)


def _changed(tell: Tell, arm: str, failure: str | None) -> None:
    if failure is None:
        tell("metrics_back", "the engine's metrics page answers again", arm)
    else:
        tell("metrics_silent", f"the engine's metrics page gives no reading any more ({failure})", arm)
