"""
What a sandbox has on the host: one private folder below the temporary folder, removed at the end.

    work/   the repository, /workspace inside       home/   /home/agent inside       tmp/   /tmp inside
    etc/    the few system files it needs      bin/    the names python and pytest, /opt/bin inside
    script/ the command to run, /opt/script inside; a file, for an argument has at most 128 KiB and no NUL

The first three belong to the user the commands run as; what lies in them is measured while a command runs, since a
folder has no quota of its own. The last three are read-only inside.
"""

import contextlib
import itertools
import os
import stat
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import Self

from soak.errors import SandboxError
from soak.sandbox.limits import Limits
from soak.sandbox.view import PACKAGES_AT

WORK_AT, HOME_AT, TMP_AT, SCRIPT_AT = "/workspace", "/home/agent", "/tmp", "/opt/script"
_PREFIX = "soak-sandbox-"
_REMOVE_WITHIN_S = 120.0
_BLOCK_BYTES = 512
# What tools leave beside the work, which is no change to it.
_NOT_WORK = frozenset({".git", "__pycache__", ".pytest_cache"})
_numbers = itertools.count()


class Place:
    """The folders of one sandbox; a context manager that removes them. `uid` owns what a command can write."""

    def __init__(self, *, python: str, uid: int | None = None) -> None:
        """`python` is the interpreter's path inside. Raises `SandboxError` if the folders cannot be made."""
        self.uid = uid if uid is not None else own_uid()
        try:
            self.root = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))
            self.work, self.home, self.tmp, self.etc, self.bin, self.script = (
                self.root / name for name in ("work", "home", "tmp", "etc", "bin", "script")
            )
            for folder in (self.work, self.home, self.tmp, self.etc, self.bin, self.script):
                folder.mkdir(mode=0o755)
            for folder in (self.work, self.home, self.tmp):
                self._give(folder)
            self._write_system_files(python)
        except OSError as error:
            raise _unusable(error) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()

    def remove(self) -> None:
        """Remove everything, however deep a command nested its folders; what cannot be removed is left."""
        _remove(self.root)

    @staticmethod
    def sweep() -> None:
        """Remove what processes left that were killed before they could."""
        for left in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*-*"):
            owner = left.name.removeprefix(_PREFIX).partition("-")[0]
            with contextlib.suppress(OSError):
                ours = left.lstat().st_uid == os.geteuid()
                if ours and owner.isdecimal() and not Path("/proc", owner).exists():
                    _remove(left)

    def put(self, files: Mapping[str, str], *, below: Path | None = None) -> None:
        """
        Write text files, by their path relative to `work` (or `below`).

        Raises `SandboxError` for a path outside, and if one cannot be written.
        """
        for name, text in files.items():
            parts = inside(name)
            try:
                self._put(below or self.work, parts, text)
            except OSError as error:
                raise SandboxError(
                    f"the file {name[:200]!r} cannot be put into a sandbox",
                    why=error.strerror or str(error),
                    hint=f"make room in {tempfile.gettempdir()}, or correct the tasks file",
                ) from error

    def _put(self, folder: Path, parts: tuple[str, ...], text: str) -> None:
        for part in parts[:-1]:
            folder = folder / part
            if not folder.is_dir():
                folder.mkdir(mode=0o755)
                self._give(folder)
        file = folder / parts[-1]
        file.write_text(text, encoding="utf-8")
        self._give(file)

    def bash(self, command: str) -> list[str]:
        """Return the program that runs a bash command inside, and write the command where it looks for it."""
        self.script.joinpath("command").write_bytes(command.encode("utf-8", "replace"))
        return ["/bin/bash", "--noprofile", "--norc", f"{SCRIPT_AT}/command"]

    def over(self, limits: Limits, more_bytes: int = 0) -> bool:
        """
        Whether the folders a command can write hold more than the limits allow, or cannot be measured.

        `more_bytes`: what it holds elsewhere.
        """
        size, files = more_bytes, 0
        if size > limits.disk_bytes:
            return True
        try:
            for entry in _entries((self.work, self.home, self.tmp)):
                files += 1
                size += entry.st_blocks * _BLOCK_BYTES
                if size > limits.disk_bytes or files > limits.files:
                    return True
        except OSError:
            return True
        return False

    def changed(self, files: Mapping[str, str]) -> bool:
        """Whether one of these files of the repository is gone or other than it was, or another lies beside them."""
        folders = {str(parent) for name in files for parent in PurePosixPath(name).parents}
        for folder in folders:
            for entry in _listed(str(self.work / folder)):
                name = str(PurePosixPath(folder) / entry.name)
                if name not in files and name not in folders and entry.name not in _NOT_WORK:
                    return True
        return any(_content(self.work / name, len(text.encode())) != text.encode() for name, text in files.items())

    def _give(self, path: Path) -> None:
        if os.geteuid() == 0:
            os.chown(path, self.uid, self.uid, follow_symlinks=False)

    def _write_system_files(self, python: str) -> None:
        self.etc.joinpath("passwd").write_text(f"agent:x:{self.uid}:{self.uid}:agent:{HOME_AT}:/bin/bash\n")
        self.etc.joinpath("group").write_text(f"agent:x:{self.uid}:\n")
        self.etc.joinpath("hosts").write_text("127.0.0.1 localhost\n")
        for name, start in (("python", ""), ("python3", ""), ("pytest", " -m pytest")):
            tool = self.bin / name
            tool.write_text(f'#!/bin/sh\nexec "{python}"{start} "$@"\n')
            tool.chmod(0o755)


