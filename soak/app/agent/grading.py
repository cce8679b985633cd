"""
How an instance of SWE-bench is judged: the script that runs its tests, and what its output says. Opens nothing.

Where the package swebench is installed (extra `swebench`) script and judgement are its own: version 5 takes the script
and the parser from the row, version 4 from what it knows of the repository. Only the parts that start no container are
used, and no other module may. Without it: the row's own script, or pytest over the test files of the row, read by the
summary lines of `pytest -rA`; for rows whose tests are named as pytest names them, and no others.
"""

import importlib
import importlib.metadata
import re
import shlex
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec

from soak.app.agent.verify import Verdict
from soak.errors import UsageError
from soak.facts import Task
from soak.shelves import install_command

# Of a rule: its name, its files, and what grades the output.
_Way = tuple[str, Mapping[str, bytes], Callable[[str], Verdict]]
PYTEST_RULE = "the summary of pytest"
_START, _END, _EXIT_CODE = ">>>>> Start Test Output", ">>>>> End Test Output", ">>>>> Test Exit Code"
_SCRIPT, _PATCH = "tests.sh", "tests.diff"
_STATUSES = ("PASSED", "XFAIL", "SKIPPED", "FAILED", "ERROR")
_PASSED = frozenset({"PASSED", "XFAIL"})
_MAINTAINED = _PASSED | {"SKIPPED"}
_BROKEN = frozenset({"FAILED", "ERROR"})
_DIFF_LINE = re.compile(r"^diff --git (.+)$", re.MULTILINE)
_RENAMED = re.compile(r"^rename (?:from|to) (.+)$", re.MULTILINE)
# In the folder /tmp/soak of the container, where the files of a rule lie.
_PYTEST = f"""#!/bin/bash
git apply --verbose /tmp/soak/{_PATCH} || exit 3
echo '{_START}'
python -m pytest -rA -p no:cacheprovider --color=no --tb=short {{files}}
code=$?
echo '{_END}'
echo "{_EXIT_CODE}: $code"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """
    How one instance is judged.

    `files` are put into one folder of the container and `script`, one of them, is run by bash in the repository;
    `grade` takes all it printed. `test_files`, `solution`: the paths that the test patch and the known solution touch.
    `name`: what decides.
    """

    name: str
    files: Mapping[str, bytes]
    test_files: tuple[str, ...]
    solution: tuple[str, ...]
    tests: tuple[str, ...]
    grade: Callable[[str], Verdict]
    script: str = _SCRIPT

    def failed(self, fault: str, text: str = "") -> Verdict:
        """Return the verdict over work whose tests came to no end."""
        return _nothing_said(self.name, self.tests, fault, text)


def rule_for(task: Task) -> Rule:
    """Return how a task that is an instance is judged; raises `UsageError` if nothing here can."""
    if isinstance(task.row, msgspec.UnsetType):
        raise _unjudged(task, "it names an image and has no row of SWE-bench, which would tell how")
    row = task.row
    tests = (*task.fail_to_pass, *task.pass_to_pass)
    if not task.fail_to_pass:
        raise _unjudged(task, "no test of its row fails before it is solved, so nothing could tell that it was")
    if _needs_assets(row.get("image_assets")):
        raise _unjudged(task, "its tests need binary files (image_assets), which soak does not fetch")
    name, files, grade = _official(row, task) or _by_pytest(task, row)
    test_files, solution = touched(str(row.get("test_patch"))), touched(str(row.get("patch")))
    return Rule(name=name, files=files, test_files=test_files, solution=solution, tests=tests, grade=grade)


def touched(patch: str) -> tuple[str, ...]:
    """Return the paths that a git patch changes, makes, removes or renames."""
    paths = dict.fromkeys(_RENAMED.findall(patch))
    for named in _DIFF_LINE.findall(patch):
        half = len(named) // 2  # "a/PATH b/PATH": a path may hold a space, so the middle tells
        before, after = named[:half], named[half + 1 :]
        if before[:2] == "a/" and after[:2] == "b/" and before[2:] == after[2:]:
            paths[before[2:]] = None
    return tuple(paths)


def statuses(log: str) -> dict[str, str]:
    """Return the status of each test in the summary of `pytest -rA`: the first word and the second of its lines."""
    found: dict[str, str] = {}
    for line in log.splitlines():
        words = line.split(maxsplit=2)
        if len(words) > 1 and words[0] in _STATUSES and line.startswith(words[0]):
            found[words[1]] = words[0]
    return found


def _needs_assets(named: Any) -> bool:
    """Return whether a row names binary files for its patches: an object of lists, or JSON text of one."""
    try:
        assets = msgspec.json.decode(named) if isinstance(named, str) and named else named
    except (msgspec.DecodeError, RecursionError):
        return True
    return isinstance(assets, dict) and any(assets.get(name) for name in ("patch", "test_patch"))


def _by_pytest(task: Task, row: Mapping[str, Any]) -> _Way:
    names = (*task.fail_to_pass, *task.pass_to_pass)
    if not all("::" in name and not name.startswith("-") for name in names):
        raise _unjudged(
            task, "its tests are not named as pytest names them, and swebench does not know it or is absent"
        )
    own = row.get("eval_script")
    script = own if isinstance(own, str) and own else _pytest_script(names)
    files = {_SCRIPT: script.encode(), _PATCH: str(row.get("test_patch")).encode()}
    return PYTEST_RULE, files, lambda output: _graded(output, task)


def _pytest_script(names: Sequence[str]) -> str:
    files = dict.fromkeys(name.partition("::")[0] for name in names)
    return _PYTEST.format(files=" ".join(map(shlex.quote, files)))


def _graded(output: str, task: Task) -> Verdict:
    """Return the verdict by the statuses between the markers; a run whose exit code contradicts them proves nothing."""
    log, ended, rest = output.partition(_START)[2].rpartition(_END)
    found = statuses(log) if ended else {}
    code = re.search(rf"{_EXIT_CODE}: (\d+)", rest)
    broken = any(status in _BROKEN for status in found.values())
    if code is not None and code[1] != ("1" if broken else "0"):
        found = {}
    if not found:
        tests = (*task.fail_to_pass, *task.pass_to_pass)
        return _nothing_said(PYTEST_RULE, tests, f"pytest reported no test: {_last_line(log or output)}", output)
    failed = [name for name in task.fail_to_pass if found.get(name) not in _PASSED]
    lost = [name for name in task.pass_to_pass if found.get(name) not in _MAINTAINED]
    missing = (*failed, *lost)
    passed = tuple(name for name in (*task.fail_to_pass, *task.pass_to_pass) if name not in set(missing))
    return Verdict(resolved=not missing, passed=passed, missing=missing, text=output[-4000:], rule=PYTEST_RULE)


def _official(row: Mapping[str, Any], task: Task) -> _Way | None:
    """Return swebench's own way; None if it is not installed or lacks this row."""
    library = _load()
    if library is None:
        return None
    try:
        spec = library.make_test_spec({"image": task.image, **row})
        script = str(spec.eval_script).encode()
    except (LookupError, TypeError, ValueError, AttributeError):
        return None  # version 5 wants the row to have its script, version 4 to know repository and version
    name = f"swebench {library.version}"
    return name, {_SCRIPT: script}, lambda output: _by_swebench(library, spec, task, output, name)


