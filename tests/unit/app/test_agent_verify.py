"""Hidden tests decide, whatever the agent left in the tree: tried with every task's solution, and with every trick."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from rigs.walls import skip_without_walls

from soak.app.agent.verify import Verdict, verify
from soak.app.agent.walls import Builder
from soak.facts import Sandbox, Task
from soak.importers import find_tasks, load_tasks
from soak.sandbox import Place

TASKS_FILE = find_tasks("swe_tasks")
TASKS = {task.id: task for task in load_tasks(TASKS_FILE)}
POCKET = TASKS["pocket-boundary"]
GREEN = """
import pytest

@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport():
    report = yield
    report.outcome = "passed"
    return report
"""
CANNOT_WRITE = """
import pathlib, pytest

def test_a():
    with pytest.raises(OSError):
        pathlib.Path("b").write_text("")
"""


@pytest.fixture(scope="module")
def builder() -> Builder:
    skip_without_walls()
    return Builder.of(Sandbox(disk_mib=16, command_s=20.0), TASKS_FILE)


def solved(task: Task) -> dict[str, str]:
    changed = {**task.files, **task.solution}
    return {name: text for name, text in changed.items() if text is not None}


def judged(task: Task, builder: Builder, files: dict[str, str]) -> Verdict:
    with Place(python=builder.view.python) as place:
        place.put(files)
        return verify(task, place.work, place.uid, builder)


def test_each_task_is_unsolved_before_and_solved_by_its_solution(builder: Builder) -> None:
    """For every bundled task the hidden tests fail on the repository as it is, and all pass with the solution."""

    def both(task: Task) -> tuple[str, tuple[str, ...], bool]:
        before = judged(task, builder, task.files)
        return task.id, before.missing, judged(task, builder, solved(task)).resolved

    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(both, TASKS.values()))
    assert [(name, missing) for name, missing, _ in found] == [(id_, t.fail_to_pass) for id_, t in TASKS.items()]
    assert [name for name, _, resolved in found if not resolved] == []


def tricks() -> dict[str, dict[str, str]]:
    """Return trees that try to be taken for solved: files by path over the unsolved repository."""
    package = POCKET.files["pocket/__init__.py"]
    names = [*POCKET.fail_to_pass, *POCKET.pass_to_pass]
    main = "def main(*a, **k): return 0\n"

    def first(line: str) -> dict[str, str]:
        return {"pocket/__init__.py": f"{line}\n{package}"}

    return {
        "a conftest that turns every test green": {"conftest.py": GREEN, "tests/conftest.py": GREEN},
        "a pytest.ini that selects nothing": {"pytest.ini": "[pytest]\naddopts = --collect-only -k nothing\n"},
        "a pyproject with a plugin": {
            "pyproject.toml": "[tool.pytest.ini_options]\naddopts = '-p cheat'\n",
            "cheat.py": GREEN,
        },
        "tests of its own under the hidden name": dict.fromkeys(POCKET.tests, "def test_a_full_unit(): pass\n"),
        "a pytest of its own": {"pytest.py": main, "_pytest/__init__.py": "", "pluggy.py": main},
        "a standard library of its own": {
            "json.py": "def loads(t): return {}\n",
            "sitecustomize.py": "import os; os._exit(0)\n",
        },
        "an exit on import": first("import os; os._exit(0)"),
        "a polite exit on import": first("import sys; sys.exit(0)"),
        "a forged report": first(f"import json; print('\\n' + '0' * 32, json.dumps({names!r}))"),
        "an exit handler that reports": first(f"import atexit; atexit.register(print, {names!r})"),
        "a collector that lies": first(f"import __main__; __main__._Passed.names = lambda self: {names!r}"),
        "output without end": first("while True: print('x' * 65536)"),
        "a package that is gone": {"pocket/__init__.py": "raise ImportError('gone')\n"},
    }


@pytest.mark.parametrize("trick", tricks())
def test_a_tree_cannot_talk_its_way_to_resolved(builder: Builder, trick: str) -> None:
    """No configuration, plugin, shadowed module, exit or printed text in the tree makes an unsolved task resolved."""
    verdict = judged(POCKET, builder, {**POCKET.files, **tricks()[trick]})
    assert not verdict.resolved
    assert set(POCKET.fail_to_pass) <= set(verdict.missing)


def test_tests_that_passed_before_must_still_pass(builder: Builder) -> None:
    """A solution that breaks what worked is none: the repository's own tests count, as they were at the beginning."""
    broken = solved(POCKET)
    broken["pocket/__init__.py"] += "\n\ndef parse_size(text):\n    return 0\n"
    broken |= {name: "" for name in broken if name.startswith("tests/")}
    verdict = judged(POCKET, builder, broken)
    assert not verdict.resolved
    assert set(verdict.missing) <= set(POCKET.pass_to_pass)


def test_tests_cannot_change_the_tree(builder: Builder) -> None:
    """The agent's tree is read-only while it is judged."""
    task = Task(
        id="t",
        repository="r",
        problem="",
        files={"a.py": ""},
        tests={"tests/test_a.py": CANNOT_WRITE},
        fail_to_pass=("tests/test_a.py::test_a",),
    )
    assert judged(task, builder, {"a.py": ""}).resolved


def test_the_agent_does_not_see_the_tests(builder: Builder) -> None:
    """Nothing that a command can read holds a hidden test, wherever soak and its tasks are installed."""
    needle = POCKET.fail_to_pass[0].rpartition("::")[2]
    search = (
        "find / -name proc -prune -o -name swe_tasks.jsonl -print 2>/dev/null;"
        f"grep -rl {needle} /workspace /opt/site /home /tmp 2>/dev/null"
    )
    with builder.open(POCKET) as walls:
        assert walls.run(search, builder.limits).output == ""
        assert walls.run("git status --short && git log --oneline | wc -l", builder.limits).output == "1\n"
