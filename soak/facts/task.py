"""
A task for an agent: a repository, what is wrong with it, and the tests that tell whether it was mended.

A tasks file is JSONL. A line is a repository or a task in it; a repository stands before its tasks:

    {"schema": "soak.repository/1", "id": "larder", "files": {"larder/cache.py": "...", ...}}
    {"schema": "soak.task/1", "id": "larder-put", "repository": "larder", "problem": "...",
     "tests": {"tests/test_reported_defect.py": "..."}, "fail_to_pass": ["tests/test_...::test_..."],
     "pass_to_pass": [...], "solution": {"larder/cache.py": "..."}, "meta": {...}}
"""

from typing import Any

import msgspec

REPOSITORY_SCHEMA = "soak.repository/1"
TASK_SCHEMA = "soak.task/1"


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """
    One task. `files` is the repository as the agent gets it: text by relative path.

    `tests` are files the agent never sees, laid over those of the repository's own below `tests/` when it has
    submitted; names as pytest gives them: `fail_to_pass` fail at the beginning, `pass_to_pass` pass then, and the task
    is resolved if all of both pass. `solution` is a known good one: the changed files whole, None for one removed.
    An instance of SWE-bench has neither files nor tests: `image` is the container image that holds its repository,
    `row` its row as the data set has it, which tells how it is judged.
    """

    id: str
    repository: str
    problem: str
    files: dict[str, str] = {}
    tests: dict[str, str] = {}
    fail_to_pass: tuple[str, ...] = ()
    pass_to_pass: tuple[str, ...] = ()
    solution: dict[str, str | None] = {}
    image: str | None = None
    row: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    meta: dict[str, Any] = {}

    @property
    def judging_files(self) -> dict[str, str]:
        """The test files as they are run: the repository's own as they were at the beginning, and the hidden ones."""
        own = {name: text for name, text in self.files.items() if name.startswith("tests/")}
        return {**own, **self.tests}
