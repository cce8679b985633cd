"""The whole program on the embedded local build: a real vLLM, started and ended by soak."""

import json
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from rigs.cli import Command, ends_of, processes_holding, wait_until

from soak.errors import LaunchError
from soak.launch import LOCAL, prepare
from soak.store import RunFolder

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1800)]

Soak = Callable[..., Command]
ORDER = ("run", "--scenario", "smoke", "--set", "sampling.max_tokens=32", "--run", "run", "--json")
READY_S = 900.0


@pytest.fixture(autouse=True, scope="module")
def local_build() -> None:
    """The build lies ready; where it cannot be had, these tests are skipped with the reason."""
    try:
        prepare(LOCAL)
    except LaunchError as error:
        pytest.skip(f"the embedded local build cannot be had: {error.why}")


def test_a_run_on_the_local_build(begin: Soak, tmp_path: Path) -> None:
    """Without a target a real vLLM is started, tested with speculation and prefix cache at work, and ended."""
    command = begin(*ORDER, "--turns", 4)
    command.said("starting the embedded local build").said("run begins", READY_S)
    log = tmp_path / "run" / "engine-candidate.log"
    assert set(processes_holding(log)) - {command.pid}, "the engine's processes write to the log in the run folder"
    command.wait(600)
    (arm,) = command.json["arms"].values()
    assert arm["turns"]["finished"] == 4
    assert arm["turns"]["error"] == 0
    assert arm["speculation"]["acceptance_length"] is not None
    assert arm["prefix_cache"]["hits"] > 0
    assert (arm["build"]["engine"], arm["build"]["version"]) == ("vllm", LOCAL.version)
    assert arm["build"]["speculative"]["method"] == "ngram"
    wait_until(lambda: not processes_holding(log), what="the end of the engine's processes")
    assert "vllm" in log.read_text("utf-8", "replace").lower()


def test_the_engines_own_guard_is_asked_for_and_recorded(begin: Soak, engine_url: str, tmp_path: Path) -> None:
    """Parameters of the guard in `extra_body` reach vLLM, stand in the manifest, and its endings are garbage loops."""
    guard = {"max_pattern_size": 64, "min_count": 2}  # two copies: no six answers of a small model are without
    asked = ("--set", f"extra_body={json.dumps({'repetition_detection': guard})}", "--set", "sampling.temperature=0")
    command = begin(*ORDER, "--target", engine_url, "--turns", 6, *asked, "--set", "sampling.max_tokens=300")
    command.wait(READY_S)
    folder = RunFolder.open(tmp_path / "run")
    assert folder.manifest.scenario["extra_body"] == {"repetition_detection": guard}
    with folder.history() as history:
        records = [record for record in history.final().values() if record.observation and record.judgement]
    ended = [record for record in records if record.observation.finish_reason == "repetition"]
    assert ended
    assert {record.judgement.class_ for record in ended} == {"garbage_loop"}
    (arm,) = command.json["arms"].values()
    assert arm["engine"]["success"]["repetition"] == len(ended)


def test_a_killed_soak_leaves_no_engine_behind(begin: Soak, tmp_path: Path) -> None:
    """SIGKILL of soak in mid-run ends the engine as well, and resume starts another and goes on."""
    command = begin(*ORDER, "--turns", 4).said("run begins", READY_S)
    log = tmp_path / "run" / "engine-candidate.log"
    wait_until(lambda: set(processes_holding(log)) - {command.pid}, what="the engine's processes")
    command.signal(signal.SIGKILL)
    command.wait()
    wait_until(lambda: not processes_holding(log), within_s=60, what="the end of the engine's processes")
    resumed = begin("resume", "run", "--json").wait(READY_S)
    assert resumed.json["state"] == "complete"
    done = ends_of(tmp_path / "run")["finished"]
    assert len(done) == len(set(done)) == 4
    wait_until(lambda: not processes_holding(log), what="the end of the engine's processes")


def test_ctrl_c_ends_the_engine_too(begin: Soak, tmp_path: Path) -> None:
    """Ctrl-C while the engine is still starting ends soak with 130 and leaves nothing behind."""
    command = begin(*ORDER).said("starting the embedded local build")
    log = tmp_path / "run" / "engine-candidate.log"
    wait_until(lambda: set(processes_holding(log)) - {command.pid}, within_s=120, what="the engine's processes")
    command.signal(signal.SIGINT)
    assert command.wait(60).code == 130
    wait_until(lambda: not processes_holding(log), within_s=60, what="the end of the engine's processes")
