"""The cells of a grid: which combinations are tried, which answers are evidence, and what each came to. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import product, zip_longest

import msgspec

from soak.facts import CLASSES, Case, Change, EngineChange, Grid, GridCell, GridLevel, Trial
from soak.facts.scenario import FailureClass
from soak.probe.outcomes import answer_of, silence_is_asked, telling
from soak.stats import wilson

FIRST_REPEAT = 1
"""Repeats are counted from here: repeat 0 has the seed with which the turn was chosen because it failed."""


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """One combination: the place of its level in each factor, and what that changes in all."""

    levels: tuple[int, ...]
    engine: EngineChange
    change: Change


Answers = Mapping[tuple[int, int], Sequence[Trial]]
"""Trials by the places of turn and cell."""


def cells_of(grid: Grid) -> tuple[Cell, ...]:
    """Return the combinations that a grid tries, those of one server state together, in the order of the states."""
    places = [range(len(factor.levels)) for factor in grid.factors]
    if grid.design == "full":
        chosen = list(product(*places))
    else:
        base = (0,) * len(places)
        chosen = [base, *((*base[:at], one, *base[at + 1 :]) for at, some in enumerate(places) for one in some[1:])]
    cells = [_cell(grid, levels) for levels in chosen]
    states = list(dict.fromkeys(msgspec.json.encode(cell.engine) for cell in cells))
    return tuple(sorted(cells, key=lambda cell: states.index(msgspec.json.encode(cell.engine))))


def _cell(grid: Grid, places: tuple[int, ...]) -> Cell:
    levels = [factor.levels[place] for factor, place in zip(grid.factors, places, strict=True)]
    return Cell(levels=places, engine=_engine(levels), change=_change(levels))


def _engine(levels: Sequence[GridLevel]) -> EngineChange:
    parts = [level.engine for level in levels]
    return EngineChange(
        speculation=next((part.speculation for part in parts if part.speculation is not None), None),
        prefix_cache=next((part.prefix_cache for part in parts if part.prefix_cache is not None), None),
        eager=next((part.eager for part in parts if part.eager is not None), None),
        flags=tuple(flag for part in parts for flag in part.flags),
        environment={name: value for part in parts for name, value in part.environment.items()},
    )


def _change(levels: Sequence[GridLevel]) -> Change:
    parts = [level.change for level in levels]
    return Change(
        sampling={name: value for part in parts for name, value in part.sampling.items()},
        salted=any(part.salted for part in parts),
        in_flight=max(part.in_flight for part in parts),
    )


def drawn(case: Case, change: Change) -> bool:
    """Whether tokens are drawn by chance: not at temperature 0, nor where only the likeliest one may be taken."""
    temperature = change.sampling.get("temperature", case.sampling.temperature)
    return temperature != 0 and change.sampling.get("top_k", case.sampling.top_k) != 1


def evidence(case: Case, change: Change, trials: Sequence[Trial], fails: FailureClass = "any_failure") -> list[bool]:
    """
    Return, for each answer that counts, whether it is of the class `fails`.

    Each seed counts once. Where nothing is drawn each different answer counts once: the same answer again was forced.
    What was not answered counts only where that is asked about.
    """
    return [bad for bad in _column(case, change, trials, fails) if bad is not None]


def _column(case: Case, change: Change, trials: Sequence[Trial], fails: FailureClass) -> list[bool | None]:
    """Return the outcomes in the order of the repeats; None holds the place of a seed that was not answered."""
    by_chance = drawn(case, change)
    counted = _telling(case, trials, fails)
    keys = [_key(trial, by_chance) for trial in (trials if by_chance else counted)]
    by_key = {_key(trial, by_chance): failed(trial, fails) for trial in reversed(counted)}
    return [by_key.get(key) for key in dict.fromkeys(keys)]


def _key(trial: Trial, by_chance: bool) -> object:
    return trial.seed if by_chance else answer_of(trial.observation)


def _telling(case: Case, trials: Sequence[Trial], fails: FailureClass) -> list[Trial]:
    return telling(trials, silence_fails=silence_is_asked(case, fails))


def failed(trial: Trial, fails: FailureClass) -> bool:
    """Whether an answer is of this class; one that could not be judged is an error."""
    class_ = trial.judgement.class_ if trial.judgement else "error"
    return class_ != "ok" if fails == "any_failure" else class_ == fails


def blocks_of(
    cases: Sequence[Case], cells: Sequence[Cell], answers: Answers, fails: FailureClass = "any_failure"
) -> list[list[bool | None]]:
    """
    Return what a test may permute: for each turn and repeat the outcome in each cell, None where there is none.

    Repeat i has the same seed in every cell, so that a block holds what one turn came to with one seed. Of answers that
    were not drawn the i-th different one stands for the i-th repeat.
    """
    blocks: list[list[bool | None]] = []
    for turn, case in enumerate(cases):
        columns = [_column(case, cell.change, answers[turn, place], fails) for place, cell in enumerate(cells)]
        blocks += [list(row) for row in zip_longest(*columns) if any(bad is not None for bad in row)]
    return blocks


def outcomes_by_cell(
    grid: Grid, cases: Sequence[Case], cells: Sequence[Cell], answers: Answers
) -> tuple[GridCell, ...]:
    """Return what each cell came to over all turns, in the order of the grid's levels."""
    found = [
        (cell, _outcome(grid, cell, [(case, answers[turn, place]) for turn, case in enumerate(cases)]))
        for place, cell in enumerate(cells)
    ]
    return tuple(outcome for _, outcome in sorted(found, key=lambda one: one[0].levels))


def _outcome(grid: Grid, cell: Cell, by_turn: Sequence[tuple[Case, Sequence[Trial]]]) -> GridCell:
    counted = [bad for case, trials in by_turn for bad in evidence(case, cell.change, trials, grid.fails)]
    trials = [trial for _, some in by_turn for trial in some]
    told = [trial for case, some in by_turn for trial in _telling(case, some, grid.fails)]
    classes = Counter(trial.judgement.class_ if trial.judgement else "error" for trial in trials)
    interval = wilson(sum(counted), len(counted))
    return GridCell(
        levels={
            factor.label: factor.levels[place].text for factor, place in zip(grid.factors, cell.levels, strict=True)
        },
        server=cell.engine.text,
        asked=len(trials),
        counted=len(counted),
        failed=sum(counted),
        low=interval.low if interval else 0.0,
        high=interval.high if interval else 1.0,
        classes={name: classes[name] for name in CLASSES if classes[name]},
        distinct=len({(trial.case, answer_of(trial.observation)) for trial in told}),
        unanswered=len(trials) - len(told),
    )
