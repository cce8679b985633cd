import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from launch_builds import gone, scripted

from soak.errors import LaunchError
from soak.launch import Prepared, Progress, prepare, start, state_of_cache

MASTER = """
import sys, urllib.request
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from launch_builds import scripted
import soak.launch.server
from soak.launch import prepare, start
soak.launch.server.GRACE_S = 0.5
with start(prepare(scripted("family")), log_path=Path(sys.argv[2])) as server:
    print(urllib.request.urlopen(server.url).read().decode(), flush=True)
    sys.stdin.read()
"""


def told_by(url: str) -> dict:
    with urllib.request.urlopen(url, timeout=10) as answer:
        return json.load(answer)


def test_a_started_server_answers_and_says_what_it_is(ready: Prepared, tmp_path: Path) -> None:
    """A started server answers at its URL, its build names engine, model and target, and its output is in the log."""
    with start(ready, log_path=tmp_path / "run" / "engine.log") as server:
        assert told_by(server.url)["arguments"] == ["serve", str(server.port)]
        assert server.alive()
        assert server.exit_reason() is None
        assert (server.build.engine, server.build.model, server.build.target) == ("script", "echo", server.url)
    assert not server.alive()
    assert server.exit_reason() == "stopped by soak"
    assert gone(server.pid)
    assert f"port {server.port}" in (tmp_path / "run" / "engine.log").read_text()


def test_a_start_is_one_step(ready: Prepared, tmp_path: Path) -> None:
    """What is told of a start names engine, model and port, and ends once, without the engine's own lines."""
    told: list[Progress] = []
    with start(ready, log_path=tmp_path / "engine.log", report=told.append) as server:
        starts = f"scripted: script 1 with echo on port {server.port}"
        assert {progress.detail.split(" · its log: ")[0] for progress in told} == {starts}
        assert told[-1].detail == starts, "the last line of the log is for the time of waiting"
    assert [progress.ended for progress in told] == [False] * (len(told) - 1) + [True]
    assert told[-1].elapsed_s > 0


def test_the_first_start_is_noted_as_proof(ready: Prepared, tmp_path: Path) -> None:
    """After a server was ready once, the state of the cache says so."""
    assert "not started yet" in state_of_cache(ready.spec).text
    start(ready, log_path=tmp_path / "engine.log").stop()
    assert "when first started" in state_of_cache(ready.spec).text


def test_death_before_ready_is_explained(cache: Path, tmp_path: Path) -> None:
    """A server that dies before it is ready raises an error with its exit code, last line and log tail."""
    with pytest.raises(LaunchError) as caught:
        start(prepare(scripted("die")), log_path=tmp_path / "engine.log")
    assert "exit code 3" in caught.value.why
    assert "no luck today" in caught.value.why
    assert caught.value.log_tail[0].startswith("scripted engine, die, port")
    assert "\x1b" not in "".join(caught.value.log_tail)


def test_death_by_sigkill_is_taken_for_lack_of_memory(cache: Path, tmp_path: Path) -> None:
    """A server killed by signal 9 is reported as such, with memory as the likely cause."""
    with pytest.raises(LaunchError, match="died before it was ready") as caught:
        start(prepare(scripted("killed")), log_path=tmp_path / "engine.log")
    assert "signal 9" in caught.value.why
    assert "memory" in caught.value.why


def test_packages_that_do_not_fit_condemn_the_environment(cache: Path, tmp_path: Path) -> None:
    """An environment whose server dies of an ImportError is no longer taken for ready."""
    spec = scripted("misfit")
    with pytest.raises(LaunchError) as caught:
        start(prepare(spec), log_path=tmp_path / "engine.log")
    assert "a_module_that_is_not_there" in caught.value.why
    assert not state_of_cache(spec).ready


def test_an_old_log_is_not_read_as_the_new_servers(ready: Prepared, tmp_path: Path) -> None:
    """What stood in the log file before this start is kept, and is no reason for anything."""
    log_path = tmp_path / "engine.log"
    log_path.write_text("MemoryError\n")
    with pytest.raises(LaunchError) as caught:
        start(prepare(scripted("die")), log_path=log_path)
    assert "exit code 3" in caught.value.why
    assert log_path.read_text().startswith("MemoryError\n")


