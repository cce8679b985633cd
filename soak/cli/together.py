"""Several views as one audience."""

from collections.abc import Sequence

from soak.app.audience import Audience, Opening
from soak.facts import EngineSample, Event, Record, Signal, TurnKey


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
