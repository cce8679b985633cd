"""The container runtime's command line, and what is said where no runtime answers."""

import os
from pathlib import Path

import pytest

from soak.errors import SandboxError
from soak.sandbox import Container, Limits, Place, Runtime


@pytest.fixture
def command() -> list[str]:
    with Place(python="/usr/bin/python3", uid=4321 if os.geteuid() == 0 else None) as place:
        container = Container(place, runtime=Runtime("docker"), image="python:3.11", read_only=True)
        return container.command(["/bin/bash", "-c", "ls"], Limits(processes=7, memory_bytes=1 << 20), name="soak-1")


def test_the_walls_are_the_same_as_bubblewraps(command: list[str]) -> None:
    """No network, no capability, no new privilege, a read-only image, and limits on processes and memory."""
    text = " ".join(command)
    for part in (
        "--network none",
        "--read-only",
        "--cap-drop ALL",
        "--security-opt no-new-privileges",
        "--pids-limit 7",
        "--memory 1048576 --memory-swap 1048576",
        "target=/workspace,readonly",
        "--rm --name soak-1",
    ):
        assert part in text
    assert "--privileged" not in text
    assert not any(word.startswith("type=bind,source=/,") or "docker.sock" in word for word in command)


def test_the_program_is_the_entry_point(command: list[str]) -> None:
    """The image's own entry point does not come between: the program follows with its arguments."""
    at = command.index("--entrypoint")
    assert command[at + 1 :] == ["/bin/bash", "python:3.11", "-c", "ls"]


def test_the_images_own_paths_stay(command: list[str]) -> None:
    """PATH and PYTHONPATH are the image's, everything else is ours."""
    given = [command[i + 1].partition("=")[0] for i, word in enumerate(command) if word == "--env"]
    assert "HOME" in given
    assert not {"PATH", "PYTHONPATH"} & set(given)


def test_no_runtime_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no runtime is installed the refusal names those looked for; the exit code is 5."""
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(SandboxError) as caught:
        Runtime.find()
    assert caught.value.exit_code == 5
    assert "docker: not found; podman: not found" in caught.value.why


def test_a_runtime_without_its_daemon_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that is installed but reaches no daemon is no runtime; its words are passed on."""
    client = tmp_path / "podman"
    client.write_text("#!/bin/sh\necho 'cannot connect to the daemon' >&2\nexit 125\n")
    client.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(SandboxError, match="no container runtime answers") as caught:
        Runtime.find("podman")
    assert "cannot connect to the daemon" in caught.value.why
