"""Containers that live as long as a task: a program called docker notes what it is told, and answers as a test says."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from soak.errors import SandboxError
from soak.sandbox import Instance, Limits, Runtime
from soak.sandbox.runtime import new_name

LIMITS = Limits(time_s=20.0, processes=7, memory_bytes=64 << 20, disk_bytes=1 << 20)
FINE = {"container": "echo true 10", "run": "echo id", "image": "echo sha256:1", "exec": "echo done"}


class Client:
    """The program, and what it was told: one line a call."""

    def __init__(self, folder: Path, name: str, answers: dict[str, str]) -> None:
        self.calls_in = folder / "calls"
        self.given_in = folder / "given"
        self.environment_in = folder / "environment"
        cases = "\n".join(f"{first}) {body} ;;" for first, body in answers.items())
        program = folder / name
        program.write_text(
            f'#!/bin/sh\nprintf "%s " "$@" | tr "\\n" " " >> {self.calls_in}\necho >> {self.calls_in}\n'
            f'env >> {self.environment_in}\ngiven={self.given_in}\ncase "$1" in\n{cases}\nesac\n'
        )
        program.chmod(0o755)
        self.runtime = Runtime(name)

    @property
    def calls(self) -> list[str]:
        return self.calls_in.read_text().splitlines() if self.calls_in.exists() else []

    def instance(self) -> Instance:
        return Instance(self.runtime, "repository:latest", limits=LIMITS, life_s=60, work_at="/testbed")


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Client]:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    def make(name: str = "docker", **answers: str) -> Client:
        return Client(tmp_path, name, {**FINE, **answers})

    return make


def test_a_container_is_begun_used_and_removed_by_its_name(client: Callable[..., Client]) -> None:
    """One container is started, each command is an exec in the repository's folder, and it is removed at the end."""
    docker = client()
    with docker.instance() as instance:
        ended = instance.run("ls", LIMITS)
    assert (ended.output, ended.code, ended.ended) == ("done\n", 0, "exit")
    assert docker.calls[0].startswith(f"run --detach --name {instance.name} --label soak.host=")
    assert f"exec --workdir /testbed {instance.name} /bin/bash -c exec 2>&1; ls " in docker.calls
    assert docker.calls[-1] == f"rm --force --volumes {instance.name} "


def test_the_walls_of_a_container(client: Callable[..., Client]) -> None:
    """No network, three rights, no new ones, limits, nothing of the host, and no image fetched on the way."""
    words = client().instance().starting()
    text = " ".join(words)
    for part in (
        "--network none",
        "--cap-drop ALL --cap-add CHOWN --cap-add DAC_OVERRIDE --cap-add FOWNER",
        "--security-opt no-new-privileges",
        "--pids-limit 7",
        f"--memory {64 << 20} --memory-swap {64 << 20}",
        f"--ulimit fsize={1 << 20}:{1 << 20}",
        "--pull never",
    ):
        assert part in text
    assert not {"--privileged", "--mount", "--volume", "-v", "--device"} & set(words)


def test_no_key_reaches_the_client(client: Callable[..., Client], monkeypatch: pytest.MonkeyPatch) -> None:
    """Of our environment the client gets what leads it to its daemon, and nothing else."""
    monkeypatch.setenv("SOAK_API_KEY", "canary-4713")
    monkeypatch.setenv("HTTPS_PROXY", "http://canary-4713@127.0.0.1")
    monkeypatch.setenv("DOCKER_HOST", "unix:///elsewhere.sock")
    docker = client()
    with docker.instance() as instance:
        instance.run("env", LIMITS)
    told = docker.environment_in.read_text()
    assert "canary" not in told
    assert told.count("DOCKER_HOST=unix:///elsewhere.sock") == len(docker.calls)


def test_a_command_over_its_time_is_ended_with_all_it_left(client: Callable[..., Client]) -> None:
    """The client's death would leave the command running, so the container is begun again; its files stay."""
    docker = client(exec="sleep 60")
    with docker.instance() as instance:
        ended = instance.run("sleep 60", Limits(time_s=0.2))
    assert (ended.ended, ended.code) == ("time", None)
    assert f"restart -t 0 {instance.name} " in docker.calls


def test_what_is_written_is_limited(client: Callable[..., Client]) -> None:
    """A container that holds more than its share, or cannot say what it holds, ends the command."""
    for said in ("echo true 2000000", "echo true '<no value>'", "exit 1"):
        with client(container=said).instance() as instance:
            assert instance.run("dd", LIMITS).ended == "disk"


