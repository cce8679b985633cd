"""What of the host a command can see, all of it read-only: the interpreter, and packages named by whoever asks."""

import importlib.util
import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from soak.errors import SandboxError
from soak.shelves import install_command

PACKAGES_AT = Path("/opt/site")
_SYSTEM = Path("/usr")


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """
    `mounts`: (folder or file of the host, where it shows), read-only. `hidden`: folders of the host that stay empty
    wherever a mount would show them. `python`: the interpreter's path inside.
    """

    mounts: tuple[tuple[Path, Path], ...]
    hidden: tuple[Path, ...]
    python: str

    @classmethod
    def of_this_interpreter(cls, *, packages: Iterable[str] = (), hidden: Iterable[Path] = ()) -> "View":
        """
        Return a view with this process's Python where it lies, and the importable `packages` at PACKAGES_AT.

        Raises `SandboxError` if a package is not installed.
        """
        home, python = _interpreter()
        mounts = [] if home is None else [(home, home)]  # where it lies: a shared Python looks for its library there
        mounts += [(_package(name), PACKAGES_AT / name) for name in packages]
        return cls(mounts=tuple(mounts), hidden=tuple(path.resolve() for path in hidden), python=python)

    def masks(self) -> tuple[str, ...]:
        """Return the paths inside at which a hidden folder would show."""
        shown = [(_SYSTEM, _SYSTEM), *((source.resolve(), target) for source, target in self.mounts)]
        return tuple(
            str(target / path.relative_to(source))
            for path in self.hidden
            for source, target in shown
            if path.is_relative_to(source) and path.is_dir()
        )


def _interpreter() -> tuple[Path | None, str]:
    """Return the interpreter's own folder, unless the system's folders hold it, and its path inside."""
    real = Path(os.path.realpath(sys.executable))
    if real.is_relative_to(_SYSTEM):
        return None, str(real)
    home = Path(sys.base_prefix).resolve()
    if not real.is_relative_to(home):
        raise SandboxError(
            "the Python that runs soak cannot be shown inside a sandbox",
            why=f"{real} does not lie in its own folder {home}",
            hint="run soak with a Python whose files are in one folder, or a system Python",
        )
    return home, str(real)


def _package(name: str) -> Path:
    found = importlib.util.find_spec(name)
    if found is None or not found.submodule_search_locations:
        raise SandboxError(
            f"the package {name} is not installed",
            why="the tasks' tests run with it, inside the sandbox",
            hint=install_command("agent"),
        )
    return Path(next(iter(found.submodule_search_locations)))
