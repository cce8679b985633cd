"""
One container that lives as long as a task: of an image that holds a repository, changed by command after command.

    docker run --detach …    begins it: no network, nothing of the host, few rights, limits on memory and processes
    docker exec …            is one command; output, time and what is written in all are watched (`running.py`)
    docker restart -t 0 …    ends whatever a command left behind that broke a limit; what it wrote stays
    docker rm --force …      is the end, also for a soak that was killed: the next one sweeps, and the first process of
                             each container ends by itself when its time is over

Commands are the image's root, as the images' makers meant it, with three of root's rights: over files, their owners and
modes, which are the container's own. What a command leaves running goes on to the next, within the limits.
"""

from collections.abc import Callable
from dataclasses import replace
from types import TracebackType
from typing import Self

from soak.errors import SandboxError
from soak.sandbox.limits import Ended, Limits
from soak.sandbox.running import run_walled
from soak.sandbox.runtime import Runtime, limit_words, new_name

_START_WITHIN_S = 120.0
_COPY_WITHIN_S = 120.0
_ARGUMENT_MAX = 120_000
_RIGHTS = ("CHOWN", "DAC_OVERRIDE", "FOWNER")
_ENVIRONMENT = {
    "BASH_ENV": "$HOME/.bashrc",  # where the images of SWE-bench say which Python is the repository's
    "LANG": "C.UTF-8",
    "TERM": "dumb",
    "PAGER": "cat",
    "MANPAGER": "cat",
    "GIT_PAGER": "cat",
    "LESS": "-R",
    "PIP_PROGRESS_BAR": "off",
    "TQDM_DISABLE": "1",
    "GIT_AUTHOR_NAME": "agent",
    "GIT_AUTHOR_EMAIL": "agent@example.org",
    "GIT_COMMITTER_NAME": "agent",
    "GIT_COMMITTER_EMAIL": "agent@example.org",
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "safe.directory",
    "GIT_CONFIG_VALUE_0": "*",
}
# Bash, which takes in processes that lost their parents while it waits for its own; `sleep` may be killed or taken
# away, and no signal from inside reaches it.
_FIRST_PROCESS = (
    "trap '' 1 2 3 4 5 6 7 8 10 11 12 13 15 24 25 26 27 29 30 31; trap : 14; "
    "exec 3<> <(:); while [ $SECONDS -lt {life_s:.0f} ]; do sleep 30 || read -rt 1 -u 3; done"
)


class Instance:
    """A context manager: the container runs inside it and is gone afterwards. `limits` hold for all of it together."""

    def __init__(self, runtime: Runtime, image: str, *, limits: Limits, life_s: float, work_at: str) -> None:
        """`image` must be on this machine (`Runtime.image`); commands begin in the folder `work_at`."""
        self.name = new_name()
        self._runtime = runtime
        self._image = image
        self._limits = limits
        self._life_s = life_s
        self._work_at = work_at
        self._running = True

    def __enter__(self) -> Self:
        """Raises `SandboxError` if it does not start."""
        told = self._runtime.ask(*self.starting(), within_s=_START_WITHIN_S)
        if told.code != 0:
            self._runtime.remove(self.name)
            raise SandboxError(
                f"a container of {self._image} does not start",
                why=told.why,
                hint=f"try it: {self._runtime.name} run --rm --network none --entrypoint /bin/bash {self._image} -c id",
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._runtime.remove(self.name)

    def starting(self) -> list[str]:
        """Return the runtime's words that start it."""
        return [
            *("run", "--detach", "--name", self.name, *self._runtime.labelled(), "--pull", "never"),
            *("--network", "none", "--hostname", "sandbox", "--stop-timeout", "0", "--cap-drop", "ALL"),
            *(word for right in _RIGHTS for word in ("--cap-add", right)),
            *("--security-opt", "no-new-privileges", *limit_words(self._limits)),
            *(word for name, value in _ENVIRONMENT.items() for word in ("--env", f"{name}={value}")),
            *("--entrypoint", "/bin/bash", self._image, "-c", _FIRST_PROCESS.format(life_s=self._life_s)),
        ]

    def run(self, command: str, limits: Limits, stopped: Callable[[], bool] = lambda: False) -> Ended:
        """Run a bash command and return how it ended; raises `SandboxError` if the container is lost."""
        # Without NUL, as bash reads it; in one stream, or the runtime would mix up the order of two.
        told = b"exec 2>&1; " + command.replace("\0", "").encode("utf-8", "replace")
        if len(told) > _ARGUMENT_MAX:
            return Ended(output="bash: Argument list too long\n", code=126, ended="exit", took_s=0.0)
        ended = run_walled(
            [self._runtime.name, *self._inside(), "/bin/bash", "-c", told.decode()],
            limits=limits,
            measured=self,
            stopped=stopped,
            environment=self._runtime.environment(),
        )
        if ended.ended == "exit" and self._running:
            return ended
        self._begin_again()
        # A container ends by itself only when its first process was killed for memory.
        return ended if ended.ended != "exit" else replace(ended, code=None, ended="memory")

    def put(self, path: str, data: bytes) -> None:
        """Write a file inside, of any size, at an absolute path; raises `SandboxError` if that fails."""
        words = (*self._inside("--interactive"), "/bin/bash", "-c", 'mkdir -p "${1%/*}" && cat > "$1"', "soak", path)
        told = self._runtime.ask(*words, given=data, within_s=_COPY_WITHIN_S)
        if told.code != 0:
            raise SandboxError(
                f"{path} cannot be written in a container of {self._image}",
                why=told.why,
                hint="make room where the runtime keeps its containers, or raise sandbox.disk_mib",
            )

    def over(self, limits: Limits, more_bytes: int = 0) -> bool:
        """Whether more was written in it than the limits allow, or that cannot be told; `more_bytes` elsewhere."""
        words = ("container", "inspect", "--size", "--format", "{{.State.Running}} {{.SizeRw}}", self.name)
        running, _, size = self._runtime.ask(*words).out.strip().partition(" ")
        self._running = running != "false"
        return not size.isdecimal() or int(size) + more_bytes > limits.disk_bytes

    def _inside(self, *options: str) -> list[str]:
        return ["exec", *options, "--workdir", self._work_at, self.name]

    def _begin_again(self) -> None:
        """End every process in it; what was written stays."""
        told = self._runtime.ask("restart", "-t", "0", self.name, within_s=_START_WITHIN_S)
        self._running = True
        if told.code != 0:
            raise SandboxError(
                "a task's container is lost",
                why=told.why,
                hint=f"look whether {self._runtime.name} is in order; what has run is kept: go on with `soak resume`",
            )
