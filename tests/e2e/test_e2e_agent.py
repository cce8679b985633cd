"""Agent replay through the program: mini-swe-agent, a server that knows the solutions, real commands in a sandbox."""

import json
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from rigs.cli import Command, Fake, wait_until
from rigs.walls import skip_without_walls

from soak.importers import find_tasks
from soak.store import RunFolder

Soak = Callable[..., Command]
THREE = ("pocket-boundary", "pocket-units", "pocket-duration")
RUN = ("run", "--scenario", "swe_tasks", "--set", "load.in_flight=2")
ORDER = (*RUN, "--set", f"agent.tasks=[{', '.join(THREE)}]")
NOWHERE = "http://127.0.0.1:9"
TASKS = str(find_tasks("swe_tasks").resolve())


def only(*tasks: str) -> tuple[str, ...]:
    """Return a run of these tasks."""
    return (*RUN, "--set", f"agent.tasks=[{', '.join(tasks)}]")


@pytest.fixture(autouse=True, scope="module")
def walls() -> None:
    skip_without_walls()


@pytest.fixture(scope="module")
def solver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fake]:
    """A server that solves every task but pocket-units, which it hands in unchanged."""
    with Fake(tmp_path_factory.mktemp("solver"), "--tasks", TASKS, "--empty", "pocket-units") as server:
        yield server


def test_two_of_three_tasks_are_resolved(soak: Soak, solver: Fake, tmp_path: Path) -> None:
    """Native tool calls: what is mended is resolved, what is handed in unchanged is not; all of it is in the run."""
    command = soak(*ORDER, "--target", solver.url, "--run", "run", "--json", env={"SOAK_API_KEY": "canary-4713"})
    (arm,) = command.json["arms"].values()
    tasks = arm["tasks"]
    assert (tasks["planned"], tasks["ended"], tasks["resolved"], tasks["submitted_empty"]) == (3, 3, 2, 1)
    assert tasks["ends"] == {"submitted": 2, "submitted_empty": 1}
    assert arm["turns"]["finished"] == arm["turns"]["planned"] == tasks["turns"] == 9
    assert arm["turns"]["ok"] == 9
    assert command.json["plan"]["tasks"] == 3
    assert "2 of 3" in command.err
    assert b"canary" not in b"".join(path.read_bytes() for path in (tmp_path / "run").iterdir())
    assert RunFolder.open(tmp_path / "run").manifest.environment["mini-swe-agent"].startswith("2.")  # its prompts
    again = soak("check", "run", "--json").json
    assert again["arms"] == command.json["arms"]
    assert soak("compare", "run", "run", "--json").json["tasks"]["result"] == "inconclusive"


def test_what_the_agent_saw_and_did_can_be_read_again(soak: Soak, solver: Fake, tmp_path: Path) -> None:
    """The history holds each task's end and its whole conversation: statement, commands, and their real outputs."""
    soak(*only("pocket-duration"), "--target", solver.url, "--run", "run", "--set", "tools=text")
    with RunFolder.open(tmp_path / "run").history() as history:
        (end,) = history.conversation_ends()
        assert end.counts["resolved"] == 1
        assert end.counts["tests_passed"] == end.counts["tests"]
        assert end.last is not None
        told = "\n".join(str(message.content) for message in history.prefix(end.last))
    assert "parse_duration" in told
    assert "pocket/__init__.py |" in told
    assert "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT" in told


def test_a_loop_ends_its_task_and_costs_it(soak: Soak, fake: Callable[..., Fake]) -> None:
    """A model that falls into a loop loses that task as loop_killed, after as many loops as the scenario allows."""
    server = fake("--tasks", TASKS, "--loops", "pocket-units", "--wrong", "pocket-duration")
    sets = ("--set", "agent.loops_max=2", "--set", "sampling.max_tokens=2000")
    command = soak(*only("pocket-units", "pocket-duration"), *sets, "--target", server.url, "--json")
    (arm,) = command.json["arms"].values()
    assert arm["tasks"]["ends"] == {"loop_killed": 1, "submitted": 1}
    assert arm["tasks"]["resolved"] == 0
    assert arm["turns"]["garbage_loop"] == 2


def test_steps_are_limited(soak: Soak, solver: Fake) -> None:
    """An agent that needs more steps than it is given ends at the limit, unresolved."""
    order = only("pocket-boundary")
    command = soak(*order, "--target", solver.url, "--json", "--set", "agent.step_limit=2")
    (arm,) = command.json["arms"].values()
    assert arm["tasks"]["ends"] == {"step_limit": 1}
    assert arm["tasks"]["step_limit"] == 1
    assert arm["turns"]["finished"] == 2


def test_two_arms_are_compared_task_by_task(soak: Soak, solver: Fake, fake: Callable[..., Fake]) -> None:
    """With two arms every task is worked on in both, and `compare` pairs tasks and leaves turns unpaired."""
    worse = fake("--tasks", TASKS, "--empty", "pocket-boundary,pocket-units")
    arms = ("--arm", f"baseline={solver.url}", "--arm", f"candidate={worse.url}")
    soak(*only("pocket-boundary", "pocket-units"), *arms, "--run", "run", "--set", "thresholds.min_turns=2")
    comparison = soak("compare", "run", "--json").json
    tasks = comparison["tasks"]
    assert (tasks["pairs"], tasks["baseline"], tasks["candidate"]) == (2, 1, 0)
    assert tasks["discordant"] == {"baseline_only": 1, "candidate_only": 0}
    assert tasks["p_value"] == 1.0
    assert comparison["pairs"] == 0
    assert comparison["invalid"] == []
    assert "Tasks resolved: 1 → 0 of 2" in comparison["sentence"]
    told = soak("compare", "run", "--markdown").out
    assert "tasks resolved: 1 → 0 of 2" in told


