"""
Run a task's tests over the tree an agent left, and say which passed. Runs inside the walls, with `python -I`.

    stdin   a JSON object: nonce, packages (folder), tests (folder), tree (folder)
    stdout  whatever the tests print, and in the last line the nonce and a JSON list of the tests that passed

The agent's code runs in this process, so it must not decide: pytest and the standard library are imported before it
and found before anything in the tree; no configuration, plugin or conftest of the tree is read; the report is written
only when pytest has come to its end; and it counts only with the nonce, which is in no file, no argument and no
variable of the environment. An exit in the middle, whatever its code, leaves no report, and this program is not the
`__main__` that the tree can import. (Code that changes pytest itself while it runs, or searches the interpreter's
frames for the nonce, could still forge one: this judges agents that want to solve tasks.)
"""

import json
import os
import sys
import types


class _Passed:
    """Collects the names of tests that passed in all their phases."""

    def __init__(self) -> None:
        self.calls: set[str] = set()
        self.failed: set[str] = set()

    def pytest_runtest_logreport(self, report) -> None:  # type: ignore[no-untyped-def] # pytest is not there when types are checked
        """Take one phase of one test."""
        if report.failed:
            self.failed.add(report.nodeid)
        elif report.when == "call" and report.passed:
            self.calls.add(report.nodeid)

    def names(self) -> list[str]:
        """Return the tests that ran, passed, and did not fail before or after."""
        return sorted(self.calls - self.failed)


def main() -> None:
    """Read what to run, run it, report it."""
    given = json.loads(sys.stdin.read())
    nonce = given.pop("nonce")
    sys.path.append(given["packages"])
    write, end, report_to = os.write, os._exit, os.dup(1)
    import pytest

    passed = _Passed()
    sys.modules["__main__"] = types.ModuleType("__main__")  # not us: the tree's code may import it
    sys.path.append(given["tree"])  # behind everything else: a json.py in the tree is not the json of pytest
    tests = given["tests"]
    options = ["-q", "--tb=short", "-c", f"{tests}/pytest.ini", f"--rootdir={tests}", f"--confcutdir={tests}"]
    pytest.main([*options, "-p", "no:cacheprovider", "--import-mode=importlib", f"{tests}/tests"], plugins=[passed])
    sys.stdout.flush()
    write(report_to, f"\n{nonce} {json.dumps(passed.names())}\n".encode())
    end(0)


if __name__ == "__main__":
    main()
