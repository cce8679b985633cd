"""Agent replay on the embedded local build: a real model, a real agent, real commands, from one command."""

from collections.abc import Callable

import pytest
from rigs.cli import Command
from rigs.walls import skip_without_walls

from soak.errors import LaunchError
from soak.launch import LOCAL, prepare

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1800)]


@pytest.fixture(autouse=True, scope="module")
def local_build() -> None:
    """The build and the walls are there; where they cannot be had, these tests are skipped with the reason."""
    skip_without_walls()
    try:
        prepare(LOCAL)
    except LaunchError as error:
        pytest.skip(f"the embedded local build cannot be had: {error.why}")


def test_three_tasks_on_the_local_build(begin: Callable[..., Command]) -> None:
    """A model of 135M solves none, but every task comes to an end of a known kind and every turn is judged."""
    command = begin(
        "run", "--scenario", "swe_tasks", "--set", "agent.tasks=[pocket-boundary, pocket-duration, pocket-units]",
        "--set", "agent.step_limit=2", "--set", "sampling.max_tokens=16", "--in-flight", 3, "--run", "run", "--json",
    )  # fmt: skip
    command.said("run begins", 900.0).wait(600)
    (arm,) = command.json["arms"].values()
    tasks = arm["tasks"]
    assert (tasks["planned"], tasks["ended"]) == (3, 3)
    assert set(tasks["ends"]) <= {"step_limit", "submitted_empty", "format_errors", "loop_killed"}
    assert 3 <= arm["turns"]["finished"] == tasks["turns"] <= 6
    assert arm["turns"]["error"] == 0
    assert command.json["state"] == "complete"
