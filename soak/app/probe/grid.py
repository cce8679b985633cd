"""The grid: turns asked again in every combination of settings, one server after the other."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise

from soak.app.probe.benches import Benches, ProbeOrder, bench_name
from soak.app.probe.kept import kept_of
from soak.errors import EngineError, UsageError
from soak.facts import Case, EngineChange, Grid, GridFound, ProbePlan, Trial, digest_of
from soak.probe import FIRST_REPEAT, Ask, Cell, cells_of, found_by_grid


@dataclass(frozen=True, kw_only=True)
class Tried:
    """The cells of a grid that can be tried, in the order of their servers, and what cannot be, with the reason."""

    cells: tuple[Cell, ...]
    untried: tuple[str, ...]

    @property
    def states(self) -> list[tuple[EngineChange, list[Cell]]]:
        """The cells by the state of the server that they need."""
        return [(state, list(some)) for state, some in groupby(self.cells, key=lambda cell: cell.engine)]


def sort_out(order: ProbeOrder, grid: Grid) -> Tried:
    """Return what of the grid can be tried on this target; raises `UsageError` if that is less than two cells."""
    cells, untried = [], []
    files: dict[str, str] = {}
    for state, some in groupby(cells_of(grid), key=lambda cell: cell.engine):
        together = list(some)
        why = order.incomparable(state) or _same_as_before(order, state, files)
        if why is None:
            cells += together
        else:
            untried.append(f"{state.text} ({_count(len(together), 'cell')}): {why}")
    if len(cells) < 2:
        raise UsageError(
            f"fewer than two cells of the grid {grid.name} can be tried on {order.target.target}",
            why="; ".join(untried) or "it has no other",
            hint="give a build that soak can start in other ways, or a grid of what a request can change",
        )
    return Tried(cells=tuple(cells), untried=tuple(untried))


def plan_grid(
    order: ProbeOrder, grid: Grid, *, repeats: int, title: str, turns: int, max_tokens: int, cases: Sequence[Case] = ()
) -> ProbePlan:
    """
    Return what the grid will send at most to `turns` turns of `max_tokens` each, and how often servers are started.

    `cases` are those turns, once they are known: what is answered already is then counted. Raises `UsageError` if
    fewer than two cells can be tried, `RunFolderError` if what is kept is damaged.
    """
    tried = sort_out(order, grid)
    requests = len(tried.cells) * repeats * turns
    return ProbePlan(
        probe=f"grid {grid.name}",
        case=title,
        requests=requests,
        output_tokens=requests * max_tokens,
        kept=_kept(order, tried, cases, repeats),
        servers=tuple(_server(order, grid, state, len(cells)) for state, cells in tried.states),
        untried=tried.untried,
    )


def probe_grid(order: ProbeOrder, grid: Grid, cases: Sequence[Case], repeats: int, benches: Benches) -> GridFound:
    """
    Return which settings the failures of these turns go with.

    Servers are opened one after the other, each as often as the grid says. One that does not come up leaves its cells
    untried; raises its `LaunchError` or `TargetError` where fewer than two cells are left.
    """
    tried = sort_out(order, grid)
    asking = _Asking(cases=tuple(cases), benches=benches)
    for repeat_range in _shares(repeats, min(grid.starts, repeats)):
        for state, cells in tried.states:
            if state.text not in asking.lost:
                asking.ask(state, cells, repeat_range)
    cells = [cell for cell in tried.cells if cell.engine.text not in asking.lost]
    if len(cells) < 2:
        raise next(iter(asking.lost.values()))
    untried = (*tried.untried, *(f"{state}: {error.what}" for state, error in asking.lost.items()))
    answers = {
        (turn, place): tuple(asking.answers[turn, cell.levels])
        for turn in range(len(cases))
        for place, cell in enumerate(cells)
    }
    return found_by_grid(grid, cases, cells, answers, repeats=repeats, untried=untried)


@dataclass(kw_only=True)
class _Asking:
    """What was answered so far, by turn and levels; `lost`: the servers that did not come up, by state."""

    cases: tuple[Case, ...]
    benches: Benches
    answers: dict[tuple[int, tuple[int, ...]], list[Trial]] = field(default_factory=dict)
    lost: dict[str, EngineError] = field(default_factory=dict)

    def ask(self, state: EngineChange, cells: Sequence[Cell], repeats: range) -> None:
        """Ask every turn in these cells, whose server is in this state; none is opened where all is kept."""
        asks = [
            (turn, cell, Ask(case=case, change=cell.change, repeats=len(repeats), first=repeats.start))
            for turn, case in enumerate(self.cases)
            for cell in cells
        ]
        kept = [self.benches.kept(state, ask) for *_, ask in asks]
        if None in kept:
            try:
                kept = list(self._asked(state, asks))
            except EngineError as error:
                self.lost[state.text] = error
                return
        for (turn, cell, _), trials in zip(asks, kept, strict=True):
            self.answers.setdefault((turn, cell.levels), []).extend(trials or ())

    def _asked(self, state: EngineChange, asks: Sequence[tuple[int, Cell, Ask]]) -> Iterator[tuple[Trial, ...]]:
        with self.benches.open(state) as bench:
            bench.check(state)
            for _, cell, ask in asks:
                began = time.monotonic()
                (trials,) = bench.asker.ask(ask)
                text = f"{ask.case.name} · {state.text} · {cell.change.text}: {_count(ask.repeats, 'repeat')}"
                self.benches.audience.preparing("asked", text, time.monotonic() - began, ended=True)
                yield trials


def _shares(repeats: int, starts: int) -> list[range]:
    """Return the repeats in as many even parts as servers are started."""
    borders = [FIRST_REPEAT + repeats * part // starts for part in range(starts + 1)]
    return [range(low, high) for low, high in pairwise(borders)]


def _same_as_before(order: ProbeOrder, state: EngineChange, files: dict[str, str]) -> str | None:
    """Return that a build started so is one that is there already, and note it otherwise."""
    build = order.spec(state).build
    if build is None or build.file.engine == "url":
        return None
    before = files.setdefault(digest_of(build.file), state.text)
    return None if before == state.text else f"it would be the same server as {before}"


def _kept(order: ProbeOrder, tried: Tried, cases: Sequence[Case], repeats: int) -> int:
    asks = (
        (bench_name(order.spec(cell.engine)), Ask(case=case, change=cell.change, repeats=repeats, first=FIRST_REPEAT))
        for case in cases
        for cell in tried.cells
    )
    return kept_of(order, asks) if cases else 0


def _server(order: ProbeOrder, grid: Grid, state: EngineChange, cells: int) -> str:
    how = f"started {_count(grid.starts, 'time')}" if order.spec(state).launched else "runs already"
    return f"{state.text}, {how}: {_count(cells, 'cell')}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
