"""Where tasks are worked on and judged: own ones in a sandbox with their files, SWE-bench instances in their image."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from soak.app.agent.instances import Instances
from soak.app.agent.verify import Verdict, verify
from soak.app.agent.walls import Builder, Walls, limits_of
from soak.facts import Sandbox, Task
from soak.sandbox import Ended, Limits


class Workbench(Protocol):
    """One task being worked on."""

    def run(self, command: str, limits: Limits, stopped: Callable[[], bool] = ...) -> Ended:
        """Run a bash command in the repository."""
        ...

    def judge(self, stopped: Callable[[], bool]) -> Verdict | None:
        """Return whether the work as it stands resolves the task; None if nothing of the repository was changed."""
        ...


@dataclass(frozen=True, kw_only=True)
class Workshop:
    """Opens a workbench for each task. `limits` hold for each command."""

    limits: Limits
    own: Builder | None
    instances: Instances | None

    @classmethod
    def of(cls, wanted: Sandbox, tasks: Sequence[Task], tasks_file: Path) -> "Workshop":
        """Return what a scenario's tasks need; raises `SandboxError` or `UsageError` if this machine lacks it."""
        images = [task for task in tasks if task.image is not None]
        return cls(
            limits=limits_of(wanted),
            own=Builder.of(wanted, tasks_file) if len(images) < len(tasks) else None,
            instances=Instances.of(wanted, images) if images else None,
        )

    def open(self, task: Task, stopped: Callable[[], bool]) -> AbstractContextManager[Workbench]:
        """Open the task's workbench; it is gone at the end. Raises `SandboxError`."""
        if task.image is not None and self.instances is not None:
            return self.instances.open(task, stopped)
        assert self.own is not None
        return _own(self.own, task)


@dataclass(frozen=True, kw_only=True)
class _Own:
    """A task that carries its repository."""

    builder: Builder
    task: Task
    walls: Walls

    def run(self, command: str, limits: Limits, stopped: Callable[[], bool] = lambda: False) -> Ended:
        return self.walls.run(command, limits, stopped)

    def judge(self, stopped: Callable[[], bool]) -> Verdict | None:
        place = self.walls.place
        if not place.changed(self.task.files):
            return None
        return verify(self.task, place.work, place.uid, self.builder, stopped)


@contextmanager
def _own(builder: Builder, task: Task) -> Iterator[Workbench]:
    with builder.open(task) as walls:
        yield _Own(builder=builder, task=task, walls=walls)
