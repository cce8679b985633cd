"""The section `decide`: absent by default, strict like the rest."""

from pathlib import Path

import pytest

from soak.errors import ScenarioError
from soak.facts import Decide, Rates
from soak.scenario import load_scenario

MINIMAL = "name: a\nquestion: b\nduration: c\ncorpus: d\n"


def decide_in(text: str, folder: Path) -> Decide | None:
    path = folder / "s.yaml"
    path.write_text(MINIMAL + text)
    return load_scenario(path).scenario.decide


def test_a_run_does_not_end_by_its_evidence_unless_asked_to(tmp_path: Path) -> None:
    """Without the section it is None, an empty one has the defaults, and values are taken."""
    assert decide_in("", tmp_path) is None
    assert decide_in("decide: {}\n", tmp_path) == Decide()
    found = decide_in("decide: {alpha: 0.01, margin: 0.005, classes: [early_stop, error]}\n", tmp_path)
    assert found == Decide(alpha=0.01, margin=0.005, classes=("early_stop", "error"))
    one_arm = decide_in("decide: {rates: {good: 0.01, bad: 0.1, min_turns: 5}}\n", tmp_path)
    assert one_arm == Decide(rates=Rates(good=0.01, bad=0.1, min_turns=5))
    assert decide_in("decide: {rates: {}}\n", tmp_path) == Decide(rates=Rates())


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("decide:\n  alpa: 0.1\n", "line 6: decide.alpa: unknown key; did you mean alpha?"),
        ("decide: 5\n", "line 5: decide: must be a section (keys and values), is 5"),
        ("decide:\n  classes: []\n", "line 6: decide.classes: must not be empty"),
        ("decide:\n  alpha: 0\n", "line 6: decide.alpha: must be greater than 0, is 0"),
        ("decide:\n  classes: [error, error]\n", "line 6: decide.classes.1: error is named twice"),
        (
            "decide:\n  classes: [any_failure, error]\n",
            "line 6: decide.classes: any_failure holds every class, so it stands alone",
        ),
        ("decide:\n  rates: {good: 0.1, bad: 0.1}\n", "line 6: decide.rates: good needs a bad that is greater"),
        ("decide:\n  rates: {good: 0.1}\n", "line 6: decide.rates: good needs a bad that is greater"),
        ("decide:\n  rates: {good: 0, bad: 1}\n", "line 6: decide.rates.bad: must be less than 1, is 1"),
    ],
)
def test_what_is_wrong_with_it_is_said(text: str, problem: str, tmp_path: Path) -> None:
    """Unknown keys, wrong kinds, empty or repeated classes are each named with their line."""
    with pytest.raises(ScenarioError) as caught:
        decide_in(text, tmp_path)
    assert any(told.startswith(problem) for told in caught.value.problems), caught.value.problems
