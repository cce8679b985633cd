"""Tasks files: our own form and SWE-bench rows, read whole or refused with the line that is wrong."""

import json
from pathlib import Path
from typing import Any

import pytest

from soak.errors import CorpusError
from soak.facts import Task
from soak.importers import find_tasks, lines_of_tasks, load_tasks, tasks_as_corpus, tasks_digest

REPOSITORY = {"schema": "soak.repository/1", "id": "r", "files": {"a.py": "x = 1\n", "tests/test_a.py": "old"}}
TASK = {
    "schema": "soak.task/1",
    "id": "r-1",
    "repository": "r",
    "problem": "x should be 2",
    "tests": {"tests/test_b.py": "def test_b(): ..."},
    "fail_to_pass": ["tests/test_b.py::test_b"],
}
ROW = {
    "instance_id": "Django__django-11001",
    "repo": "django/django",
    "base_commit": "ef082ebb84f00e38af4e8880d04e8365c2766d34",
    "problem_statement": "Incorrect removal of order_by clause",
    "test_patch": "diff --git a/tests b/tests",
    "FAIL_TO_PASS": '["test_order_by_multiline_sql (expressions.tests.BasicExpressionsTests)"]',
    "PASS_TO_PASS": ["test_deconstruct"],
    "version": "3.0",
}


def written(folder: Path, *lines: Any) -> Path:
    path = folder / "t.jsonl"
    path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
    return path


def test_a_task_has_the_files_of_its_repository(tmp_path: Path) -> None:
    """A task line names its repository, whose files stand in a line before it, once for all its tasks."""
    (task,) = load_tasks(written(tmp_path, REPOSITORY, TASK))
    assert task.files == REPOSITORY["files"]
    assert task.judging_files == {"tests/test_a.py": "old", "tests/test_b.py": "def test_b(): ..."}


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    """Tasks survive being written and read, and their digest too; `meta` is not in it."""
    tasks = load_tasks(written(tmp_path, REPOSITORY, TASK, {**TASK, "id": "r-2", "solution": {"a.py": None}}))
    path = tmp_path / "again.jsonl"
    path.write_bytes(b"".join(lines_of_tasks(tasks)))
    again = load_tasks(path)
    assert again == tasks
    assert tasks_digest(again) == tasks_digest(tasks)
    assert tasks_digest(load_tasks(written(tmp_path, REPOSITORY, {**TASK, "meta": {"x": 1}}))) == tasks_digest(
        tasks[:1]
    )


def test_the_digest_covers_hidden_tests(tmp_path: Path) -> None:
    """A changed hidden test, statement or file of the repository is another set of tasks."""
    before = tasks_digest(load_tasks(written(tmp_path, REPOSITORY, TASK)))
    for changed in ({"tests": {"tests/test_b.py": "pass"}}, {"problem": "?"}, {"fail_to_pass": ["other"]}):
        assert tasks_digest(load_tasks(written(tmp_path, REPOSITORY, {**TASK, **changed}))) != before


def test_rows_of_swe_bench_are_recognised(tmp_path: Path) -> None:
    """A row becomes a task in the image that SWE-bench publishes for it, lists given as JSON text or as lists."""
    (task,) = load_tasks(written(tmp_path, ROW))
    assert task.id == "Django__django-11001"
    assert task.image == "swebench/sweb.eval.x86_64.django_1776_django-11001:latest"
    assert task.fail_to_pass == ("test_order_by_multiline_sql (expressions.tests.BasicExpressionsTests)",)
    assert task.pass_to_pass == ("test_deconstruct",)
    assert task.problem == ROW["problem_statement"]
    assert task.row == ROW


def test_rows_may_name_their_image_and_come_from_parquet(tmp_path: Path) -> None:
    """A row's own image is taken, the whole row is kept and in the digest, and a data set's parquet files are read."""
    datasets = pytest.importorskip("datasets", reason="the extra hub is not installed")
    row = {**ROW, "image": "localhost/django:1", "PASS_TO_PASS": '["test_deconstruct"]'}
    path = tmp_path / "test.parquet"
    datasets.Dataset.from_list([row]).to_parquet(str(path))
    (task,) = load_tasks(path)
    assert task.image == "localhost/django:1"
    assert task.row == row
    (other,) = load_tasks(written(tmp_path, {**row, "test_patch": "diff --git a/other b/other"}))
    assert tasks_digest([task]) != tasks_digest([other])


