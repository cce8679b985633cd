"""
A container runtime of this machine, docker or podman, spoken to by its command line.

Containers are called soak-PID-START-RANDOM after the process they belong to and carry the label `soak.host`, so that
what a killed soak left is known for what it is and removed by the next one on the same machine (`sweep`).
"""

import os
import platform
import secrets
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from soak.errors import SandboxError
from soak.sandbox.limits import Limits
from soak.sandbox.running import run_walled

RUNTIMES = ("docker", "podman")
_ANSWER_WITHIN_S = 20.0
_PULL_WITHIN_S = 3600.0
_PULL_OUTPUT_BYTES = 16 << 20
_LABEL = "soak.host"
_NAME = "soak-"
_LEAVE = "start the runtime's daemon, or leave the sandbox to bubblewrap"
# What a client needs to find its daemon, its settings and its images; nothing else of ours reaches it.
_OF_CLIENTS = (
    *("PATH", "HOME", "TMPDIR", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME"),
    *("DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH"),
    *("CONTAINER_HOST", "CONTAINER_CONNECTION", "CONTAINER_SSHKEY", "REGISTRY_AUTH_FILE"),
    *("CONTAINERS_CONF", "CONTAINERS_STORAGE_CONF", "CONTAINERS_REGISTRIES_CONF"),
)
# For pulls alone: podman would hand a proxy, and the password in its address, on to every container.
_OF_PULLS = tuple(name for proxy in ("http_proxy", "https_proxy", "no_proxy") for name in (proxy, proxy.upper()))
_LIMITS_ASKED = {
    "docker": "{{.MemoryLimit}} {{.PidsLimit}}",
    "podman": "{{range .Host.CgroupControllers}}{{.}} {{end}}",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a runtime said: its exit code (None: it did not come to its end), stdout, stderr."""

    code: int | None
    out: str
    err: str

    @property
    def why(self) -> str:
        """The end of what it complained of, in one line."""
        return " ".join((self.err.strip() or self.out.strip())[-300:].split()) or "it gave no reason"


@dataclass(frozen=True, slots=True)
class Runtime:
    """One runtime by its name."""

    name: str

    @classmethod
    def find(cls, wanted: str | None = None) -> "Runtime":
        """Return the runtime that answers (`wanted`, else docker or podman); raises `SandboxError` if none does."""
        tried = [(cls(name), cls(name).trouble()) for name in ((wanted,) if wanted else RUNTIMES)]
        for runtime, trouble in tried:
            if trouble is None:
                return runtime
        raise SandboxError(
            "no container runtime answers",
            why="; ".join(f"{runtime.name}: {trouble}" for runtime, trouble in tried),
            hint=_LEAVE,
        )

    def trouble(self) -> str | None:
        """Return why it cannot be used, or None if it can."""
        if shutil.which(self.name) is None:
            return "not found"
        told = self.ask("info", "--format", "{{.ID}}" if self.name == "docker" else "{{.Host.Hostname}}")
        return None if told.code == 0 and told.out.strip() else told.why

    def refuse_without_limits(self) -> None:
        """Raise `SandboxError` where it cannot limit memory and processes: it would start containers without a word."""
        told = self.ask("info", "--format", _LIMITS_ASKED[self.name])
        words = told.out.split()
        limited = words == ["true", "true"] if self.name == "docker" else {"memory", "pids"} <= set(words)
        if not limited:
            raise SandboxError(
                f"{self.name} cannot limit what a container uses here",
                why="it has no control groups for memory and processes, so one command could take the whole machine",
                hint="run the runtime as root, or on a machine with control groups of version 2 and delegation",
            )

    def ask(self, *words: str, given: bytes = b"", within_s: float = _ANSWER_WITHIN_S) -> Answer:
        """Return what the runtime answers to one short command; never raises."""
        try:
            told = subprocess.run(
                [self.name, *words],
                input=given,
                capture_output=True,
                timeout=within_s,
                check=False,
                env=self.environment(),
            )
        except subprocess.TimeoutExpired:
            return Answer(code=None, out="", err=f"no answer within {within_s:g} s")
        except OSError as error:
            return Answer(code=None, out="", err=error.strerror or str(error))
        return Answer(
            code=told.returncode, out=told.stdout.decode("utf-8", "replace"), err=told.stderr.decode("utf-8", "replace")
        )

    def environment(self, *, pulls: bool = False) -> dict[str, str]:
        """Return the environment of its client."""
        names = (*_OF_CLIENTS, *(_OF_PULLS if pulls else ()))
        return {"PATH": os.defpath, **{name: os.environ[name] for name in names if name in os.environ}}

    def image(self, image: str, stopped: Callable[[], bool] = lambda: False) -> str:
        """
        Return the name under which this machine has `image`, which is fetched if it is not there.

        Raises `SandboxError` if it cannot be had. Where `stopped` ends the fetching, it is not there.
        """
        names = (image, *self._qualified(image))
        for name in names:
            if self.ask("image", "inspect", "--format", "{{.Id}}", name).code == 0:
                return name
        self._pull(names[-1], stopped)
        return names[-1]

    def _qualified(self, image: str) -> tuple[str, ...]:
        """Return the name with Docker's registry before it, which podman does not add by itself."""
        first, slash, _ = image.partition("/")
        named = slash and ("." in first or ":" in first or first == "localhost")
        return () if named or self.name == "docker" else (f"docker.io/{image if slash else f'library/{image}'}",)

    def _pull(self, image: str, stopped: Callable[[], bool]) -> None:
        limits = Limits(time_s=_PULL_WITHIN_S, output_bytes=_PULL_OUTPUT_BYTES)
        command = [self.name, "pull", "--quiet", image]
        ended = run_walled(command, limits=limits, stopped=stopped, environment=self.environment(pulls=True))
        if ended.code != 0 and ended.ended != "stopped":
            told = Answer(code=ended.code, out=ended.output, err="")
            raise SandboxError(
                f"the container image {image} is not on this machine and cannot be fetched",
                why=told.why if ended.ended == "exit" else f"the pull was ended: {ended.ended}",
                hint=f"{self.name} pull {image}, on a machine that reaches its registry ({self.name} save and load take"
                " it here); what has run is kept: go on with `soak resume`",
            )

    def labelled(self) -> list[str]:
        """Return the words that mark a container as one of ours."""
        return ["--label", f"{_LABEL}={platform.node()}"]

    def remove(self, name: str) -> None:
        """Remove a container, running or not, if it is there."""
        self.ask("rm", "--force", "--volumes", name)

    def sweep(self) -> None:
        """Remove the containers of processes of this machine that are gone."""
        told = self.ask("ps", "--all", "--filter", f"label={_LABEL}={platform.node()}", "--format", "{{.Names}}")
        for name in told.out.split():
            if name.startswith(_NAME) and not _belongs_to_a_process(name):
                self.remove(name)


def new_name() -> str:
    """Return a name for a container that tells whose it is."""
    return f"{_NAME}{os.getpid()}-{_begun(os.getpid())}-{secrets.token_hex(6)}"


def _belongs_to_a_process(name: str) -> bool:
    pid, _, rest = name.removeprefix(_NAME).partition("-")
    begun = rest.partition("-")[0]
    return not pid.isdecimal() or begun == _begun(int(pid))


def _begun(pid: int) -> str:
    """Return when a process began, in ticks since the machine did; empty if there is none. Numbers are used again."""
    try:
        return Path("/proc", str(pid), "stat").read_text(errors="replace").rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


def limit_words(limits: Limits) -> Sequence[str]:
    """Return the words that set a container's limits: what the kernel can refuse by itself."""
    return [
        *("--pids-limit", str(limits.processes)),
        *("--memory", str(limits.memory_bytes), "--memory-swap", str(limits.memory_bytes)),
        *("--ulimit", f"fsize={limits.disk_bytes}:{limits.disk_bytes}", "--ulimit", "core=0:0"),
        # Below any runtime's own: without the right to raise limits a container would not start with its defaults.
        *("--ulimit", "nofile=4096:4096", "--ulimit", "nproc=8192:8192"),
    ]
