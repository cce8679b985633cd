"""What `--fail-on` makes of a comparison's verdict."""

import sys
from pathlib import Path

import msgspec
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "report"))

from page_facts import measured_comparison

from soak.check.gates import judge_gates
from soak.scenario import parse_condition

HOLDS, FALSE, UNMEASURED = "wall_clock.ratio > 0.5", "wall_clock.ratio > 2", "margin > 0"


@pytest.mark.parametrize(
    ("texts", "verdict"),
    [
        ((FALSE,), "pass"),
        ((FALSE, HOLDS), "fail"),
        ((FALSE, UNMEASURED), "unknown"),
        ((UNMEASURED, HOLDS), "fail"),
    ],
)
def test_conditions_decide_an_inconclusive_comparison(texts: tuple[str, ...], verdict: str) -> None:
    """One that holds fails it; one that was not measured leaves it unknown; else it passes as asked."""
    judged, gates = judge_gates(measured_comparison(), [parse_condition(text) for text in texts])
    assert judged.verdict == verdict
    assert [gate.text for gate in gates] == list(texts)
    assert gates[0].seen.keys() <= {"wall_clock.ratio", "margin"}


def test_without_conditions_nothing_changes() -> None:
    """The comparison's own verdict stands."""
    found = measured_comparison()
    assert judge_gates(found, []) == (found, ())


def test_an_invalid_comparison_stays_unknown() -> None:
    """No condition turns an invalid comparison into a pass or a fail."""
    found = measured_comparison(invalid=["different corpora"])
    for text in (HOLDS, FALSE):
        assert judge_gates(found, [parse_condition(text)])[0].verdict == "unknown"


def test_a_regression_fails_whatever_the_conditions_look_at() -> None:
    """A gate on the wall clock does not let a proven regression of a class through."""
    found = msgspec.structs.replace(measured_comparison(), verdict="fail")
    assert judge_gates(found, [parse_condition(FALSE)])[0].verdict == "fail"
