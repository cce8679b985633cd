"""Whether a task is resolved: its tests, hidden until now, run over the tree as the agent left it."""

import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from soak.app.agent.walls import JUDGE_AT, Builder
from soak.facts import Task, decode, encode
from soak.sandbox import PACKAGES_AT, WORK_AT

_TESTS_WITHIN_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """
    `missing`: tests that should have passed and did not. `text`: the end of what the tests printed. `rule`: what
    decided, where there is more than one way. `fault`: why the tests said nothing at all, whatever the work is worth.
    """

    resolved: bool
    passed: tuple[str, ...]
    missing: tuple[str, ...]
    text: str
    rule: str = ""
    fault: str = ""


def verify(
    task: Task,
    tree: Path,
    uid: int,
    builder: Builder,
    stopped: Callable[[], bool] = lambda: False,
) -> Verdict:
    """
    Run the task's tests over `tree` (owned by `uid`, not changed) in a fresh sandbox; raises `SandboxError`.

    Resolved: each test that should pass is reported as passed, with the nonce of this run, by a test runner that came
    to its end; exit codes and anything the tree prints count for nothing.
    """
    nonce = secrets.token_hex(16)
    order = {"nonce": nonce, "packages": str(PACKAGES_AT), "tests": str(JUDGE_AT), "tree": WORK_AT}
    limits = replace(builder.limits, time_s=_TESTS_WITHIN_S)
    ended = builder.run_tests(tree, uid, task.judging_files, encode(order), limits, stopped)
    printed, _, report = ended.output.rpartition(f"\n{nonce} ")
    passed = _names(report) if printed or report else ()
    missing = tuple(name for name in (*task.fail_to_pass, *task.pass_to_pass) if name not in set(passed))
    told = printed or ended.output
    return Verdict(
        resolved=not missing and bool(task.fail_to_pass) and ended.ended == "exit",
        passed=passed,
        missing=missing,
        text=told[-4000:] if ended.ended == "exit" else f"{told[-4000:]}\n[the tests were ended: {ended.ended}]",
    )


def _names(report: str) -> tuple[str, ...]:
    """Return the names in the runner's report; none where it is cut off or no list."""
    try:
        return decode(report.strip(), tuple[str, ...])
    except msgspec.DecodeError:
        return ()
