"""Who is told what happens during a run: the live view, log lines, or a test."""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from soak.facts import EngineSample, Manifest, Scenario
from soak.replay import Listener


@dataclass(frozen=True, kw_only=True)
class Opening:
    """A run is about to begin (or go on): where it is kept, what is run, how much is planned and already used."""

    folder: Path
    scenario: Scenario
    manifest: Manifest
    planned_turns: int | None
    used_s: float = 0.0
    done: int = 0


class Preparing(Protocol):
    """Who hears of the steps before there is a server to ask; must not raise."""

    def preparing(self, step: str, detail: str, elapsed_s: float = 0.0, *, ended: bool = False) -> None:
        """
        A step before the run: making an environment, starting a server, asking the target.

        Told when it begins, at most twice a second while it goes on, and with its whole duration when it has ended.
        """
        ...


class Audience(Listener, Preparing, Protocol):
    """A listener that also hears of preparation, engine samples and the opening of a run; must not raise."""

    def opening(self, opening: Opening) -> None:
        """The run begins."""
        ...

    def sample(self, sample: EngineSample) -> None:
        """The engine's metrics were read."""
        ...

    def closing(self) -> None:
        """The run is over; nothing more comes."""
        ...
