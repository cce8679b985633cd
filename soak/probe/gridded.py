"""What a grid found, in one sentence and a table's worth of facts. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from soak.facts import Case, Grid, GridCell, GridFound, GridSide
from soak.facts.scenario import FailureClass
from soak.probe.cells import Answers, Cell, blocks_of, evidence, outcomes_by_cell
from soak.probe.factors import Answer, answers_to, clearest, named, questions_of, repeats_needed, unsettled
from soak.stats import upper_bound

_ENGINE = ("speculation", "prefix_cache", "eager", "flags", "environment")


@dataclass(frozen=True, kw_only=True)
class _Reading:
    """
    All that the sentence is made of: each cell's outcome, the blocks, and what they say to each question.

    `cells` are those that were answered; blocks and questions are about these, `outcomes` are of all.
    """

    grid: Grid
    repeats: int
    cells: Sequence[Cell]
    outcomes: Sequence[GridCell]
    blocks: Sequence[Sequence[bool | None]]
    answers: Sequence[Answer]

    @property
    def failed(self) -> int:
        return sum(one.failed for one in self.outcomes)

    @property
    def counted(self) -> int:
        return sum(one.counted for one in self.outcomes)

    @property
    def unanswered(self) -> int:
        return sum(one.unanswered for one in self.outcomes)

    @property
    def comparable(self) -> bool:
        """Whether at least two cells were answered: one alone says nothing of any setting."""
        return len(self.cells) > 1

    @property
    def found(self) -> Answer | None:
        return named(self.answers) if self.failed else None

    @property
    def needed(self) -> int | None:
        near = clearest(self.answers)
        if near is None or not self.failed or self.found is not None:
            return None
        return repeats_needed(near, self.repeats, sum(len(one.question.conditions) for one in self.answers))

    @property
    def outcome(self) -> Literal["found", "nothing", "undecided"]:
        if not self.comparable:
            return "undecided"
        return "nothing" if not self.failed else "found" if self.found else "undecided"


def found_by_grid(
    grid: Grid,
    cases: Sequence[Case],
    cells: Sequence[Cell],
    answers: Answers,
    *,
    repeats: int,
    untried: Sequence[str] = (),
) -> GridFound:
    """
    Return what the answers say: the settings that failures go with, nothing, or that it is undecided.

    `cells` are those that were tried, at least two; `answers` has trials for every turn and cell. A cell of which none
    was answered is told as untried; with fewer than two others it is undecided.
    """
    reading = _read(grid, cases, cells, answers, repeats)
    found = reading.found
    return GridFound(
        grid=grid.name,
        turns=tuple(case.name for case in cases),
        repeats=repeats,
        fails=grid.fails,
        outcome=reading.outcome,
        factors=found.told.factors if found else (),
        name=found.told.name if found else None,
        p_adjusted=found.gathering.p_adjusted if found else None,
        upper95=upper_bound(0, reading.counted) if reading.outcome == "nothing" else None,
        repeats_needed=reading.needed,
        cells=tuple(reading.outcomes),
        questions=tuple(answer.told for answer in reading.answers),
        untried=(*untried, *_silent(reading)),
        notes=(*_unanswered(reading), *(_notes(reading) if reading.failed and reading.comparable else ())),
        text=_sentence(reading),
    )


def _read(grid: Grid, cases: Sequence[Case], cells: Sequence[Cell], answers: Answers, repeats: int) -> _Reading:
    there = [
        place
        for place, cell in enumerate(cells)
        if any(evidence(case, cell.change, answers[turn, place], grid.fails) for turn, case in enumerate(cases))
    ]
    answered = [cells[place] for place in there]
    theirs = {(turn, at): answers[turn, place] for turn in range(len(cases)) for at, place in enumerate(there)}
    blocks = blocks_of(cases, answered, theirs, grid.fails)
    return _Reading(
        grid=grid,
        repeats=repeats,
        cells=answered,
        outcomes=outcomes_by_cell(grid, cases, cells, answers),
        blocks=blocks,
        answers=answers_to(grid, questions_of(grid, answered), blocks) if len(answered) > 1 else [],
    )


def _silent(reading: _Reading) -> Iterator[str]:
    """Yield the cells that gave no evidence at all."""
    for one in reading.outcomes:
        if not one.counted:
            levels = ", ".join(f"{name} {level}" for name, level in one.levels.items())
            yield f"{levels}: asked {one.asked} times and not answered"


def _unanswered(reading: _Reading) -> Iterator[str]:
    if reading.unanswered:
        asked = sum(one.asked for one in reading.outcomes)
        yield f"{reading.unanswered} of {asked} requests were not answered: they are no evidence of what settings do"


def _sentence(reading: _Reading) -> str:
    found, fails = reading.found, reading.grid.fails
    if not reading.comparable:
        number = f"{len(reading.cells)} of {len(reading.outcomes)} cells"
        return f"undecided: only {number} gave answers, so that none can be held against another"
    if not reading.failed:
        return _nothing(reading)
    if found is not None:
        return f"{_verb(fails)} in {_counts(found)}: {found.told.name}; {_luck(found)}"
    return _undecided(reading)


def _verb(fails: FailureClass) -> str:
    return "fails" if fails == "any_failure" else f"is {fails}"


def _nothing(reading: _Reading) -> str:
    pooled = upper_bound(0, reading.counted)
    each = max(upper_bound(one.failed, one.counted) or 1.0 for one in reading.outcomes if one.counted)
    below = "" if pooled is None else f"; the rate is below {pooled:.2g} with 95 %, in each cell alone below {each:.2g}"
    what = "failed" if reading.grid.fails == "any_failure" else f"is {reading.grid.fails}"
    return f"nothing found in {reading.counted}: no answer {what} in any cell{below}"


def _undecided(reading: _Reading) -> str:
    near, needed = clearest(reading.answers), reading.needed
    head = f"undecided: {_verb(reading.grid.fails)} in {reading.failed} of {reading.counted}"
    if near is None:
        return f"{head}, and no two of the cells that were tried can be set against each other"
    tail = (
        "the rates do not differ, so that more repeats would not settle it"
        if needed is None
        else f"at these rates about {needed} repeats in each cell would settle it"
    )
    return f"{head}; clearest is {near.told.name} ({_counts(near)}), but {_luck(near)}; {tail}"


def _counts(answer: Answer) -> str:
    return ", ".join(f"{side.failed} of {side.counted} {side.text}" for side in answer.told.sides)


def _luck(answer: Answer) -> str:
    return f"luck alone does as much with a probability of {answer.gathering.p_adjusted:.2g}"


def _notes(reading: _Reading) -> Iterator[str]:
    grid, found = reading.grid, reading.found
    if found is not None:
        also = unsettled(reading.answers, found)
        if also:
            yield f"whether it needs {', '.join(also)} as well is not settled"
        by_server = any(grid.factors[at].name.partition(".")[0] in _ENGINE for at in found.question.factors)
        if by_server and grid.starts == 1:
            text = "each server was started once: a fault that comes up in one start and stays looks like its settings'"
            yield f"{text}; `starts: 3` in the grid file tells these apart"
    rest = _without_all(reading.cells, reading.blocks)
    if rest is not None and rest.failed:
        yield f"it also fails with every setting at another level: {rest.failed} of {rest.counted}"


def _without_all(cells: Sequence[Cell], blocks: Sequence[Sequence[bool | None]]) -> GridSide | None:
    """Return what the cells that share no level with the first one came to; None if there are none."""
    base = min(cell.levels for cell in cells)
    moved = [at for at in range(len(base)) if len({cell.levels[at] for cell in cells}) > 1]
    far = [all(cell.levels[at] != base[at] for at in moved) for cell in cells]
    seen = [bad for block in blocks for bad, there in zip(block, far, strict=True) if there and bad is not None]
    return GridSide(text="", failed=sum(seen), counted=len(seen)) if seen else None
