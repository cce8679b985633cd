"""Instances of SWE-bench through the program, in real containers of an image made here; skipped without a runtime."""

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from rigs.cli import Command, Fake, wait_until
from rigs.image import make_image

from soak.errors import SandboxError
from soak.importers import find_tasks
from soak.sandbox import Runtime
from soak.store import RunFolder

Soak = Callable[..., Command]
IMAGE = f"localhost/soak-test-{os.getpid()}:latest"
NAMES = ("gold", "idle", "cheat")
WITHIN_S = 240.0  # a container for each task and one for its tests, on a machine that may be busy

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def runtime() -> Runtime:
    """A runtime that works here, podman first: it needs no daemon."""
    for name in ("podman", "docker"):
        try:
            found = Runtime.find(name)
            found.refuse_without_limits()
        except SandboxError as error:
            reason = f"{error.what}: {error.why}"
        else:
            return found
    pytest.skip(reason)


@pytest.fixture(scope="module")
def row(runtime: Runtime, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """A row whose image is here."""
    yield make_image(runtime, IMAGE, tmp_path_factory.mktemp("image"))
    runtime.ask("rmi", "--force", IMAGE)


@pytest.fixture(scope="module")
def rows(row: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The row three times, told apart by their statements."""
    path = tmp_path_factory.mktemp("rows") / "rows.jsonl"
    lines = ({**row, "instance_id": f"soak__{name}", "problem_statement": f"This is {name}."} for name in NAMES)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@pytest.fixture(scope="module")
def server(rows: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fake]:
    """A server that mends one, hands in one unchanged, and one with tests bent to pass."""
    ways = ("--empty", "soak__idle", "--cheats", "soak__cheat")
    with Fake(tmp_path_factory.mktemp("server"), "--tasks", rows, *ways) as server:
        yield server


@pytest.fixture
def order(runtime: Runtime, rows: Path) -> tuple[str, ...]:
    sets = (f"corpus={rows}", "sandbox.kind=container", f"sandbox.runtime={runtime.name}", "load.in_flight=2")
    return ("run", "--scenario", "swe_tasks", *(word for text in sets for word in ("--set", text)), "--run", "run")


def ends(folder: Path) -> dict[str, tuple[str, int]]:
    with RunFolder.open(folder).history() as history:
        return {end.episode: (end.reason, end.counts["resolved"]) for end in history.conversation_ends()}


def ours(runtime: Runtime, pid: int | str = "") -> list[str]:
    """Return the containers of this test image, of one process if it is named."""
    told = runtime.ask("ps", "--all", "--filter", "label=soak.host", "--format", "{{.Names}} {{.Image}}").out
    return [line for line in told.splitlines() if IMAGE in line and line.startswith(f"soak-{pid}")]


def test_only_the_gold_patch_resolves(
    begin: Soak, server: Fake, order: tuple[str, ...], runtime: Runtime, tmp_path: Path
) -> None:
    """The recorded repair is resolved; nothing and tests bent to pass are not; nothing is left."""
    command = begin(*order, "--target", server.url, "--json").wait(WITHIN_S)
    (arm,) = command.json["arms"].values()
    assert (arm["tasks"]["ended"], arm["tasks"]["resolved"]) == (3, 1), command.err
    assert ends(tmp_path / "run") == {
        "soak__gold": ("submitted", 1),
        "soak__idle": ("submitted_empty", 0),
        "soak__cheat": ("submitted", 0),
    }
    with RunFolder.open(tmp_path / "run").history() as history:
        said = [end.text for end in history.conversation_ends() if end.episode == "soak__gold"]
    assert "judged by" in said[0]
    assert ours(runtime) == []


def test_after_a_kill_the_next_start_sweeps_and_goes_on(
    begin: Soak, server: Fake, order: tuple[str, ...], runtime: Runtime, tmp_path: Path
) -> None:
    """After SIGKILL its containers are still there; resuming removes them and comes to the same end."""
    one = ("--set", "agent.tasks=[soak__gold]")
    command = begin(*order, *one, "--target", server.url)
    left = wait_until(lambda: ours(runtime, command.pid), within_s=WITHIN_S, what="a container")
    command.signal(signal.SIGKILL)
    command.wait()
    assert ours(runtime, command.pid) == left
    begin("resume", "run").wait(WITHIN_S)
    assert ends(tmp_path / "run") == {"soak__gold": ("submitted", 1)}
    assert ours(runtime) == []


def test_own_tasks_work_in_containers(
    begin: Soak, fake: Callable[..., Fake], runtime: Runtime, row: dict[str, Any]
) -> None:
    """Tasks that carry their repository are worked on and judged in containers of an image that the scenario names."""
    sets = ("agent.tasks=[pocket-duration]", "sandbox.kind=container", f"sandbox.runtime={runtime.name}")
    words = (word for text in (*sets, f"sandbox.image={IMAGE}") for word in ("--set", text))
    server = fake("--tasks", find_tasks("swe_tasks").resolve())
    command = begin("run", "--scenario", "swe_tasks", *words, "--target", server.url, "--json").wait(WITHIN_S)
    (arm,) = command.json["arms"].values()
    assert (arm["tasks"]["ended"], arm["tasks"]["resolved"]) == (1, 1), command.err
    assert ours(runtime) == []


def test_an_image_that_cannot_be_had_loses_nothing(
    begin: Soak, server: Fake, row: dict[str, Any], order: tuple[str, ...], tmp_path: Path
) -> None:
    """An image that is not here and has no registry is named with the command that fetches it; what has run is kept."""
    rows = tmp_path / "two.jsonl"
    absent = {**row, "instance_id": "soak__absent", "image": "127.0.0.1:9/nothing:latest"}
    gold = {**row, "instance_id": "soak__gold", "problem_statement": "This is gold."}
    rows.write_text("".join(json.dumps(line) + "\n" for line in (gold, absent)))
    sets = ("--set", f"corpus={rows}", "--set", "load.in_flight=1")
    command = begin(*order, *sets, "--target", server.url).wait(WITHIN_S)
    assert command.code == 5
    what, _, hint = command.error_lines()
    assert "127.0.0.1:9/nothing:latest" in what
    assert "pull 127.0.0.1:9/nothing:latest" in hint
    assert ends(tmp_path / "run") == {"soak__gold": ("submitted", 1)}
