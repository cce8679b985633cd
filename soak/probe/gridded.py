"""What a grid found, in one sentence and a table's worth of facts. Pure."""

from collections.abc import Sequence

from soak.facts import Case, Grid, GridFound, GridSide
from soak.facts.scenario import FailureClass
from soak.probe.cells import Answers, Cell, blocks_of, outcomes_by_cell
from soak.probe.factors import Answer, answers_to, clearest, named, questions_of, repeats_needed, unsettled
from soak.stats import upper_bound

_ENGINE = ("speculation", "prefix_cache", "eager", "flags", "environment")


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

    `cells` are those that were tried, at least two; `answers` has trials for every turn and cell.
    """
    outcomes = outcomes_by_cell(grid, cases, cells, answers)
    blocks = blocks_of(cases, cells, answers, grid.fails)
    questions = questions_of(grid, cells)
    told = answers_to(grid, questions, blocks)
    failed, counted = sum(one.failed for one in outcomes), sum(one.counted for one in outcomes)
    found = named(told) if failed else None
    near = clearest(told)
    needed = (
        repeats_needed(near, repeats, sum(len(one.conditions) for one in questions))
        if failed and near and found is None
        else None
    )
    each = [bound for one in outcomes if (bound := upper_bound(one.failed, one.counted)) is not None]
    if not failed:
        text = _nothing(grid.fails, counted, upper_bound(0, counted), max(each))
    elif found is not None:
        text = f"{_verb(grid.fails)} in {_counts(found)}: {found.told.name}; {_luck(found)}"
    else:
        text = _undecided(grid.fails, failed, counted, near, needed)
    return GridFound(
        grid=grid.name,
        turns=tuple(case.name for case in cases),
        repeats=repeats,
        fails=grid.fails,
        outcome="nothing" if not failed else "found" if found else "undecided",
        factors=found.told.factors if found else (),
        name=found.told.name if found else None,
        p_adjusted=found.gathering.p_adjusted if found else None,
        upper95=None if failed else upper_bound(0, counted),
        repeats_needed=needed,
        cells=outcomes,
        questions=tuple(answer.told for answer in told),
        untried=tuple(untried),
        notes=tuple(_notes(grid, cells, blocks, told, found)) if failed else (),
        text=text,
    )


def _verb(fails: FailureClass) -> str:
    return "fails" if fails == "any_failure" else f"is {fails}"


def _nothing(fails: FailureClass, counted: int, pooled: float | None, each: float) -> str:
    below = "" if pooled is None else f"; the rate is below {pooled:.2g} with 95 %, in each cell alone below {each:.2g}"
    what = "failed" if fails == "any_failure" else f"is {fails}"
    return f"nothing found in {counted}: no answer {what} in any cell{below}"


def _undecided(fails: FailureClass, failed: int, counted: int, near: Answer | None, needed: int | None) -> str:
    head = f"undecided: {_verb(fails)} in {failed} of {counted}"
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


def _notes(
    grid: Grid,
    cells: Sequence[Cell],
    blocks: Sequence[Sequence[bool | None]],
    told: Sequence[Answer],
    found: Answer | None,
) -> list[str]:
    notes = []
    if found is not None:
        also = unsettled(told, found)
        notes += [f"whether it needs {', '.join(also)} as well is not settled"] if also else []
        by_server = any(grid.factors[at].name.partition(".")[0] in _ENGINE for at in found.question.factors)
        if by_server and grid.starts == 1:
            text = "each server was started once: a fault that comes up in one start and stays looks like its settings'"
            notes.append(f"{text}; `starts: 3` in the grid file tells these apart")
    rest = _without_all(cells, blocks)
    if rest is not None and rest.failed:
        notes.append(f"it also fails with every setting at another level: {rest.failed} of {rest.counted}")
    return notes


def _without_all(cells: Sequence[Cell], blocks: Sequence[Sequence[bool | None]]) -> GridSide | None:
    """Return what the cells that share no level with the first one came to; None if there are none."""
    base = min(cell.levels for cell in cells)
    moved = [at for at in range(len(base)) if len({cell.levels[at] for cell in cells}) > 1]
    far = [all(cell.levels[at] != base[at] for at in moved) for cell in cells]
    seen = [bad for block in blocks for bad, there in zip(block, far, strict=True) if there and bad is not None]
    return GridSide(text="", failed=sum(seen), counted=len(seen)) if seen else None
