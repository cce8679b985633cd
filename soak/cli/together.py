"""Several views as one audience."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from rich.console import Console

from soak.app.audience import Audience, Opening
from soak.cli.lines import LineView
from soak.cli.live import LiveView
from soak.cli.logs import configure
from soak.facts import EngineSample, Event, Record, Signal, TurnKey

Result = TypeVar("Result")


def under_views(act: Callable[[Audience], Result], *, log_json: bool) -> Result:
    """Return the result of `act`, done under a view."""
    sink = configure(as_json=log_json)
    console = Console(stderr=True, highlight=False)
    views: list[Audience] = [LineView(sink)]
    live = LiveView(console)
    if console.is_terminal and not log_json:
        sink.quiet = True
        views.append(live)
    try:
        return act(Together(views))
    finally:
        live.restore()
        sink.close()


class Together:
    """Passes everything on to each view in turn."""

    def __init__(self, views: Sequence[Audience]) -> None:
        self._views = views

    def preparing(self, step: str, detail: str, elapsed_s: float = 0.0, *, ended: bool = False) -> None:
        """A step before the run."""
        for view in self._views:
            view.preparing(step, detail, elapsed_s, ended=ended)

    def opening(self, opening: Opening) -> None:
        """The run begins."""
        for view in self._views:
            view.opening(opening)

    def started(self, key: TurnKey) -> None:
        """A turn is being sent."""
        for view in self._views:
            view.started(key)

    def signal(self, key: TurnKey, signal: Signal) -> None:
        """Something was noticed in mid-stream."""
        for view in self._views:
            view.signal(key, signal)

    def ended(self, record: Record) -> None:
        """A turn ended."""
        for view in self._views:
            view.ended(record)

    def event(self, event: Event) -> None:
        """Something happened to the run."""
        for view in self._views:
            view.event(event)

    def sample(self, sample: EngineSample) -> None:
        """The engine's metrics were read."""
        for view in self._views:
            view.sample(sample)

    def closing(self) -> None:
        """The run is over."""
        for view in self._views:
            view.closing()