def _remove(folder: Path) -> None:
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        subprocess.run(
            ["rm", "-rf", "--one-file-system", "--", str(folder)],
            check=False,
            capture_output=True,
            timeout=_REMOVE_WITHIN_S,
        )


def environment() -> dict[str, str]:
    """Return the whole environment of a command; nothing of the caller's own gets in."""
    return {
        "PATH": "/opt/bin:/usr/local/bin:/usr/bin:/bin",
        "PYTHONPATH": str(PACKAGES_AT),
        "HOME": HOME_AT,
        "USER": "agent",
        "LOGNAME": "agent",
        "TMPDIR": TMP_AT,
        "LANG": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "TERM": "dumb",
        "NO_COLOR": "1",
        "PAGER": "cat",
        "GIT_PAGER": "cat",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_AUTHOR_NAME": "agent",
        "GIT_AUTHOR_EMAIL": "agent@example.org",
        "GIT_COMMITTER_NAME": "agent",
        "GIT_COMMITTER_EMAIL": "agent@example.org",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONNOUSERSITE": "1",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTEST_ADDOPTS": "-p no:cacheprovider",
    }


def own_uid() -> int:
    """
    Return the user that commands run as: our own, or if that is root, one that nobody else here is.

    The kernel counts processes by user and exempts root, so each sandbox of root's gets a user to itself. Below 60,000,
    for a container may know no more users than 65,536.
    """
    if os.geteuid() != 0:
        return os.geteuid()
    return 20_000 + (os.getpid() * 64 + next(_numbers)) % 40_000


def inside(name: str) -> tuple[str, ...]:
    """Return the parts of a relative path that stays inside its folder; raises `SandboxError` for any other."""
    path = PurePosixPath(name)
    if path.is_absolute() or not path.parts or ".." in path.parts or "\0" in name:
        raise SandboxError(
            f"the file {name[:200]!r} cannot be put into a sandbox",
            why="its path leads out of the repository",
            hint="correct the tasks file: paths are relative to the repository's root",
        )
    return path.parts


def _content(path: Path, size: int) -> bytes | None:
    """Return the first bytes of a plain file, one more than `size`; None if it is something else or not there."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        return os.read(handle, size + 1) if stat.S_ISREG(os.fstat(handle).st_mode) else None
    finally:
        os.close(handle)


def _entries(tops: tuple[Path, ...]) -> Iterator[os.stat_result]:
    """Yield what is known of each entry below `tops`, links not followed; a folder that is shut is opened first."""
    waiting = [str(top) for top in tops]
    while waiting:
        folder = waiting.pop()
        for entry in _listed(folder):
            try:
                known = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            yield known
            if stat.S_ISDIR(known.st_mode):
                waiting.append(entry.path)


def _listed(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except PermissionError:
        _open_up(folder)
        with os.scandir(folder) as entries:
            return list(entries)


def _open_up(folder: str) -> None:
    """Let us read a folder that a command shut; never a link's target, whatever takes the folder's place meanwhile."""
    handle = os.open(folder, os.O_PATH | os.O_NOFOLLOW | os.O_DIRECTORY)
    try:
        Path(f"/proc/self/fd/{handle}").chmod(0o700)
    finally:
        os.close(handle)


def _unusable(error: OSError) -> SandboxError:
    return SandboxError(
        "a sandbox cannot be set up",
        why=f"its folder below {tempfile.gettempdir()} cannot be made: {error.strerror or error}",
        hint="make room there, or name another folder with TMPDIR",
    )
