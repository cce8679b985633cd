"""What tests of all kinds share."""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from rigs.cli import Nursery
    from rigs.planting import PlantedEngine


@pytest.fixture(scope="session")
def nursery(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[Nursery]":
    """Makes `soak` commands quickly, each in a process of its own."""
    from rigs.cli import Nursery  # here, so that tests of one room need no other room

    made = Nursery(tmp_path_factory.mktemp("commands"))
    yield made
    made.close()


@pytest.fixture(scope="session")
def engine_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real engine: the one that `SOAK_TEST_ENGINE_URL` names, else the embedded build, started for these tests."""
    url = os.environ.get("SOAK_TEST_ENGINE_URL")
    if url:
        yield url
        return
    from soak.launch import LOCAL, Progress, prepare, start  # makes an environment of gigabytes: only on demand

    def report(progress: Progress) -> None:
        print(f"{progress.step}: {progress.detail}")  # noqa: T201 - shown by pytest if it fails

    log = tmp_path_factory.mktemp("engine") / "engine.log"
    with start(prepare(LOCAL, report), log_path=log, report=report) as server:
        yield server.url


@pytest.fixture(scope="session")
def planted_server(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[PlantedEngine]":
    """A real engine beside the other, in which faults can be planted (tests/planted)."""
    from rigs.planting import planted_engine

    with planted_engine(tmp_path_factory.mktemp("planted"), lambda step: None) as engine:
        yield engine


@pytest.fixture
def planted(planted_server: "PlantedEngine") -> "Iterator[PlantedEngine]":
    """The engine for planted faults, with none when a test begins and none when it has ended."""
    planted_server.plant("")
    yield planted_server
    planted_server.plant("")