def _by_swebench(library: SimpleNamespace, spec: Any, task: Task, output: str, name: str) -> Verdict:
    """Return the verdict of swebench's own grading over what the tests printed."""
    names = (*task.fail_to_pass, *task.pass_to_pass)
    prediction = {"instance_id": task.id, "model_name_or_path": "soak", "model_patch": "handed in"}
    try:
        with tempfile.TemporaryDirectory(prefix="soak-grading-") as folder:
            log = Path(folder, "log")
            log.write_text(output, encoding="utf-8", errors="replace")
            report = library.get_eval_report(spec, prediction, str(log), True)[task.id]
        told = report.get("tests_status", {})
        passed = tuple(
            name for kind in ("FAIL_TO_PASS", "PASS_TO_PASS") for name in told.get(kind, {}).get("success", ())
        )
        resolved = bool(report["resolved"])
    except Exception as error:  # foreign code, fed with whatever the work handed in prints: its fault is no proof
        fault = f"what the tests printed cannot be read: {type(error).__name__}: {str(error)[:200]}"
        return _nothing_said(name, names, fault, output)
    if not told:
        return _nothing_said(name, names, f"the tests came to no end: {_last_line(output)}", output)
    missing = tuple(test for test in names if test not in set(passed))
    return Verdict(resolved=resolved, passed=passed, missing=missing, text=output[-4000:], rule=name)


def _nothing_said(rule: str, tests: tuple[str, ...], fault: str, text: str) -> Verdict:
    return Verdict(resolved=False, passed=(), missing=tests, text=text[-4000:], rule=rule, fault=fault)


def _last_line(output: str) -> str:
    return (output.strip().splitlines() or ["nothing"])[-1][:200]


@cache
def _load() -> SimpleNamespace | None:
    """Return the parts of swebench in use; None if it is not installed."""
    try:
        grading = importlib.import_module("swebench.harness.grading")
        for place in ("swebench.harness.test_spec.test_spec", "swebench.harness.utils"):  # version 4, version 5
            with suppress(ImportError, AttributeError):
                make_test_spec = importlib.import_module(place).make_test_spec
                break
        else:
            return None
        version = importlib.metadata.version("swebench")
    except ImportError:
        return None
    return SimpleNamespace(version=version, get_eval_report=grading.get_eval_report, make_test_spec=make_test_spec)


def _unjudged(task: Task, why: str) -> UsageError:
    return UsageError(
        f"nothing here can tell whether {task.id} is resolved",
        why=why,
        hint=f"{install_command('swebench')} (rows of today's data sets need swebench 5, older rows 'swebench<5'),"
        " or choose other instances with agent.tasks",
    )
