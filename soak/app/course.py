"""
The course of a run: its phases one after the other, each with the arms that are up in it, in one history.

Most runs have one phase. With `--arm-order sequential` or ABA each arm has its own: its server is started, sent every
planned turn, and stopped before the next begins.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from soak.app.audience import Audience, Opening
from soak.app.order import Phase
from soak.app.sides import Side
from soak.app.sitting import NEXT, Sitting
from soak.check import Watcher
from soak.facts import ConversationKey, Event, Scenario, TurnKey
from soak.plan import Plan
from soak.replay import PastTurn, RealClock, Tally
from soak.store import History, HistoryWriter, RunFolder


@dataclass(frozen=True, kw_only=True)
class Earlier:
    """
    What a phase goes on from: turns done, conversations over, starts and time used before it.

    `resumed`: an earlier sitting may have left conversations half way. `news` is told once the run has opened.
    """

    done: frozenset[TurnKey] = frozenset()
    over: frozenset[ConversationKey] = frozenset()
    starts: Mapping[TurnKey, int] = field(default_factory=dict)
    used_s: float = 0.0
    tally: Tally = field(default_factory=Tally)
    decider: Watcher | None = None
    resumed: bool = False
    news: tuple[Event, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Course:
    """
    All that a run goes through.

    `plan` is the whole plan, of all arms; `open_phase` starts what a phase needs; `begin` makes or updates the run
    folder once its sides are known, and says what to go on from; `sit` runs one sitting and returns its state.
    `corpus_path` is where the corpus was read.
    """

    scenario: Scenario
    plan: Plan
    phases: tuple[Phase, ...]
    audience: Audience
    open_phase: Callable[[Phase], AbstractContextManager[tuple[Side, ...]]]
    begin: Callable[[tuple[Side, ...]], tuple[RunFolder, Earlier]]
    sit: Callable[[Sitting], str]
    corpus_path: Path = Path()

    def follow(self) -> RunFolder:
        """Go through the phases until the run ends and return its folder; raises `SoakError`."""
        opened = False
        try:
            for place, phase in enumerate(self.phases):
                with self.open_phase(phase) as sides:
                    folder, earlier = self.begin(sides)
                    with folder.writer() as writer, _past(folder, resumed=earlier.resumed) as past:
                        sitting = self._sitting(sides, earlier, writer, past, more=place + 1 < len(self.phases))
                        if not opened:
                            opened = True
                            self._open(folder, earlier)
                        state = self.sit(sitting)
                if state != NEXT:
                    break
        finally:
            if opened:
                self.audience.closing()
        return folder

    def _open(self, folder: RunFolder, earlier: Earlier) -> None:
        self.audience.opening(
            Opening(
                folder=folder.path,
                scenario=self.scenario,
                manifest=folder.manifest,
                planned_turns=self.plan.size[0] * len(self.plan.arms) if self.plan.size else None,
                used_s=earlier.used_s,
                done=len(earlier.done),
            )
        )
        for event in earlier.news:
            self.audience.event(event)

    def _sitting(
        self,
        sides: tuple[Side, ...],
        earlier: Earlier,
        writer: HistoryWriter,
        past: Callable[[TurnKey], PastTurn | None],
        *,
        more: bool,
    ) -> Sitting:
        return Sitting(
            scenario=self.scenario,
            plan=msgspec.structs.replace(self.plan, arms=tuple(side.name for side in sides)),
            sides=sides,
            writer=writer,
            audience=self.audience,
            clock=RealClock(),
            done=earlier.done,
            over=earlier.over,
            past=past,
            starts=earlier.starts,
            used_s=earlier.used_s,
            tally=earlier.tally,
            decider=earlier.decider,
            more=more,
            corpus_path=self.corpus_path,
        )


@contextmanager
def _past(folder: RunFolder, *, resumed: bool) -> Iterator[Callable[[TurnKey], PastTurn | None]]:
    """Yield what tells how a turn of an earlier sitting ended; nothing did in a run that has just begun."""
    if not resumed:
        yield lambda _: None
        return
    with folder.history() as history:
        yield lambda key: past_turn(history, key)


def past_turn(history: History, key: TurnKey) -> PastTurn | None:
    """Return how a turn was finished or skipped, and the prefix it had; None if it has not come to that."""
    record = history.final_of(key)
    if record is None:
        return None
    started = history.started(key)
    return PastTurn(None if started is None else started.prefix, record)
