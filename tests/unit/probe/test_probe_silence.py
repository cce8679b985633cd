"""What was not answered is no evidence: in cells of a grid, in outcomes, and where greedy answers part."""

from pathlib import Path

import msgspec
import pytest
from rigs.grids import CASE, a_grid, a_silence, a_trial

from soak.facts import Case, Change, Judgement, Trial
from soak.probe import cells_of, divergence_found, found_by_grid, identical_of, outcomes_of, parting_of
from soak.probe.cells import blocks_of, evidence
from soak.report import terminal_grid
from soak.scenario import find_grid

SPECULATION = "factors:\n  speculation: [as_built, off]\n"
SILENT = [a_silence(k) for k in range(6)]
GOOD = [a_trial(k, bad=False) for k in range(6)]
BROKEN = msgspec.structs.replace(CASE, judgement=Judgement(class_="error", reason="http_error"))


def test_a_server_that_never_answers_is_not_what_failures_go_with(tmp_path: Path) -> None:
    """Six refusals against six good answers name nothing: it is undecided, and the silent cell is told as untried."""
    grid = a_grid(tmp_path, SPECULATION)
    found = found_by_grid(grid, [CASE], cells_of(grid), {(0, 0): SILENT, (0, 1): GOOD}, repeats=6)
    assert (found.outcome, found.name, found.upper95) == ("undecided", None, None)
    assert found.text == "undecided: only 1 of 2 cells gave answers, so that none can be held against another"
    silent, good = found.cells
    assert (silent.asked, silent.counted, silent.failed, silent.unanswered, silent.distinct) == (6, 0, 0, 6, 0)
    assert (silent.low, silent.high) == (0.0, 1.0)
    assert (good.counted, good.unanswered) == (6, 0)
    assert found.untried == ("speculation as built: asked 6 times and not answered",)
    shown = terminal_grid(found)
    assert "not answered" in shown
    assert "same answer came again" not in shown


def test_no_cell_answered_is_undecided(tmp_path: Path) -> None:
    """Where every cell is silent the grid says so and does not fail itself."""
    grid = a_grid(tmp_path, SPECULATION)
    found = found_by_grid(grid, [CASE], cells_of(grid), {(0, 0): SILENT, (0, 1): SILENT}, repeats=6)
    assert (found.outcome, len(found.untried)) == ("undecided", 2)
    assert found.notes == ("12 of 12 requests were not answered: they are no evidence of what settings do",)


def test_a_silent_cell_does_not_keep_the_others_from_being_compared(tmp_path: Path) -> None:
    """Of three cells one is silent; the two that answered still say which level the failures go with."""
    grid = a_grid(tmp_path, "factors:\n  sampling.top_k: [as_asked, 20, 40]\n")
    answers = {(0, 0): [a_trial(k, bad=True) for k in range(6)], (0, 1): SILENT, (0, 2): GOOD}
    found = found_by_grid(grid, [CASE], cells_of(grid), answers, repeats=6)
    assert found.outcome == "found"
    assert found.text.startswith("fails in 6 of 6 at")
    assert len(found.untried) == 1


def test_a_silent_repeat_keeps_its_place_among_the_seeds() -> None:
    """Blocks hold one seed each, also where one cell was not answered for an earlier one."""
    cells = cells_of(find_grid("default"))[::2][:2]
    late = [a_silence(0), a_trial(1, bad=True), a_trial(2, bad=False)]
    answers = {(0, 0): late, (0, 1): [a_trial(k, bad=False) for k in range(3)]}
    assert blocks_of([CASE], cells, answers) == [[None, False], [True, False], [False, False]]


@pytest.mark.parametrize(
    ("case", "fails", "counted"),
    [(CASE, "any_failure", 0), (CASE, "garbage_loop", 0), (CASE, "error", 6), (BROKEN, "any_failure", 6)],
)
def test_silence_counts_where_it_is_what_is_asked_about(case: Case, fails: str, counted: int) -> None:
    """No answer is a failure only where the class is `error`, or any failure of a turn that was an error itself."""
    assert evidence(case, Change(), SILENT, fails) == [True] * counted  # type: ignore[arg-type]


def test_rates_are_over_what_was_answered() -> None:
    """Two failures among four answers are a half, whatever else was asked; of errors all count."""
    trials = [*SILENT, *(a_trial(k, bad=k < 12) for k in range(10, 14))]
    found = outcomes_of(trials)
    assert (found.asked, found.counted, found.failed, found.unanswered, found.distinct) == (10, 4, 2, 6, 4)
    assert found.low < 0.5 < found.high
    whole = outcomes_of(trials, silence_fails=True)
    assert (whole.counted, whole.failed) == (10, 8)
    none = outcomes_of(SILENT)
    assert (none.counted, none.failed, none.low, none.high) == (0, 0, 0.0, 1.0)


def test_no_answer_is_not_the_most_frequent_answer() -> None:
    """Six refusals are not six times the same answer."""
    assert identical_of([*SILENT, a_trial(9, bad=False)]) == 1
    assert identical_of(SILENT) == 0


def test_a_case_that_was_not_answered_parts_nowhere() -> None:
    """It is told by name, and leaves open whether the servers agree; a silent repeat is not an answer of its own."""
    same: list[Trial] = [a_trial(0, bad=False, text="yes")]
    assert parting_of("silent", SILENT, same) is None
    parting = parting_of("talk", [a_silence(0), *same], same)
    assert parting is not None
    assert (parting.own, parting.shared, parting.apart.same_text) == ((1, 1), True, True)
    assert divergence_found(("a", "b"), [parting], 3).result == "same"
    found = divergence_found(("a", "b"), [parting], 3, ["silent"])
    assert (found.result, found.parted, found.unanswered) == ("undecided", 0, ("silent",))
    assert found.text.endswith("1 of 2 were not answered")
