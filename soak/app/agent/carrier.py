"""Agent replay: each conversation of the run is one task, which an agent works on, arm after arm."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from soak.app.agent import mini
from soak.app.agent.attempt import Attempt
from soak.app.agent.workshop import Workshop
from soak.errors import UsageError
from soak.facts import Scenario, Task
from soak.importers import Corpus, load_tasks, tasks_as_corpus
from soak.plan import arm_order
from soak.replay import Floor


def tasks_corpus(scenario: Scenario, path: Path) -> Corpus:
    """
    Return the tasks chosen by an agent scenario from the file `path`, as a corpus with one turn for each.

    Raises `CorpusError`, or `UsageError` for a chosen task that is not there.
    """
    return tasks_as_corpus(path, _chosen(load_tasks(path), scenario.agent.tasks))


def refuse_if_unable(scenario: Scenario, path: Path) -> None:
    """Raise `UsageError` or `SandboxError` if an agent cannot work on these tasks here, before anything is started."""
    _workshop(scenario, path)


class AgentCarrier:
    """Lets the agent work on one task after another; as many at once as conversations are in flight."""

    def __init__(self, scenario: Scenario, path: Path) -> None:
        """Raises `UsageError`, `SandboxError`, `CorpusError`."""
        self._settings = scenario.agent
        self._tasks = {task.id: task for task in load_tasks(path)}
        self._workshop = _workshop(scenario, path)
        self._executor = ThreadPoolExecutor(scenario.load.in_flight, thread_name_prefix="agent")

    async def carry(self, floor: Floor) -> None:
        """Work on one task on every arm that lacks it, AB and BA in turn."""
        conversation = floor.conversation
        for arm in arm_order(conversation, conversation.turns[0], floor.arms):
            if floor.draining:
                return
            if not floor.is_over(arm):
                task = self._tasks[conversation.episode.id]
                attempt = Attempt(task, arm, floor, settings=self._settings, workshop=self._workshop)
                await attempt.run(self._executor)


def _workshop(scenario: Scenario, path: Path) -> Workshop:
    mini.refuse_if_absent()
    return Workshop.of(scenario.sandbox, _chosen(load_tasks(path), scenario.agent.tasks), path)


def _chosen(tasks: Sequence[Task], names: Sequence[str]) -> tuple[Task, ...]:
    known = {task.id: task for task in tasks}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise UsageError(
            f"no task {', '.join(unknown)[:200]}",
            why=f"the tasks file has: {', '.join(known)[:1000]}",
            hint="correct agent.tasks, or leave it out for all of them",
        )
    return tuple(known[name] for name in names) if names else tuple(tasks)
