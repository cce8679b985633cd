"""The policy page says what was measured, and what was measured is how the thresholds stand."""

import random
import subprocess
import sys
from dataclasses import replace
from importlib import import_module
from itertools import islice
from pathlib import Path

import pytest
from unit.classify.borders import borders
from unit.classify.turns import answer

from soak.classify import DEFAULTS, judge

BENCH = Path(__file__).parents[3] / "ops" / "bench"


def test_the_page_equals_the_results() -> None:
    """Each threshold was measured at its present value, and every table is what the kept results say."""
    script = BENCH / "classify_page.py"
    done = subprocess.run([sys.executable, str(script), "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_borders_are_judged_as_the_policy_says() -> None:
    """Of the answers just above the label policy nine in ten are garbage, of those just below it hardly any."""
    found: dict[bool, list[bool]] = {True: [], False: []}
    for one in borders(random.Random(8), 3):
        observation = answer(one.text, one.finish, tool_calls=one.calls)
        found[one.garbage].append(judge(observation, one.context).class_ == "garbage_loop")
    assert sum(found[True]) >= 0.9 * len(found[True])
    assert sum(found[False]) <= 0.05 * len(found[False])


def test_what_is_not_judged_anew_would_not_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sweep leaves out only answers that the other value of a threshold judges the same."""
    monkeypatch.syspath_prepend(str(BENCH))
    sweep = import_module("classify_thresholds")
    rng = random.Random(3)
    left_out = 0
    for sample in islice(sweep.planted_samples(random.Random(4), 1), 0, None, 7):
        settings = sweep.watched()
        before = sweep.verdict(sample, settings)
        for name in rng.sample([name for name in sweep.VALUES if name not in sweep.STREAMING], 8):
            value = rng.choice(sweep.values_of(name))
            if not getattr(settings, name).changes(value):
                left_out += 1
                assert sweep.verdict(sample, replace(DEFAULTS, **{name: value})) == before, (name, value, sample.kind)
    assert left_out > 20
