"""
A tasks file from the recorded episodes: the same defects, for an agent that is not recorded but really works.

A task is the repository before the repair, the report as the user wrote it, the defect's hidden tests, and the repair
of the recorded agent as the known good solution (without its changes below `tests/`). Which tests fail before and pass
after is found by running them, in the sandbox in which they will decide.
"""

from pathlib import Path

import msgspec

from ops.recorder.record import CHECK, RecordError, corpora, record, scripts
from ops.recorder.repository import read_tree
from ops.recorder.sandbox import workplace
from ops.recorder.script import read_script
from soak.app.agent.verify import verify
from soak.app.agent.walls import Builder
from soak.facts import Sandbox, Task
from soak.importers import lines_of_tasks
from soak.sandbox import Place

# Their last message refers to what was said before it.
LEFT_OUT = frozenset({"drover-blocked"})


def tasks_file(part: str = "") -> bytes:
    """
    Return the tasks of all corpora as one tasks file, repositories in alphabetical order.

    `part`: only of the scripts whose name contains it.
    """
    builder = Builder.of(Sandbox(), Path(__file__))
    paths = [path for corpus in corpora() for path in scripts(corpus) if part in path.stem]
    return as_file([task_of(path, builder) for path in paths if read_script(path).id not in LEFT_OUT])


def as_file(tasks: list[Task]) -> bytes:
    """Return the tasks file that holds these tasks."""
    return b"".join(lines_of_tasks(sorted(tasks, key=lambda task: (task.repository, task.id))))


def task_of(path: Path, builder: Builder) -> Task:
    """Return the task of one script: executes the script, then the tests before and after its repair."""
    script = read_script(path)
    with workplace() as box:
        record(box, path)
        after = read_tree(box.work / script.repository)
    before = read_tree(Path(__file__).parent / "repositories" / script.repository / "tree")
    solution: dict[str, str | None] = {
        name: after.get(name)
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name) and not name.startswith("tests/")
    }
    task = Task(
        id=script.id,
        repository=script.repository,
        problem=[step.text or "" for step in script.steps if step.role == "user"][-1],
        files=before,
        tests={CHECK: script.check},
        solution=solution,
        meta={"defect": script.defect, "licence": "Apache-2.0", "source": "recorded for this project"},
    )
    return _with_names(task, builder)


def _with_names(task: Task, builder: Builder) -> Task:
    """Return the task with the names of its tests: those that its solution mends, and those that always pass."""
    failing, passing = _passed(task, builder, solved=False), _passed(task, builder, solved=True)
    if not passing - failing:
        raise RecordError(f"{task.id}: no test fails before the repair and passes after it")
    return msgspec.structs.replace(
        task, fail_to_pass=tuple(sorted(passing - failing)), pass_to_pass=tuple(sorted(passing & failing))
    )


def _passed(task: Task, builder: Builder, *, solved: bool) -> set[str]:
    with Place(python=builder.view.python) as place:
        place.put(solved_files(task) if solved else task.files)
        return set(verify(task, place.work, place.uid, builder).passed)


def solved_files(task: Task) -> dict[str, str]:
    """Return the repository with the known good solution in it."""
    changed = {**task.files, **task.solution}
    return {name: text for name, text in changed.items() if text is not None}