def test_a_taken_port_is_named(ready: Prepared, tmp_path: Path) -> None:
    """A port that is in use raises an error that names it, and nothing is started."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(LaunchError, match=f"port {port}"):
            start(ready, log_path=tmp_path / "engine.log", port=port)
    assert not (tmp_path / "engine.log").exists()


@pytest.mark.parametrize("port", [70000, -1])
def test_an_impossible_port_is_refused(ready: Prepared, tmp_path: Path, port: int) -> None:
    """A number that is no port is refused like a taken one."""
    with pytest.raises(LaunchError, match=str(port)):
        start(ready, log_path=tmp_path / "engine.log", port=port)


def test_a_server_that_never_answers_is_given_up(cache: Path, tmp_path: Path) -> None:
    """A server that is not ready in time is stopped; its last line is shown meanwhile, and the error gives it."""
    told: list[Progress] = []
    with pytest.raises(LaunchError, match="not ready within") as caught:
        start(prepare(scripted("silent")), log_path=tmp_path / "engine.log", ready_within_s=3.0, report=told.append)
    assert any("its log: scripted engine, silent" in progress.detail for progress in told)
    assert caught.value.log_tail == (caught.value.log_tail[0],)
    assert "scripted engine, silent" in caught.value.why


def test_an_interrupt_while_waiting_leaves_nothing(cache: Path, tmp_path: Path) -> None:
    """Ctrl-C while the server starts stops it before the interrupt goes on."""

    log_path = tmp_path / "engine.log"

    def interrupt(progress: Progress) -> None:
        if log_path.is_file() and "silent" in log_path.read_text():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        start(prepare(scripted("silent")), log_path=log_path, report=interrupt)
    assert not pids_with("scripted_engine.py silent")


def pids_with(text: str) -> list[int]:
    """Return the processes whose command line contains `text` (joined by blanks)."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
        except OSError:
            continue
        if text in line and int(path.parent.name) != os.getpid():
            found.append(int(path.parent.name))
    return found


def test_stop_ends_children_that_left_and_do_not_listen(cache: Path, tmp_path: Path) -> None:
    """Stopping ends a child that ignores SIGTERM and a grandchild in another session."""
    server = start(prepare(scripted("family")), log_path=tmp_path / "engine.log")
    pids = told_by(server.url)["pids"]
    assert len(pids) == 3
    server.stop()
    server.stop()
    assert all(gone(pid, within_s=0.0) for pid in pids)


def test_a_later_death_is_noticed_and_explained(ready: Prepared, tmp_path: Path) -> None:
    """A server that dies in mid-run is no longer alive and says why, and what it left behind is ended."""
    with start(prepare(scripted("family")), log_path=tmp_path / "engine.log") as server:
        pids = told_by(server.url)["pids"]
        os.kill(server.pid, signal.SIGKILL)
        assert gone(server.pid)
        assert server._process.wait(20)
        assert not server.alive()
        assert "signal 9" in (server.exit_reason() or "")
    assert all(gone(pid) for pid in pids)
    assert "signal 9" in (server.exit_reason() or "")


@pytest.fixture
def master(cache: Path, tmp_path: Path):
    """Another process that has started a server with children; yields it and the pids."""
    process = subprocess.Popen(
        [sys.executable, "-c", MASTER, str(Path(__file__).parent), str(tmp_path / "engine.log")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdout is not None
    pids = json.loads(process.stdout.readline())["pids"]
    yield process, pids
    process.kill()
    process.communicate()
    for pid in pids:
        assert gone(pid)


def test_sigkill_of_the_master_leaves_no_orphan(master) -> None:
    """When the process that started a server is killed with SIGKILL, the server and its children end."""
    process, pids = master
    process.kill()
    process.wait()
    assert all(gone(pid) for pid in pids)


def test_ctrl_c_in_the_terminal_stops_all_in_order(master) -> None:
    """SIGINT to the master's whole process group, as a terminal sends it, ends server and children by `stop`."""
    process, pids = master
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert b"KeyboardInterrupt" in errors
    assert all(gone(pid, within_s=0.0) for pid in pids)


def test_the_end_of_the_master_without_stop_leaves_no_orphan(master) -> None:
    """A master that ends in the ordinary way takes its server along."""
    process, pids = master
    process.communicate(b"", timeout=60)
    assert all(gone(pid) for pid in pids)


def test_the_server_ends_when_its_guardian_is_killed(ready: Prepared, tmp_path: Path) -> None:
    """A guardian killed with SIGKILL is noticed, and the server ends with it."""
    server = start(ready, log_path=tmp_path / "engine.log")
    server._process._guardian.kill()
    assert gone(server.pid)
    assert server._process.wait(20)
    assert server.exit_reason() is not None
    server.stop()


def test_no_key_reaches_the_server(ready: Prepared, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys and engine settings in the user's environment are not passed on; the path and language are."""
    for name in ("SOAK_API_KEY", "OPENAI_API_KEY", "HF_TOKEN", "VLLM_API_KEY", "VLLM_PORT", "PYTHONPATH"):
        monkeypatch.setenv(name, "s3cret")
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    with start(ready, log_path=tmp_path / "engine.log") as server:
        environment = told_by(server.url)["environment"]
    assert "s3cret" not in environment.values()
    assert environment["LC_ALL"] == "C.UTF-8"
    assert environment["PATH"] == os.environ["PATH"]


def test_a_command_that_is_not_there_is_an_error(cache: Path, tmp_path: Path) -> None:
    """A command that cannot be executed raises a launch error that names it."""
    spec = scripted("serve", command=("/nowhere/engine",))
    with pytest.raises(LaunchError, match="/nowhere/engine") as caught:
        start(prepare(spec), log_path=tmp_path / "engine.log")
    assert "No such file" in caught.value.why
