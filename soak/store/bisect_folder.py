"""
The folder of a bisection.

    bisecting.json         what is asked, and the steps that are over (facts.Bisecting); replaced as a whole
    steps/NN-BUILD/        the run of each step: a run folder like any other (see folder.py)
    lock                   held by the process that bisects

The step in progress is the run folder that `bisecting.json` does not name yet; it resumes like any run.
"""

import re
from pathlib import Path
from typing import Self

import msgspec

from soak.errors import RunFolderError
from soak.facts import Bisecting, BisectOrder
from soak.store.encoding import from_json, to_json
from soak.store.lock import RunLock
from soak.store.manifest_file import refuse_secrets, replace_whole
from soak.store.problems import damaged, newer, unwritable

_STATE = "bisecting.json"
_SCHEMA = "soak.bisecting/1"
_NEVER_BEGUN = {f"{_STATE}.new", "lock"}  # what one may leave that was killed before it had begun
_MAX_BYTES = 16 * 1024 * 1024
_NAME_CHARS = 60


class BisectFolder:
    """One bisection on disk: made by `create` or `open`; a context manager that holds its lock."""

    def __init__(self, path: Path, state: Bisecting) -> None:
        self.path = path
        self.state = state
        self._lock = RunLock(path / "lock")

    @staticmethod
    def is_one(path: Path) -> bool:
        """Whether a bisection is kept in this folder."""
        return (path / _STATE).is_file()

    @staticmethod
    def refuse_taken(path: Path) -> None:
        """Raise `RunFolderError` if something is in the folder already."""
        try:
            taken = path.exists() and {entry.name for entry in path.iterdir()} - _NEVER_BEGUN
        except OSError as error:
            raise unwritable(path, error) from error
        if taken:
            one = BisectFolder.is_one(path)
            raise RunFolderError(
                f"cannot begin a bisection in {path}",
                why="one is there already" if one else "the folder is not empty",
                hint=f"go on with it by: soak resume {path}" if one else "give another folder",
            )

    @classmethod
    def create(cls, path: Path, order: BisectOrder) -> Self:
        """Make the folder; raises `RunFolderError` if it is taken or cannot be written."""
        cls.refuse_taken(path)
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise unwritable(path, error) from error
        made = cls(path, Bisecting(order=order))
        made._write()
        return made

    @classmethod
    def open(cls, path: Path) -> Self:
        """Return the bisection in `path`; raises `RunFolderError` if there is none, or it is damaged."""
        file = path / _STATE
        try:
            with file.open("rb") as state:
                data = state.read(_MAX_BYTES + 1)
            if len(data) > _MAX_BYTES:
                raise damaged(file, f"it is larger than {_MAX_BYTES} bytes")
            found = from_json(data.decode(), Bisecting)
        except FileNotFoundError as error:
            raise RunFolderError(
                f"{path} holds no bisection", why=f"its {_STATE} is missing", hint="begin one with soak bisect"
            ) from error
        except (OSError, ValueError) as error:
            raise damaged(file, error) from error
        if found.schema != _SCHEMA:
            raise newer(path, f"{found.schema[:80]}; this soak knows {_SCHEMA}")
        _refuse_nonsense(file, found)
        return cls(path, found)

    def update(self, state: Bisecting) -> None:
        """Replace the state, as a whole or not at all; raises `RunFolderError` if it cannot be written."""
        self.state = state
        self._write()

    def run_of_next_step(self, build: str) -> Path:
        """Return the folder of the run that tests `build` as the next step."""
        safe = re.sub(r"[^A-Za-z0-9_.-]", "_", build)[:_NAME_CHARS]
        return self.path / "steps" / f"{len(self.state.steps) + 1:02}-{safe}"

    def _write(self) -> None:
        file = self.path / _STATE
        text = to_json(self.state)
        refuse_secrets(file, msgspec.json.decode(text))
        try:
            replace_whole(file, msgspec.json.format(text, indent=2).encode() + b"\n")
        except OSError as error:
            raise unwritable(file, error) from error

    def __enter__(self) -> Self:
        self._lock.take()
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def _refuse_nonsense(file: Path, found: Bisecting) -> None:
    """Raise `RunFolderError` where the steps do not belong to the builds."""
    names = [build.name for build in found.order.builds]
    strange = [step for step in found.steps if not 0 <= step.index < len(names) or names[step.index] != step.build]
    if len(names) < 2 or strange:
        raise damaged(file, "its steps and its builds do not belong together")
