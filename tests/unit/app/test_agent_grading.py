"""Instances of SWE-bench: what the output of their tests says, and which cannot be judged here."""

import json
from typing import Any

import pytest
from rigs.image import ROW

from soak.app.agent.grading import PYTEST_RULE, rule_for, statuses, touched
from soak.errors import UsageError
from soak.facts import Task

FAILS, PASSES = "tests/test_ruler.py::test_inches", "tests/test_ruler.py::test_feet"


def task(fails: tuple[str, ...] = (FAILS,), passes: tuple[str, ...] = (PASSES,), **row: Any) -> Task:
    return Task(
        id=ROW["instance_id"],
        repository="soak/ruler",
        problem="p",
        image="i",
        fail_to_pass=fails,
        pass_to_pass=passes,
        row={**ROW, "FAIL_TO_PASS": json.dumps(fails), "PASS_TO_PASS": json.dumps(passes), **row},
    )


def log(*lines: str, code: int = 0) -> str:
    return "\n".join((">>>>> Start Test Output", *lines, ">>>>> End Test Output", f">>>>> Test Exit Code: {code}"))


def test_pytest_runs_the_tests_files() -> None:
    """Without a script in the row its test patch is applied and pytest runs the files its tests are in, each once."""
    rule = rule_for(task(passes=(PASSES, "tests/a b.py::test_x"), image_assets='{"patch": []}'))
    assert rule.name == PYTEST_RULE
    script = rule.files[rule.script].decode()
    assert "git apply --verbose /tmp/soak/tests.diff" in script
    assert "--tb=short tests/test_ruler.py 'tests/a b.py'\n" in script
    assert rule.files["tests.diff"].decode() == ROW["test_patch"]
    assert rule.test_files == ("tests/test_ruler.py",)


@pytest.mark.parametrize(
    ("output", "resolved"),
    [
        (log(f"PASSED {FAILS}", f"PASSED {PASSES}"), True),
        (log(f"XFAIL {FAILS}", f"SKIPPED {PASSES}"), True),
        (log(f"SKIPPED {FAILS}", f"PASSED {PASSES}"), False),
        (log(f"PASSED {FAILS}"), False),
        (log(f"FAILED {FAILS} - assert 1 == 2", f"PASSED {PASSES}", code=1), False),
        (log(f"PASSED {FAILS}", f"PASSED {PASSES}", code=1), False),
        (log(f"PASSED {FAILS}", f"PASSED {PASSES}", code=4), False),
        (log(f"PASSED {FAILS}", f"PASSED {PASSES}", "FAILED tests/other.py::test_a - x", code=1), True),
        (f"PASSED {FAILS}\nPASSED {PASSES}", False),
        (f">>>>> Start Test Output\nPASSED {FAILS}\nPASSED {PASSES}", False),
        ("", False),
    ],
)
def test_the_summary_of_pytest_decides(output: str, resolved: bool) -> None:
    """Resolved: all that should fail before pass now, none is lost, and the exit code does not contradict it."""
    verdict = rule_for(task()).grade(output)
    assert verdict.resolved is resolved
    assert bool(verdict.missing) is not resolved


def test_tests_that_came_to_nothing_are_told_apart() -> None:
    """A run without any reported test says why, for that may be the image's fault and not the work's."""
    verdict = rule_for(task()).grade(log("No module named pytest", code=1))
    assert "pytest reported no test: No module named pytest" in verdict.fault
    assert not rule_for(task()).grade(log(f"FAILED {FAILS} - x", code=1)).fault


@pytest.mark.parametrize(
    ("instance", "why"),
    [
        (task(fails=()), "no test of its row fails"),
        (task(fails=("test_a (x.Tests)",)), "not named as pytest"),
        (task(passes=("--rootdir=/::x",)), "not named as pytest"),
        (task(image_assets='{"test_patch": [{"path": "a.png"}]}'), "binary files"),
        (Task(id="a", repository="r", problem="p", image="i", fail_to_pass=(FAILS,)), "has no row"),
    ],
)
def test_what_cannot_be_judged_is_refused(instance: Task, why: str) -> None:
    """An instance whose tests nothing here can judge is refused before the run, with what to install."""
    with pytest.raises(UsageError) as caught:
        rule_for(instance)
    assert why in caught.value.why
    assert "swebench" in caught.value.hint


def test_the_paths_of_a_patch() -> None:
    """Changed, new, removed and renamed paths are found, with spaces too; lines of hunks are none."""
    patch = (
        "diff --git a/x.py b/x.py\n--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n--- a/no.py\n+diff --git a/no b/no\n"
        "diff --git a/my test.py b/my test.py\nnew file mode 100644\n"
        "diff --git a/old.py b/new.py\nsimilarity index 100%\nrename from old.py\nrename to new.py\n"
    )
    assert set(touched(patch)) == {"x.py", "my test.py", "old.py", "new.py"}


def test_statuses_are_the_summarys_lines() -> None:
    """A status is the first word of a line with a test's name after it; anything else is no test."""
    assert statuses("PASSED a::b\n PASSED a::c\nFAILED a::d - x\nERROR\nPASSEDLY a::e\nok") == {
        "a::b": "PASSED",
        "a::d": "FAILED",
    }


def test_swebenchs_own_rule_decides_where_it_is_installed() -> None:
    """A row with its script and parser is judged by the package itself, over the output between the markers."""
    pytest.importorskip("swebench", reason="the extra swebench is not installed")
    script = "#!/bin/bash\nset -uxo pipefail\n: '>>>>> Start Test Output'\npytest -rA\n: '>>>>> End Test Output'\n"
    rule = rule_for(task(image="i", eval_script=script, log_parser="parse_log_pytest", eval_type="pass_and_fail"))
    if not rule.name.startswith("swebench"):
        pytest.skip("swebench 4 does not know this repository")
    assert b"pytest -rA" in rule.files[rule.script]
    assert rule.grade(log(f"PASSED {FAILS}", f"PASSED {PASSES}")).resolved
    assert not rule.grade(log(f"FAILED {FAILS}", f"PASSED {PASSES}", code=1)).resolved
    assert rule.grade("nothing at all").fault
