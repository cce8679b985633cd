"""
Walls made by a container runtime (docker, podman), for those who configure one.

The command line says the same as bubblewrap's: no network, nothing of the host but the place, no capability, limits.
The image is the user's; it must have bash and a `python` with pytest.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from soak.sandbox.limits import Ended, Limits
from soak.sandbox.place import HOME_AT, SCRIPT_AT, TMP_AT, WORK_AT, Place, environment
from soak.sandbox.running import run_walled
from soak.sandbox.runtime import Runtime, limit_words, new_name

# Of the image, not of the host: its own PATH and Python stay.
_OF_OUR_WALLS = frozenset({"PATH", "PYTHONPATH"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A folder of the host at a path inside the container."""

    source: Path
    target: str
    read_only: bool = False


class Container:
    """Runs bash commands in one place, each in a container of its own that is removed at its end."""

    def __init__(
        self,
        place: Place,
        *,
        runtime: Runtime,
        image: str,
        read_only: bool = False,
        work: Path | None = None,
        shown: Sequence[tuple[Path, Path]] = (),
    ) -> None:
        """
        `work` shows another folder as the repository; `read_only` lets nobody write in it. `shown`: more folders of
        the host, read-only, with the paths they have inside.
        """
        self.place = place
        self._runtime = runtime
        self._image = image
        self._mounts = (
            Mount(source=work or place.work, target=WORK_AT, read_only=read_only),
            Mount(source=place.home, target=HOME_AT),
            Mount(source=place.tmp, target=TMP_AT),
            Mount(source=place.script, target=SCRIPT_AT, read_only=True),
            *(Mount(source=source, target=str(target), read_only=True) for source, target in shown),
        )

    def run(self, command: str, limits: Limits, stopped: Callable[[], bool] = lambda: False) -> Ended:
        """Run a bash command in the repository and return how it ended; raises `SandboxError` if it cannot begin."""
        return self.run_program(self.place.bash(command), limits, stopped)

    def run_program(
        self, program: Sequence[str], limits: Limits, stopped: Callable[[], bool] = lambda: False, given: bytes = b""
    ) -> Ended:
        """Run a program with its arguments, as `run` does a command; `given` (at most 64 KiB) is its stdin."""
        name = new_name()
        return run_walled(
            self.command(program, limits, name=name),
            measured=self.place,
            limits=limits,
            stopped=stopped,
            given=given,
            kill=lambda: self._runtime.remove(name),  # the client's death alone would leave it running
            environment=self._runtime.environment(),
        )

    def command(self, program: Sequence[str], limits: Limits, *, name: str) -> list[str]:
        """Return the whole command line for a container called `name`."""
        first, *arguments = program
        return [
            *(self._runtime.name, "run", "--rm", "--name", name, *self._runtime.labelled()),
            *("--interactive", "--network", "none", "--read-only", "--stop-timeout", "0"),
            *("--user", f"{self.place.uid}:{self.place.uid}", "--cap-drop", "ALL"),
            *("--security-opt", "no-new-privileges", *limit_words(limits)),
            *(word for key, value in _environment().items() for word in ("--env", f"{key}={value}")),
            *(word for mount in self._mounts for word in ("--mount", _spelled(mount))),
            *("--workdir", WORK_AT, "--entrypoint", first, self._image, *arguments),
        ]


def _environment() -> dict[str, str]:
    return {name: value for name, value in environment().items() if name not in _OF_OUR_WALLS}


def _spelled(mount: Mount) -> str:
    return f"type=bind,source={mount.source},target={mount.target}{',readonly' if mount.read_only else ''}"
