"""The program in processes, servers in processes, and small inputs."""

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from rigs.cli import Command, Fake, Nursery


@pytest.fixture
def begin(nursery: Nursery, tmp_path: Path) -> Iterator[Callable[..., Command]]:
    """Begin `soak ARGS` in the test's own folder; what still runs at the end is killed."""
    commands: list[Command] = []

    def begin(*args: object, cwd: Path = tmp_path, **options: Any) -> Command:
        commands.append(nursery.begin(*args, cwd=cwd, **options))
        return commands[-1]

    yield begin
    for command in commands:
        command.signal(signal.SIGKILL)


@pytest.fixture
def soak(begin: Callable[..., Command]) -> Callable[..., Command]:
    """Run `soak ARGS` to its end."""
    return lambda *args, **options: begin(*args, **options).wait()


@pytest.fixture
def fake(tmp_path: Path) -> Iterator[Callable[..., Fake]]:
    """Start fake servers, each in a process of its own; they end with the test."""
    servers: list[Fake] = []

    def fake(*args: object, **options: Any) -> Fake:
        servers.append(Fake(tmp_path, *args, **options))
        return servers[-1].start()

    yield fake
    for server in servers:
        server.kill()


@pytest.fixture(scope="session")
def steady(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fake]:
    """A server that answers everything well, for all tests that do no more than talk to it."""
    with Fake(tmp_path_factory.mktemp("steady"), "--rates", "none") as server:
        yield server
