"""The cells of a grid, what counts as evidence in them, and the sentence it ends in."""

from pathlib import Path

import msgspec
import pytest
from rigs.grids import CASE, a_grid, a_trial, said_of

from soak.facts import Change, EngineChange, Grid
from soak.probe import Cell, cells_of, found_by_grid
from soak.probe.cells import blocks_of, evidence
from soak.probe.factors import questions_of
from soak.scenario import find_grid

TWO = "factors:\n  speculation: [as_built, off]\n  prefix_cache: [as_built, off]\n"


@pytest.fixture
def two(tmp_path: Path) -> Grid:
    """A grid of speculation and prefix cache."""
    return a_grid(tmp_path, TWO)


def pair(cell: Cell) -> float:
    return 0.35 if cell.levels[:2] == (0, 0) else 0.0


def test_cells_that_need_the_same_server_stand_together() -> None:
    """The default grid has eight cells and four servers; what a level changes is merged over the factors."""
    cells = cells_of(find_grid("default"))
    states = [cell.engine for cell in cells]
    assert len(cells) == 8
    assert [states[at] == states[at + 1] for at in range(0, 8, 2)] == [True] * 4
    assert cells[-1].engine == EngineChange(speculation=False, prefix_cache=False)
    assert [cell.change.text for cell in cells[:2]] == ["as asked", "temperature=0"]


def test_flags_and_environment_are_added_up(tmp_path: Path) -> None:
    """Levels of flags and variables of several factors all reach the server, and so do those of the request."""
    grid = a_grid(
        tmp_path,
        "factors:\n  flags.batch: [[--max-num-seqs=2], [--max-num-seqs=8]]\n  flags.other: [[--x]]\n"
        '  environment.A: ["1"]\n  environment.B: ["2"]\n  salted: [on]\n  in_flight: [4]\n  sampling.top_k: [1]\n',
    )
    assert cells_of(grid)[0].engine == EngineChange(flags=("--max-num-seqs=2", "--x"), environment={"A": "1", "B": "2"})
    assert cells_of(grid)[0].change == Change(sampling={"top_k": 1}, salted=True, in_flight=4)


def test_the_same_answer_again_is_no_evidence_where_nothing_is_drawn() -> None:
    """At temperature 0 twenty equal answers count once; drawn with twenty seeds they count twenty times."""
    same = [a_trial(k, bad=True, text="the the the") for k in range(20)]
    assert evidence(CASE, Change(sampling={"temperature": 0}), same) == [True]
    assert evidence(CASE, Change(sampling={"top_k": 1}), same) == [True]
    assert evidence(CASE, Change(), same) == [True] * 20
    assert evidence(CASE, Change(), [a_trial(k, bad=True, seed=1) for k in range(5)]) == [True]
    mixed = [*same, a_trial(20, bad=False)]
    assert evidence(CASE, Change(sampling={"temperature": 0}), mixed) == [True, False]


def test_a_block_is_one_turn_and_one_seed() -> None:
    """Blocks have an outcome for each cell, and none where an answer that was not drawn came again."""
    grid = find_grid("default")
    cells = cells_of(grid)
    answers = {
        (0, place): [a_trial(k, bad=False, text="same" if cell.change.sampling else None) for k in range(3)]
        for place, cell in enumerate(cells)
    }
    blocks = blocks_of([CASE], cells, answers)
    assert blocks[0] == [False] * 8
    assert blocks[1] == blocks[2] == [False, None] * 4
    outcome = found_by_grid(grid, [CASE], cells, answers, repeats=3)
    assert [(cell.asked, cell.counted, cell.distinct) for cell in outcome.cells[:2]] == [(3, 3, 3), (3, 1, 1)]


def test_two_factors_are_named_together(two: Grid) -> None:
    """The sentence counts both, one of them, and neither, and says what luck could do."""
    found = said_of(two, pair, seed=1)
    assert (found.outcome, found.name, found.factors) == ("found", "cache × speculation", ("cache", "speculation"))
    with_both = next(cell.failed for cell in found.cells if set(cell.levels.values()) == {"as built"})
    assert found.text.startswith(
        f"fails in {with_both} of 20 with speculation and prefix cache, 0 of 40 with one of them, 0 of 20 without"
        " either: cache × speculation; luck alone does as much with a probability of 0."
    )
    assert found.p_adjusted is not None
    assert found.p_adjusted <= 0.05
    assert any("started once" in note for note in found.notes)


def test_one_factor_is_named_alone(two: Grid) -> None:
    """A fault that needs speculation only is named so, whatever the cache does."""
    found = said_of(two, lambda cell: 0.35 * (cell.levels[0] == 0), seed=2)
    assert found.name == "speculation"
    assert " of 40 with speculation, 0 of 40 without: speculation;" in found.text