def test_a_container_that_died_is_begun_again(client: Callable[..., Client]) -> None:
    """A container's first process dies of memory alone: the command is told so, and the next one can run."""
    docker = client(exec="exit 137", container="echo false 10")
    with docker.instance() as instance:
        assert (instance.run("eat", LIMITS).ended, instance.run("ls", LIMITS).code) == ("memory", None)
    assert f"restart -t 0 {instance.name} " in docker.calls


def test_a_container_that_is_lost_is_an_error(client: Callable[..., Client]) -> None:
    """If it cannot be begun again the run ends with the runtime's words and goes on with resume."""
    docker = client(exec="exit 1", container="echo false 10", restart="echo no such container >&2; exit 1")
    with docker.instance() as instance, pytest.raises(SandboxError, match="is lost") as caught:
        instance.run("ls", LIMITS)
    assert "no such container" in caught.value.why
    assert "soak resume" in caught.value.hint


def test_a_container_that_does_not_start_is_an_error(client: Callable[..., Client]) -> None:
    """The runtime's own words are passed on, and what it may have made is removed."""
    docker = client(run="echo no room >&2; exit 125")
    with pytest.raises(SandboxError, match="does not start") as caught, docker.instance():
        pass
    assert "no room" in caught.value.why
    assert docker.calls[-1].startswith("rm --force --volumes soak-")


def test_odd_commands_do_no_harm(client: Callable[..., Client]) -> None:
    """A command too long for an argument is answered as bash answers; NUL and lone surrogates do not stop it."""
    with client().instance() as instance:
        assert instance.run("x" * 200_000, LIMITS).code == 126
        assert instance.run("echo a\0b \ud800", LIMITS).code == 0


def test_files_go_in_by_stdin(client: Callable[..., Client]) -> None:
    """A file of any size is written inside, and one that cannot be is an error."""
    docker = client(exec="cat > $given")
    with docker.instance() as instance:
        instance.put("/tmp/soak/x", b"y" * 300_000)
    assert docker.given_in.read_bytes() == b"y" * 300_000
    with client(exec="echo disk full >&2; exit 1").instance() as instance, pytest.raises(SandboxError) as caught:
        instance.put("/tmp/soak/x", b"y")
    assert "disk full" in caught.value.why


@pytest.mark.parametrize(
    ("name", "image", "pulled"),
    [
        ("docker", "swebench/x:latest", "swebench/x:latest"),
        ("podman", "swebench/x:latest", "docker.io/swebench/x:latest"),
        ("podman", "debian", "docker.io/library/debian"),
        ("podman", "ghcr.io/a/x:1", "ghcr.io/a/x:1"),
        ("podman", "localhost/x:1", "localhost/x:1"),
    ],
)
def test_an_image_that_cannot_be_had_is_named(
    client: Callable[..., Client], name: str, image: str, pulled: str
) -> None:
    """An image that is not here is pulled; if that fails the error has its full name and the command. Exit code 5."""
    runtime = client(name, image="exit 1", pull="echo no route to registry >&2; exit 1").runtime
    with pytest.raises(SandboxError) as caught:
        runtime.image(image)
    assert f"image {pulled} is not on this machine" in caught.value.what
    assert "no route to registry" in caught.value.why
    assert f"{name} pull {pulled}," in caught.value.hint
    assert caught.value.exit_code == 5


def test_an_image_that_is_here_is_not_pulled(client: Callable[..., Client]) -> None:
    """Nothing is asked of a registry for an image this machine has."""
    docker = client()
    assert docker.runtime.image("swebench/x:latest") == "swebench/x:latest"
    assert not any(call.startswith("pull") for call in docker.calls)


@pytest.mark.parametrize(
    ("name", "said", "limits"),
    [
        ("docker", "true true", True),
        ("docker", "true false", False),
        ("docker", "", False),
        ("podman", "cpu memory pids", True),
        ("podman", "cpu", False),
    ],
)
def test_a_runtime_without_limits_is_refused(client: Callable[..., Client], name: str, said: str, limits: bool) -> None:
    """Where a runtime would leave limits out without a word, no container is started."""
    runtime = client(name, info=f"echo '{said}'").runtime
    if limits:
        runtime.refuse_without_limits()
        return
    with pytest.raises(SandboxError, match="cannot limit"):
        runtime.refuse_without_limits()


def test_what_a_killed_soak_left_is_swept(client: Callable[..., Client]) -> None:
    """Containers of processes that are gone are removed, by name; those of living ones and of others are not."""
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    mine, theirs, left, reused = new_name(), "postgres", f"soak-{gone.pid}-1-ab", f"soak-{os.getpid()}-1-ab"
    docker = client(ps=f"printf '%s\\n' {mine} {theirs} {left} {reused}")
    docker.runtime.sweep()
    assert [call for call in docker.calls if call.startswith("rm")] == [
        f"rm --force --volumes {left} ",
        f"rm --force --volumes {reused} ",
    ]
