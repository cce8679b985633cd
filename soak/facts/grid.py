"""A grid: settings of the server and of the request tried in combination, and what came of it."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
from annotated_types import Gt, Le, MinLen

from soak.facts.build_file import Word
from soak.facts.case import Change, EngineChange
from soak.facts.finding import TurnClass
from soak.facts.scenario import FailureClass
from soak.facts.summary import Summary

GRID_CELLS_MAX = 64
"""Cells of one grid: with more, a table is no longer read and starting servers takes the day."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GridFile:
    """
    The content of one grid file.

    about: one sentence on what it asks. design: full tries every combination of levels; one_at_a_time the first level
    of each factor, and then each other level alone. repeats: how often each cell asks each turn. starts: how often
    each server is started, the repeats spread over its starts. fails: the class of answers that is asked about.
    factors: levels by name (see `soak.scenario.grids`).
    """

    __pydantic_config__ = {"extra": "forbid", "allow_inf_nan": False}  # noqa: RUF012 - pydantic's own spelling

    about: Word
    design: Literal["full", "one_at_a_time"] = "full"
    repeats: Annotated[int, Gt(0), Le(1000)] = 20
    starts: Annotated[int, Gt(0), Le(20)] = 1
    fails: FailureClass = "any_failure"
    factors: Annotated[dict[str, Annotated[tuple[Any, ...], MinLen(1)]], MinLen(1)]


class GridLevel(msgspec.Struct, frozen=True, kw_only=True):
    """One level of a factor: what a person reads, and what it changes; a level that changes nothing is "as it was"."""

    text: str
    engine: EngineChange = EngineChange()
    change: Change = Change()


class GridFactor(msgspec.Struct, frozen=True, kw_only=True):
    """A setting with its levels; the first is where the others are compared with. `label` is its short name."""

    name: str
    label: str
    levels: tuple[GridLevel, ...]


class Grid(msgspec.Struct, frozen=True, kw_only=True):
    """A checked grid file, named after it."""

    name: str
    design: Literal["full", "one_at_a_time"]
    repeats: int
    starts: int
    factors: tuple[GridFactor, ...]
    fails: FailureClass = "any_failure"


class GridCell(msgspec.Struct, frozen=True, kw_only=True):
    """
    What one cell came to over all turns.

    `levels` by factor. Of `asked` answers `counted` are evidence: each seed counts once, and where nothing is drawn
    (temperature 0) each different answer once. `unanswered` never came and are no evidence (where an error is asked
    about they are counted, and this is 0). `failed` of those counted are of the class asked about, with the 95 %
    interval (Wilson) of that rate, 0 to 1 where none counts; `classes` are of all asked, `distinct` the different
    answers.
    """

    levels: dict[str, str]
    server: str
    asked: int
    counted: int
    failed: int
    low: float
    high: float
    classes: dict[TurnClass, int]
    distinct: int
    unanswered: int = 0


class GridSide(msgspec.Struct, frozen=True, kw_only=True):
    """Cells that meet a condition, in words, and how many counted answers of theirs failed."""

    text: str
    failed: int
    counted: int


class GridQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """
    One factor, or two together, asked about: where failures gather most clearly, and how likely luck does as much.

    `sides`: the cells that meet the condition, then the others (for two factors split by how many of them they meet).
    `p_adjusted` is `p_value` corrected for all the questions asked.
    """

    factors: tuple[str, ...]
    name: str
    sides: tuple[GridSide, ...]
    p_value: float
    p_adjusted: float


class GridFound(msgspec.Struct, frozen=True, kw_only=True):
    """
    What a grid found: `soak.grid/1`. `fails` is the class asked about.

    outcome: found (`factors` and `name` say what failures go with, `p_adjusted` the chance that luck alone does as
    much), nothing (no failure in any cell; `upper95` bounds the rate), or undecided (`repeats_needed` in each cell
    would show it, if the rates are those seen; None: they do not differ).
    """

    schema: str = "soak.grid/1"
    grid: str
    turns: tuple[str, ...]
    repeats: int
    fails: FailureClass
    outcome: Literal["found", "nothing", "undecided"]
    factors: tuple[str, ...] = ()
    name: str | None = None
    p_adjusted: float | None = None
    upper95: float | None = None
    repeats_needed: int | None = None
    cells: tuple[GridCell, ...]
    questions: tuple[GridQuestion, ...]
    untried: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    text: str


class GriddedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run, and the grid over turns that failed in it; None where none failed or the run did not come to its end."""

    schema: str = "soak.gridded-run/1"
    summary: Summary
    grid: GridFound | None
