"""The sandbox a scenario asks for: looked at once before a run, opened for each task."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import soak
from soak.errors import SandboxError, UsageError
from soak.facts import Sandbox, Task
from soak.sandbox import Bubblewrap, Container, Ended, Limits, Place, Runtime, View

_MIB, _KIB = 1 << 20, 1 << 10
TEST_PACKAGES = ("pytest", "_pytest", "pluggy", "iniconfig", "packaging", "pygments")
JUDGE_AT = Path("/opt/judge")
_RUNNER = Path(soak.__file__).parent / "sandbox" / "inside" / "run_tests.py"


class Walls(Protocol):
    """Where commands run; see `sandbox.Bubblewrap`."""

    place: Place

    def run(self, command: str, limits: Limits, stopped: Callable[[], bool] = ...) -> Ended:
        """Run a bash command in the repository."""
        ...


@dataclass(frozen=True, kw_only=True)
class Builder:
    """Opens sandboxes of one kind. `limits` hold for each command."""

    limits: Limits
    view: View
    runtime: Runtime | None = None
    image: str | None = None

    @classmethod
    def of(cls, wanted: Sandbox, tasks_file: Path) -> "Builder":
        """
        Return what opens the sandboxes of a scenario; `tasks_file` (the hidden tests!) and soak itself do not show.

        Raises `SandboxError` if this machine cannot do it.
        """
        Place.sweep()
        hidden = (Path(soak.__file__).parent, tasks_file.resolve().parent)
        view = View.of_this_interpreter(packages=TEST_PACKAGES, hidden=hidden)
        limits = limits_of(wanted)
        if wanted.kind == "bubblewrap":
            Bubblewrap.refuse_if_unusable(view)
            return cls(limits=limits, view=view)
        if wanted.image is None:
            raise UsageError(
                "no container image is named for the tasks",
                why="these tasks carry their repository, so any image with bash, git and a Python with pytest will do",
                hint="add sandbox.image to the scenario (only instances of SWE-bench bring an image of their own)",
            )
        runtime = Runtime.find(wanted.runtime)
        runtime.refuse_without_limits()
        runtime.sweep()
        return cls(limits=limits, view=view, runtime=runtime, image=runtime.image(wanted.image))

    @contextmanager
    def open(self, task: Task) -> Iterator[Walls]:
        """Open a sandbox with the task's repository as a clean git checkout in it, and remove it at the end."""
        with Place(python=self.view.python) as place:
            place.put(task.files)
            walls = self._walls(place)
            ended = walls.run(_CHECKOUT, self.limits)
            if ended.code != 0:
                raise SandboxError(
                    f"the repository of {task.id} cannot be set up",
                    why=f"git ended with {ended.code} ({ended.ended}): {ended.output.strip()[-300:]}",
                    hint="install git, or use an image that has it",
                )
            yield walls

    def run_tests(
        self,
        tree: Path,
        uid: int,
        files: dict[str, str],
        given: bytes,
        limits: Limits,
        stopped: Callable[[], bool],
    ) -> Ended:
        """Run the test `files` in a fresh sandbox over `tree`, which shows read-only; `given` is the runner's stdin."""
        with Place(python=self.view.python, uid=uid) as place:
            judge = place.root / "judge"
            (judge / "tests").mkdir(parents=True)
            place.put({**files, "pytest.ini": "[pytest]\n", "run_tests.py": _RUNNER.read_text()}, below=judge)
            walls = self._walls(place, tree=tree, judge=judge)
            return walls.run_program([self._python, "-I", str(JUDGE_AT / "run_tests.py")], limits, stopped, given)

    @property
    def _python(self) -> str:
        return self.view.python if self.image is None else "python"

    def _walls(self, place: Place, tree: Path | None = None, judge: Path | None = None) -> "Bubblewrap | Container":
        shown = () if judge is None else ((judge, JUDGE_AT),)
        if self.image is not None and self.runtime is not None:
            return Container(
                place, runtime=self.runtime, image=self.image, read_only=tree is not None, work=tree, shown=shown
            )
        view = View(mounts=(*self.view.mounts, *shown), hidden=self.view.hidden, python=self.view.python)
        return Bubblewrap(place, view, read_only=tree is not None, work=tree)


def limits_of(wanted: Sandbox) -> Limits:
    """Return the limits on each command that a scenario sets."""
    return Limits(
        time_s=wanted.command_s,
        processes=wanted.processes,
        memory_bytes=wanted.memory_mib * _MIB,
        disk_bytes=wanted.disk_mib * _MIB,
        output_bytes=wanted.output_kib * _KIB,
    )


_CHECKOUT = (
    "git init --quiet --initial-branch=main . && git add --all && "
    "GIT_COMMITTER_DATE=2025-01-01T00:00:00Z git commit --quiet --date=2025-01-01T00:00:00Z --message='As it stands'"
)