def test_nothing_found_is_told_with_its_bound(two: Grid) -> None:
    """Without a failure the sentence says in how many answers, and below which rate with 95 %."""
    found = said_of(two, lambda _: 0.0)
    assert (found.outcome, found.name) == ("nothing", None)
    assert found.text == (
        "nothing found in 80: no answer failed in any cell; the rate is below 0.037 with 95 %, in each cell alone below"
        " 0.14"
    )


def test_too_little_is_undecided_with_what_it_needs(two: Grid) -> None:
    """Three failures decide nothing; the sentence says how many repeats would."""
    found = said_of(two, pair, repeats=4, seed=4)
    assert found.outcome == "undecided"
    assert found.repeats_needed is not None
    assert 4 < found.repeats_needed < 40
    assert f"about {found.repeats_needed} repeats in each cell would settle it" in found.text


def test_the_repeats_it_asks_for_are_enough(two: Grid) -> None:
    """At the rates that were seen the repeats asked for name the setting in three of four grids and more."""
    weak = said_of(two, lambda cell: 0.25 * (cell.levels[0] == 0), repeats=6, seed=2)
    assert weak.outcome == "undecided"
    assert weak.repeats_needed is not None
    side = next(one for one in weak.questions if one.name == "speculation").sides
    rates = [one.failed / one.counted for one in side]
    assert [round(rate, 2) for rate in rates] == [0.25, 0.0]
    named = [
        said_of(two, lambda cell: rates[cell.levels[0]], repeats=weak.repeats_needed, seed=seed).name
        for seed in range(12)
    ]
    assert named.count("speculation") >= 9


def test_one_class_can_be_asked_about(two: Grid) -> None:
    """With `fails: early_stop` loops are no failures, and the sentence names the class."""
    stops = msgspec.structs.replace(two, fails="early_stop")
    assert said_of(stops, lambda _: 0.5).text.startswith("nothing found in 80: no answer is early_stop in any cell")
    loops = said_of(msgspec.structs.replace(two, fails="garbage_loop"), pair, seed=1)
    assert loops.text.startswith("is garbage_loop in ")
    assert loops.name == "cache × speculation"


def test_failing_everywhere_is_no_settings_fault(two: Grid) -> None:
    """A turn that fails in every cell alike names nothing, and the note says that it fails without them too."""
    found = said_of(two, lambda _: 0.5, seed=3)
    assert found.outcome == "undecided"
    assert any("it also fails with every setting at another level" in note for note in found.notes)


def test_levels_in_order_are_split_where_failures_begin(tmp_path: Path) -> None:
    """Of depths 1, 2, 3 and off a fault from depth 2 on is told by the depths that have it."""
    grid = a_grid(
        tmp_path, "factors:\n  speculation: [off, {num_speculative_tokens: [1, 2, 3]}]\n  in_flight: [1, 8]\n"
    )
    found = said_of(grid, lambda cell: 0.5 * (cell.levels[0] >= 2), seed=6)
    assert found.name == "speculation"
    side = next(one for one in found.questions if one.name == "speculation").sides[0]
    assert side.text == "at speculation num_speculative_tokens=2 or num_speculative_tokens=3"


def test_concurrency_is_told_by_how_many_are_in_flight(tmp_path: Path) -> None:
    """A fault that needs others in flight is named concurrency, with the number."""
    found = said_of(a_grid(tmp_path, TWO + "  in_flight: [1, 8]\n"), lambda cell: 0.35 * (cell.levels[2] == 1), seed=7)
    assert found.name == "concurrency"
    assert "at concurrency 8, 0 of 80 at concurrency 1: concurrency" in found.text


def test_cells_left_out_take_their_questions_with_them(two: Grid) -> None:
    """Where a factor has one level left nothing is asked about it; of one cell nothing at all."""
    cells = [cell for cell in cells_of(two) if cell.engine.prefix_cache is None]
    assert [question.factors for question in questions_of(two, cells)] == [(0,)]
    assert questions_of(two, cells[:1]) == []


def test_turns_are_strata(two: Grid) -> None:
    """A turn that always fails and one that never does are no evidence; one that fails with a setting is."""
    cases = [msgspec.structs.replace(CASE, name=f"e:{at}:0:a") for at in range(3)]
    cells = cells_of(two)
    answers = {
        (turn, place): [a_trial(k, bad=turn == 0 or (turn == 2 and cell.levels[0] == 0), case=case) for k in range(10)]
        for turn, case in enumerate(cases)
        for place, cell in enumerate(cells)
    }
    assert found_by_grid(two, cases, cells, answers, repeats=10).name == "speculation"
    without = {(turn, place): trials for (turn, place), trials in answers.items() if turn < 2}
    assert found_by_grid(two, cases[:2], cells, without, repeats=10).outcome == "undecided"