def test_a_killed_run_goes_on_with_the_tasks_that_lack_an_end(begin: Soak, solver: Fake, tmp_path: Path) -> None:
    """After SIGKILL finished tasks stay finished; a task that was begun is begun again with its stored answers."""
    order = (*only("pocket-boundary", "pocket-duration"), "--set", "load.in_flight=1")
    command = begin(*order, "--target", solver.url, "--run", "run", "--json")

    def ended() -> int:
        if not (tmp_path / "run" / "manifest.json").exists():
            return 0
        with RunFolder.open(tmp_path / "run").history() as history:
            return sum(1 for _ in history.conversation_ends())

    wait_until(lambda: ended() >= 1, within_s=60, what="the end of a task")
    command.signal(signal.SIGKILL)
    command.wait()
    resumed = begin("resume", "run", "--json").wait(90)
    (arm,) = resumed.json["arms"].values()
    assert (arm["tasks"]["ended"], arm["tasks"]["resolved"], arm["tasks"]["drifted"]) == (2, 2, 0)
    assert arm["turns"]["finished"] == 8
    assert resumed.json["state"] == "complete"


@pytest.fixture
def bare(tmp_path: Path) -> dict[str, str]:
    """An environment whose PATH has all that a sandbox needs but bubblewrap."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("bash", "git", "prlimit", "setpriv", "rm"):
        (tools / name).symlink_to(shutil.which(name) or "/bin/false")
    return {"PATH": str(tools)}


def test_without_bubblewrap_nothing_is_run(soak: Soak, bare: dict[str, str], tmp_path: Path) -> None:
    """Where bubblewrap is missing the run is refused with exit code 5 and what to install, before a turn is sent."""
    command = soak(*ORDER, "--target", NOWHERE, "--run", "run", env=bare)
    assert command.code == 5
    what, why, hint = command.error_lines()
    assert "bwrap" in why
    assert "apt-get install bubblewrap" in hint
    assert "cannot be run shut away" in what
    assert not (tmp_path / "run").exists()


def test_without_bubblewrap_nothing_is_resumed(soak: Soak, fake: Callable[..., Fake], bare: dict[str, str]) -> None:
    """A run that goes on elsewhere is refused in the same words before any server is started or asked."""
    server = fake("--tasks", TASKS)
    soak(*only("pocket-units"), "--target", server.url, "--run", "run", "--set", "agent.step_limit=1")
    server.kill()
    command = soak("resume", "run", env=bare)
    assert command.code == 5
    assert "bwrap" in command.error_lines()[1]


def test_a_container_without_a_runtime_is_refused(soak: Soak) -> None:
    """A scenario that wants containers is refused with exit code 5 where no runtime answers."""
    sets = ("--set", "sandbox.kind=container", "--set", "sandbox.image=python:3.11", "--set", "sandbox.runtime=docker")
    command = soak(*ORDER, *sets, "--target", NOWHERE, env={"DOCKER_HOST": "tcp://127.0.0.1:9"})
    assert command.code == 5
    assert "no container runtime answers" in command.error_lines()[0]


def test_instances_of_swe_bench_need_a_container_runtime(soak: Soak, tmp_path: Path) -> None:
    """Rows of SWE-bench are read as tasks; without a runtime that answers, or in bubblewrap, the exit code is 5."""
    row = {
        "instance_id": "astropy__astropy-12907",
        "repo": "astropy/astropy",
        "base_commit": "d16bfe05a744909de4b27f5875fe0d4ed41ce607",
        "problem_statement": "separability_matrix does not compute separability correctly",
        "test_patch": "diff --git a/x b/x",
        "FAIL_TO_PASS": '["astropy/modeling/tests/test_separable.py::test_separable"]',
        "PASS_TO_PASS": "[]",
    }
    rows = tmp_path / "rows.jsonl"
    rows.write_text(json.dumps(row) + "\n")
    order = ("run", "--scenario", "swe_tasks", "--set", f"corpus={rows}", "--target", NOWHERE)
    command = soak(*order)
    assert command.code == 5
    _, why, hint = command.error_lines()
    assert "SWE-bench" in why
    assert "sandbox.kind=container" in hint
    docker = ("--set", "sandbox.kind=container", "--set", "sandbox.runtime=docker")
    command = soak(*order, *docker, env={"DOCKER_HOST": "tcp://127.0.0.1:9"})
    assert command.code == 5
    assert "no container runtime answers" in command.error_lines()[0]


def test_tasks_with_a_repository_need_an_image_in_containers(soak: Soak) -> None:
    """Tasks that carry their repository are refused in containers without an image, as wrong usage."""
    command = soak(*ORDER, "--set", "sandbox.kind=container", "--target", NOWHERE)
    assert command.code == 2
    assert "sandbox.image" in command.error_lines()[2]


def test_a_task_that_is_not_there_is_refused(soak: Soak) -> None:
    """A chosen task that the tasks file does not have is a usage error that names those it has."""
    command = soak(
        "run", "--scenario", "swe_tasks", "--set", "agent.tasks=[pocket-nothing]", "--target", "http://127.0.0.1:9"
    )
    assert command.code == 2
    assert "pocket-boundary" in command.error_lines()[1]
