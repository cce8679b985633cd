"""The model's checkpoint in the cache: converted once, checked by hash, shared by all builds."""

import hashlib
import shutil
from pathlib import Path

import msgspec

from soak.errors import LaunchError
from soak.launch.cache import (
    MARKER,
    FileMark,
    ModelMarker,
    cache_home,
    locked,
    read_marker,
    unwritable,
    write_marker,
)
from soak.launch.helper import Bench
from soak.launch.install import INSIDE, python_of
from soak.launch.progress import Report, Step
from soak.launch.spec import ModelSource

WEIGHTS = "model.safetensors"


def model_folder(source: ModelSource) -> Path:
    """Return where the checkpoint of `source` belongs."""
    return cache_home() / "models" / source.folder


def model_ready(source: ModelSource) -> bool:
    """
    Whether the checkpoint is there and whole.

    Sizes and times are compared with the marker; a file that was touched is hashed again.
    """
    folder = model_folder(source)
    marker = read_marker(folder / MARKER, ModelMarker)
    if marker is None or marker.source_sha256 != source.sha256 or WEIGHTS not in marker.files:
        return False
    return all(_unchanged(folder / name, mark) for name, mark in marker.files.items())


def make_model(source: ModelSource, build: Path, bench: Bench, report: Report) -> None:
    """Convert the model with the packages of the build in folder `build`; raises `LaunchError`."""
    folder = model_folder(source)
    step = Step("model", report)
    with locked(folder.with_name(f"{folder.name}.lock"), Step("lock", report)) as lock:
        if model_ready(source):
            return
        bench = msgspec.structs.replace(bench, locks=(*bench.locks, lock))
        partial = folder.with_name(f"{folder.name}.partial")
        try:
            _clear(partial)
            _clear(folder)
            step.say(f"converting {source.name}")
            script = [str(python_of(build)), "-I", str(INSIDE / "convert.py")]
            command = [*script, source.gguf, source.sha256, str(partial)]
            bench.first_that_works(step, [command], f"converting {source.name}")
            step.done()
            write_marker(partial / MARKER, ModelMarker(source_sha256=source.sha256, files=_marks(partial)))
            partial.rename(folder)
        except OSError as error:
            raise unwritable(folder, error) from error
        _must_be_ready(source)


def _must_be_ready(source: ModelSource) -> None:
    if not model_ready(source):
        raise LaunchError(
            f"the model {source.name} was converted, but is not whole",
            why=f"{model_folder(source)} has no {WEIGHTS}, or its files changed meanwhile",
            hint="run it again",
        )


def _clear(folder: Path) -> None:
    if folder.exists():
        shutil.rmtree(folder)


def _marks(folder: Path) -> dict[str, FileMark]:
    return {path.name: _mark(path) for path in sorted(folder.iterdir()) if path.is_file()}


def _mark(path: Path) -> FileMark:
    stat = path.stat()
    with path.open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    return FileMark(sha256=sha256, size_bytes=stat.st_size, mtime_ns=stat.st_mtime_ns)


def _unchanged(path: Path, mark: FileMark) -> bool:
    try:
        stat = path.stat()
        if (stat.st_size, stat.st_mtime_ns) == (mark.size_bytes, mark.mtime_ns):
            return True
        return stat.st_size == mark.size_bytes and _mark(path).sha256 == mark.sha256
    except OSError:
        return False
