"""A bisection in text."""

from soak.facts import Bisection, BisectStep, LeftOutBuild
from soak.report import step_line, terminal_bisection

HOSTILE = "b\x1b]0;owned\x07\n2"


def found(**changes: object) -> Bisection:
    steps = [
        BisectStep(
            build="b3", index=3, outcome="bad", text="decided, bad", turns=27, failures=5, turns_sent=34, wall_s=3.0,
            log_ratio=6.94, rate_low=0.014, rate_high=0.58,
        ),
        BisectStep(build=HOSTILE, index=2, outcome="untestable", text=HOSTILE),
    ]  # fmt: skip
    fields: dict[str, object] = {
        "run": "r", "scenario": "s", "classes": ["early_stop"], "outcome": "narrowed", "sentence": HOSTILE,
        "builds": ["b0", "b3"], "alpha": 0.001, "beta": 0.002, "error_bound": 0.004, "turns": 1234, "steps": steps,
        "good_rate": 0.02, "bad_rate": 0.15, "left_out": [LeftOutBuild(build=HOSTILE, why=HOSTILE)],
    }  # fmt: skip
    return Bisection(**(fields | changes))  # type: ignore[arg-type]


def test_each_step_shows_what_it_rests_on() -> None:
    """Counts, rate, odds, turns and time of a step; the rates and error rates of all of them; what to do next."""
    text = terminal_bisection(found())
    row = next(line for line in text.splitlines() if line.lstrip().startswith("b3"))
    assert row.split() == [
        "b3",
        "bad",
        "5",
        "of",
        "27",
        "1.4",
        "%",
        "to",
        "58.0",
        "%",
        "1,033",
        ":",
        "1",
        "34",
        "3.0",
        "s",
    ]
    flat = " ".join(text.split())
    assert "1,234 turns were sent" in flat
    assert "a rate up to 2.0 %, bad one from 15.0 %" in flat
    assert "wrong has a chance of at most 0.40 %" in flat
    assert "greater --turns-per-step" in flat


def test_nothing_hostile_reaches_the_terminal() -> None:
    """Names and reasons of a build or server are written out, never passed on."""
    for text in (terminal_bisection(found()), step_line(found().steps[1])):
        assert "\x1b" not in text
        assert "\x07" not in text
        assert "\\x1b" in text
