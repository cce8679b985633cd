"""The language of thresholds: what it accepts, refuses, and says of an arm."""

import pytest

from soak.errors import ScenarioError
from soak.facts import (
    ArmSummary,
    Build,
    PrefixCache,
    Quantiles,
    Speculation,
    TokenCounts,
    TurnCounts,
    evaluate,
    measured,
)
from soak.scenario import parse_threshold, threshold_problem

ARM = ArmSummary(
    build=Build(model="m", target="http://localhost"),
    valid=True,
    invalid_reasons=[],
    turns=TurnCounts(
        planned=500,
        finished=500,
        ok=489,
        garbage_loop=11,
        early_stop=0,
        max_tokens=0,
        error=0,
        skipped=0,
        indeterminate=0,
    ),
    wall_s=18000.0,
    busy_s={"ok": 1.0},
    tokens=TokenCounts(),
    ttft_ms=Quantiles(p99=60000.0),
    tpot_ms=Quantiles(),
    e2e_ms=Quantiles(),
    speculation=Speculation(acceptance_length=1.5, per_position=[0.8, 0.5]),
    prefix_cache=PrefixCache(hit_rate=0.1),
    rate={"garbage_loop": 0.022, "error": None},
    kinds={"loop": 11},
    engine={"preemptions": 3, "success": {"stop": 9}, "version": "1", "broken": float("nan")},
)


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("turns.garbage_loop <= 3", False),
        ("turns.garbage_loop<=11", True),
        ("turns.garbage_loop < 11", False),
        ("turns.garbage_loop == 11", True),
        ("turns.garbage_loop != 11", False),
        ("rate.garbage_loop <= 0.5%", False),
        ("rate.garbage_loop <= 2.2%", True),
        ("rate.garbage_loop >= 0.02", True),
        ("ttft_ms.p99 <= 60000", True),
        ("ttft_ms.p99 > 6e4", False),
        ("speculation.acceptance_length >= 1.2", True),
        ("speculation.per_position.1 >= 50%", True),
        ("prefix_cache.hit_rate >= 10%", True),
        ("kinds.salad == 0", True),
        ("kinds.loop == 0", False),
        ("engine.preemptions < 4", True),
        ("engine.success.stop < 4", False),
        ("rate.error <= 1%", None),
        ("rate.early_stop <= 1%", None),
        ("tokens.completion > 5", None),
        ("speculation.per_position.7 >= 50%", None),
        ("engine.version > 5", None),
        ("engine.broken > 5", None),
        ("engine.nothing > 5", None),
    ],
)
def test_threshold_says_true_false_or_not_measured(text: str, holds: bool | None) -> None:
    """A threshold compares the number it names; where that was not measured it says neither yes nor no."""
    assert threshold_problem(text) is None
    assert evaluate(parse_threshold(text), ARM) is holds


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("garbage", "is not of the form"),
        ("turns.error <= ", "is not of the form"),
        ("turns.error <= 3 and turns.ok > 1", "is not of the form"),
        ("turns.error = 3", "is not of the form"),
        ("turns.error <= nan", "is not of the form"),
        ("x" * 1000, "is not of the form"),
        ("turns.error <= 1.2.3", "1.2.3 is not a number"),
        ("turns.errr <= 3", "near to it: turns.error"),
        ("rate.loops <= 3%", "is not a field"),
        ("xyzzy <= 3", "it has turns, wall_s"),
        ("build.engine == 3", "build.engine is not a number"),
        ("valid == 1", "valid is not a number"),
        ("turns == 1", "turns is not a number"),
        ("build.settings.x == 1", "is not a field"),
        ("worst.0 == 1", "is not a field"),
        ("kinds.a.b == 1", "is not a field"),
        ("engine. == 1", "is not a field"),
        ("speculation.per_position.x > 1%", "is not a field"),
        ("rate.error <= 200%", "is a fraction from 0 to 1"),
        ("rate.error <= 5", "is a fraction from 0 to 1, so 5 is impossible"),
        ("turns.error > -1", "is never negative"),
        ("wall_s <= 1%", "is not a fraction"),
        ("wall_s < 1e999", "says nothing"),
        ("turns.error < 0", "can never hold"),
        ("rate.error > 100%", "can never hold"),
        ("turns.error >= 0", "always holds"),
        ("rate.error <= 100%", "always holds"),
        ("turns.error == 0.5", "is a whole number"),
    ],
)
def test_useless_threshold_is_refused_with_a_reason(text: str, problem: str) -> None:
    """An unknown field, a field that is no number, and a comparison that decides nothing are refused."""
    assert problem in (threshold_problem(text) or "")
    with pytest.raises(ScenarioError):
        parse_threshold(text)


def test_percentage_is_a_fraction() -> None:
    """The limit of "0.5%" is 0.005, and the text is kept for reports."""
    threshold = parse_threshold(" rate.error <= 0.5 % ")
    assert threshold.limit == pytest.approx(0.005)
    assert threshold.text == "rate.error <= 0.5 %"
    assert measured(parse_threshold("wall_s > 3"), ARM) == 18000.0
