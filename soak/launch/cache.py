"""
The folder `soak` in the user's cache: builds, models, their markers and locks.

    builds/NAME-FINGERPRINT/         one virtual environment (`venv/`) with what made it (`install.log`)
    builds/NAME-FINGERPRINT/made.json       written last, after the environment was checked; without it, it is half made
    builds/NAME-FINGERPRINT.pins.txt        every package and version that lies in it: made again, it is made of these
    builds/NAME-FINGERPRINT/proven.json     written when a server started from it was ready for the first time
    models/NAME-HASH/                a plain checkpoint; `made.json` lists its files' hashes, sizes and times
    builds/….lock, models/….lock     held (flock) by the process that makes one, and by its helpers until they are gone

A marker is written to a file beside it, synced, and renamed, so that it is whole or absent.
"""

import fcntl
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

import msgspec

from soak.errors import LaunchError
from soak.facts import decode, encode
from soak.launch.progress import Step

MARKER = "made.json"
PROOF = "proven.json"
MARKER_BYTES = 1024 * 1024
LOCK_WITHIN_S = 3600.0
LOOK_EVERY_S = 0.5

M = TypeVar("M")


class EnvironmentMarker(msgspec.Struct, frozen=True, kw_only=True):
    """What was made: the build's fingerprint, the versions found by the check, and which packages lie there."""

    fingerprint: str
    versions: dict[str, str] = {}
    installed: tuple[str, ...] = ()
    took_s: float = 0.0


class Proof(msgspec.Struct, frozen=True, kw_only=True):
    """A server of this environment became ready, after `ready_s` seconds, at `at` (UTC epoch seconds)."""

    ready_s: float
    at: float


class FileMark(msgspec.Struct, frozen=True, kw_only=True):
    """One file of a checkpoint; size and time are compared each time, the hash when these differ."""

    sha256: str
    size_bytes: int
    mtime_ns: int


class ModelMarker(msgspec.Struct, frozen=True, kw_only=True):
    """What the checkpoint was made from and its files."""

    source_sha256: str
    files: dict[str, FileMark]


class CacheState(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a build lies ready in the cache, in words, and what to do if it does not."""

    ready: bool
    text: str
    fix: str = ""


def cache_home() -> Path:
    """Return soak's folder in the user's cache, `$XDG_CACHE_HOME/soak` or `~/.cache/soak`; it need not exist."""
    given = os.environ.get("XDG_CACHE_HOME", "")
    base = Path(given) if Path(given).is_absolute() else Path.home() / ".cache"
    return base / "soak"


def make_folder(folder: Path) -> Path:
    """Make the folder if need be and return it; raises `LaunchError` if that cannot be done."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(folder, error) from error
    return folder


def unwritable(path: Path, error: OSError) -> LaunchError:
    """Return the error for a place in the cache that cannot be written."""
    return LaunchError(
        f"cannot write {path}",
        why=error.strerror or str(error),
        hint="make it writable, free disk space, or set XDG_CACHE_HOME to another folder",
    )


def read_marker(path: Path, kind: type[M]) -> M | None:
    """Return the marker, None if it is absent or is not one."""
    try:
        with path.open("rb") as file:
            return decode(file.read(MARKER_BYTES), kind)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return None


def write_marker(path: Path, marker: object) -> None:
    """Write the marker so that it is whole or absent, whatever happens; raises `LaunchError` if the disk is full."""
    beside = path.with_suffix(".new")
    try:
        with beside.open("wb") as file:
            file.write(encode(marker))
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError as error:
        raise unwritable(path, error) from error


def lock_path(folder: Path) -> Path:
    """Return where the list of what lies in an environment is kept: beside it, so that it outlives a repair."""
    return folder.with_name(f"{folder.name}.pins.txt")


def read_lock(folder: Path) -> str:
    """Return the list as the text of a constraints file; empty where there is none."""
    try:
        with lock_path(folder).open("rb") as file:
            return file.read(MARKER_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""


def write_lock(folder: Path, installed: Iterable[str]) -> None:
    """Write the list from the names of `dist-info` folders (NAME-VERSION); raises `LaunchError` if it cannot be."""
    lines = sorted(name_and_version(each) for each in installed)
    text = "".join(f"{name}=={version}\n" for name, version in lines if name != "pip")
    try:
        lock_path(folder).write_text(text, "utf-8")
    except OSError as error:
        raise unwritable(lock_path(folder), error) from error


def name_and_version(installed: str) -> tuple[str, str]:
    """Return package and version of a `dist-info` folder's name."""
    name, _, version = installed.rpartition("-")
    return name.replace("_", "-").lower(), version


@contextmanager
def locked(path: Path, step: Step) -> Iterator[int]:
    """
    Hold the lock in a `with` block; yields its descriptor, to be left open in helpers.

    While another process holds it, says so and waits, at most an hour; then raises `LaunchError` naming the holder.
    """
    descriptor = _open(path)
    try:
        _acquire(descriptor, path, step)
        yield descriptor
    finally:
        os.close(descriptor)


def _open(path: Path) -> int:
    make_folder(path.parent)
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise unwritable(path, error) from error


def _acquire(descriptor: int, path: Path, step: Step) -> None:
    deadline = time.monotonic() + LOCK_WITHIN_S
    while not _try(descriptor):
        holder = os.pread(descriptor, 100, 0).decode("utf-8", "replace").strip() or "another process"
        step.say(f"waiting for {holder}, which is making it")
        step.beat()
        if time.monotonic() > deadline:
            raise LaunchError(
                f"{path.stem} is being made by another process",
                why=f"{holder} has held {path} for over an hour",
                hint="wait for it, or stop that process",
            )
        time.sleep(LOOK_EVERY_S)
    step.done()
    with suppress(OSError):  # the name is for people only
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"process {os.getpid()}".encode(), 0)


def _try(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
