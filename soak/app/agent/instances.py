"""
Instances of SWE-bench: the agent works in a container of the instance's image, a second one that it never saw decides.

What is handed in is the difference to the repository as it was. As SWE-bench does, it is applied in a fresh container
of the same image, so nothing else the agent did there counts: no process, no installed package, no changed git. Files
that the instance's test patch touches are put back as they were, and so is each conftest.py that the known solution
leaves alone, since pytest would obey it; then the instance's tests run (`grading.py`).
"""

import base64
import binascii
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from soak.app.agent.grading import Rule, rule_for, touched
from soak.app.agent.verify import Verdict
from soak.app.agent.walls import limits_of
from soak.errors import SandboxError
from soak.facts import Sandbox, Task
from soak.sandbox import Ended, Instance, Limits, Runtime

WORK_AT = "/testbed"
_TESTS_WITHIN_S = 1800.0  # what SWE-bench's own harness gives them
_TESTS_OUTPUT_BYTES = 32 << 20
_GIT_WITHIN_S = 120.0
_DIFF_BYTES = 16 << 20
# Longer than a task and its tests may take; a container whose soak was killed ends by itself then.
_LIFE_S = 24 * 3600.0
_FOLDER = "/tmp/soak"
_HEAD = "git rev-parse HEAD"
_DIFF = (
    "git add --all && git -c core.fileMode=false -c core.quotePath=false diff --cached --binary --full-index"
    " --no-color --no-ext-diff --no-textconv {start} 2>/dev/null | base64 -w 0"
)
_APPLY = f"""
git apply --whitespace=nowarn {_FOLDER}/handed_in.diff || exit 1
while IFS= read -r -d '' path; do
  rm -rf -- "$path"
  if git cat-file -e "HEAD:$path" 2>/dev/null; then git checkout --quiet HEAD -- ":(literal)$path" || exit 1; fi
done < {_FOLDER}/put_back
"""


@dataclass(frozen=True, kw_only=True)
class Instances:
    """Opens containers for instances. `limits` hold for each command, those on memory and processes for a container."""

    limits: Limits
    runtime: Runtime

    @classmethod
    def of(cls, wanted: Sandbox, tasks: Sequence[Task]) -> "Instances":
        """
        Return what opens the instances that a scenario works on, whose first image is fetched if it is not here.

        Raises `SandboxError` where there is no container runtime, or it is not asked for, or the image cannot be had;
        and `UsageError` for an instance whose tests nothing here can judge.
        """
        first = tasks[0]
        if wanted.kind != "container":
            raise SandboxError(
                f"{first.id} cannot be worked on in {wanted.kind}",
                why=f"{len(tasks)} tasks are instances of SWE-bench, whose repositories are in container images",
                hint="set sandbox.kind=container where docker or podman runs, or choose tasks that carry their"
                " repository (scenarios/tasks/README.md)",
            )
        for task in tasks:
            rule_for(task)
        runtime = Runtime.find(wanted.runtime)
        runtime.refuse_without_limits()
        runtime.sweep()
        runtime.image(str(first.image))
        return cls(limits=limits_of(wanted), runtime=runtime)

    @contextmanager
    def open(self, task: Task, stopped: Callable[[], bool]) -> Iterator["InstanceBench"]:
        """Open a container of the task's image, fetched if need be; raises `SandboxError`."""
        image = self.runtime.image(str(task.image), stopped)
        with self._container(image) as container:
            yield InstanceBench(
                task, container, start=self._start(task, container), fresh=lambda: self._container(image)
            )

    def _container(self, image: str) -> Instance:
        return Instance(self.runtime, image, limits=self.limits, life_s=_LIFE_S, work_at=WORK_AT)

    def _start(self, task: Task, container: Instance) -> str:
        """Return the commit that the work begins at."""
        ended = container.run(_HEAD, replace(self.limits, time_s=_GIT_WITHIN_S))
        start = ended.output.strip()
        if ended.code != 0 or not start.isalnum():
            raise SandboxError(
                f"the repository of {task.id} cannot be used",
                why=f"git in {WORK_AT} of {task.image} ended with {ended.code} ({ended.ended}): {start[-300:]}",
                hint=f"an image of SWE-bench has the repository as a git checkout in {WORK_AT}, bash and git",
            )
        return start


class InstanceBench:
    """One instance being worked on; see `workshop.Workbench`."""

    def __init__(self, task: Task, container: Instance, *, start: str, fresh: Callable[[], Instance]) -> None:
        """`start` is the commit the work begins at; `fresh` gives another container of the same image."""
        self._task = task
        self._container = container
        self._start = start
        self._fresh = fresh

    def run(self, command: str, limits: Limits, stopped: Callable[[], bool] = lambda: False) -> Ended:
        """Run a bash command in the repository."""
        return self._container.run(command, limits, stopped)

    def judge(self, stopped: Callable[[], bool]) -> Verdict | None:
        """Return whether what was handed in resolves the instance; None if nothing was changed."""
        diff = self._diff(stopped)
        if diff == b"":
            return None
        rule = rule_for(self._task)
        if diff is None:
            return rule.failed("the difference to the repository as it was is too big, or git does not say it")
        with self._fresh() as clean:
            return _judged(clean, diff, rule, stopped)

    def _diff(self, stopped: Callable[[], bool]) -> bytes | None:
        """Return what was changed; None if that cannot be told: the agent may have done anything in there."""
        limits = Limits(time_s=_GIT_WITHIN_S, output_bytes=_DIFF_BYTES, disk_bytes=1 << 60)
        ended = self._container.run(_DIFF.format(start=self._start), limits, stopped)
        if ended.code != 0:
            return None
        try:
            return base64.b64decode(ended.output, validate=True)
        except (binascii.Error, ValueError):
            return None


def _judged(clean: Instance, diff: bytes, rule: Rule, stopped: Callable[[], bool]) -> Verdict:
    """Return the verdict over `diff` in a container that the agent never saw."""
    limits = Limits(time_s=_TESTS_WITHIN_S, output_bytes=_TESTS_OUTPUT_BYTES, disk_bytes=1 << 60)
    clean.put(f"{_FOLDER}/handed_in.diff", diff)
    clean.put(f"{_FOLDER}/put_back", b"".join(path.encode() + b"\0" for path in _put_back(diff, rule)))
    applied = clean.run(_APPLY, limits, stopped)
    if applied.code != 0:
        return rule.failed("what was handed in cannot be applied", applied.output)
    for name, data in rule.files.items():
        clean.put(f"{_FOLDER}/{name}", data)
    ended = clean.run(f"/bin/bash {_FOLDER}/{rule.script}", limits, stopped)
    if ended.ended != "exit":
        return rule.failed(f"the tests were ended: {ended.ended}", ended.output)
    return rule.grade(ended.output)


def _put_back(diff: bytes, rule: Rule) -> tuple[str, ...]:
    """Return the paths in which nothing that was handed in counts."""
    changed = touched(diff.decode("utf-8", "replace"))
    steering = (path for path in changed if PurePosixPath(path).name == "conftest.py" and path not in rule.solution)
    return (*rule.test_files, *steering)