@pytest.mark.parametrize(
    ("lines", "line", "why"),
    [
        ([TASK], 1, "does not stand before it"),
        ([REPOSITORY, TASK, TASK], 3, "twice"),
        ([REPOSITORY, {**TASK, "fail_to_pass": []}], 2, "nothing could tell"),
        ([REPOSITORY, {**TASK, "colour": 1}], 2, "unknown field"),
        ([REPOSITORY, {**TASK, "tests": ["x"]}], 2, "Expected `object`"),
        (['{"schema": '], 1, "JSON"),
        (["[1]"], 1, "neither a repository"),
        ([{**REPOSITORY, "files": {"../x.py": ""}}], 1, "leads out of the repository"),
        ([{**REPOSITORY, "files": {"/etc/x.py": ""}}], 1, "leads out of the repository"),
        ([{**REPOSITORY, "files": {".git/hooks/pre-commit": ""}}], 1, "git's folder"),
        ([{**REPOSITORY, "files": {"a\0b": ""}}], 1, "has a NUL"),
        ([{**REPOSITORY, "files": {"a" * 256: ""}}], 1, "too long"),
        ([{**REPOSITORY, "files": {"a/b/c.py": "", "a": ""}}], 1, "'a/b/c.py' lies in it"),
        ([REPOSITORY, {**TASK, "tests": {"../x.py": ""}}], 2, "leads out of the repository"),
        ([{**ROW, "FAIL_TO_PASS": "[" * 3000}], 1, "no JSON list"),
        ([{**ROW, "problem_statement": None}], 1, "problem_statement is no text"),
    ],
)
def test_wrong_lines_are_named(tmp_path: Path, lines: list[Any], line: int, why: str) -> None:
    """The first line that cannot be used is named with its number and what is wrong with it; the exit code is 4."""
    path = written(tmp_path, *lines)
    with pytest.raises(CorpusError) as caught:
        load_tasks(path)
    assert f"{path}:{line}" in caught.value.what
    assert why in caught.value.why
    assert caught.value.exit_code == 4


def test_a_file_without_a_task_is_refused(tmp_path: Path) -> None:
    """A tasks file of repositories alone gives nothing to do."""
    with pytest.raises(CorpusError, match="cannot be used"):
        load_tasks(written(tmp_path, REPOSITORY))


def test_an_id_that_names_no_episode_is_refused(tmp_path: Path) -> None:
    """An id with a slash or a space would break turn keys, so it is refused."""
    path = written(tmp_path, REPOSITORY, {**TASK, "id": "a/b"})
    with pytest.raises(CorpusError):
        tasks_as_corpus(path, load_tasks(path))


def test_an_unknown_name_lists_what_there_is() -> None:
    """A tasks file that is not there is answered with those that are, and the nearest name."""
    with pytest.raises(CorpusError) as caught:
        find_tasks("swe_task")
    assert "swe_tasks" in caught.value.why
    assert "did you mean swe_tasks?" in caught.value.hint


def test_the_bundled_tasks_are_whole() -> None:
    """At least 12 tasks in several repositories, each with a statement, hidden tests, and a solution."""
    tasks = load_tasks(find_tasks("swe_tasks"))
    assert len(tasks) >= 12
    assert len({task.repository for task in tasks}) >= 6
    for task in tasks:
        assert len(task.problem) > 40
        assert task.fail_to_pass
        assert task.pass_to_pass
        assert task.tests.keys().isdisjoint(task.files)
        assert task.solution
        assert not any(name.startswith("tests/") for name in task.solution)


def test_a_corpus_of_tasks_has_one_turn_each(tmp_path: Path) -> None:
    """As a corpus each task is an episode with its statement and one turn, named by the tasks' digest."""
    path = written(tmp_path, REPOSITORY, TASK)
    tasks: tuple[Task, ...] = load_tasks(path)
    corpus = tasks_as_corpus(path, tasks)
    assert [(episode.id, len(episode.turns)) for episode in corpus.episodes] == [("r-1", 1)]
    assert corpus.card.digest == tasks_digest(tasks)
