"""
From a spec to a build that can be started: found in the cache, made, or repaired.

An environment counts as made when its marker says so and what the marker lists still lies there. Anything else is half
made, by a kill, a full disk or a meddling hand, and is removed and made again from the start: packages half
unpacked look whole to pip. What was downloaded is in pip's own cache.
"""

import shutil
import time
from pathlib import Path

import msgspec

from soak.launch.cache import (
    MARKER,
    PROOF,
    CacheState,
    EnvironmentMarker,
    Proof,
    cache_home,
    lock_path,
    locked,
    make_folder,
    read_marker,
    unwritable,
    write_lock,
    write_marker,
)
from soak.launch.helper import Bench
from soak.launch.install import install, installed_in, python_of
from soak.launch.machine import require_disk
from soak.launch.model import make_model, model_folder, model_ready
from soak.launch.progress import Progress, Report, Step
from soak.launch.spec import LaunchSpec


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """A build that lies ready: its spec, its folder in the cache, its Python, and its model's folder if it has one."""

    spec: LaunchSpec
    folder: Path
    python: Path
    model_path: Path | None


def quiet(_: Progress) -> None:
    """Report to nobody."""


def build_folder(spec: LaunchSpec) -> Path:
    """
    Return where the environment of `spec` lies or belongs.

    One that lies ready is shared by all builds that install the same, whatever the name it was made under.
    """
    builds = cache_home() / "builds"
    ready = sorted(path.parent for path in builds.glob(f"*-{spec.environment_fingerprint}/{MARKER}"))
    own = builds / spec.folder
    return own if own in ready or not ready else ready[0]


def find(spec: LaunchSpec) -> Prepared | None:
    """Return the build if environment and model lie ready; makes nothing."""
    if not _environment_ready(spec) or (spec.model is not None and not model_ready(spec.model)):
        return None
    folder = build_folder(spec)
    model_path = model_folder(spec.model) if spec.model else None
    return Prepared(spec=spec, folder=folder, python=python_of(folder), model_path=model_path)


def prepare(spec: LaunchSpec, report: Report = quiet, *, rebuild: bool = False) -> Prepared:
    """
    Return the build ready to start; make or repair it in the user's cache first if need be (minutes; then under 1 s).

    `report` is told each step and, within steps, how it goes. With `rebuild` the environment is made anew.
    Of several processes that call this at once one works and the others wait.

    Raises `LaunchError` if the disk is full, a package cannot be had, or the check fails; the next call repairs it.
    """
    if not rebuild and (found := find(spec)):
        return found
    folder = build_folder(spec)
    with locked(folder.with_name(f"{folder.name}.lock"), Step("lock", report)) as lock:
        if rebuild or not _environment_ready(spec):
            _make_environment(spec, lock, report)
        if spec.model and not model_ready(spec.model):
            bench = Bench(folder=folder, log_path=folder / "install.log", locks=(lock,))
            make_model(spec.model, folder, bench, report)
        model_path = model_folder(spec.model) if spec.model else None
        return Prepared(spec=spec, folder=folder, python=python_of(folder), model_path=model_path)


def state_of_cache(spec: LaunchSpec) -> CacheState:
    """Return whether the build lies ready, for people; makes nothing."""
    folder = build_folder(spec)
    what = f"{spec.engine} {spec.version}".strip()
    if find(spec):
        proof = read_marker(folder / PROOF, Proof)
        started = f"served after {proof.ready_s:.0f} s when first started" if proof else "not started yet"
        return CacheState(ready=True, text=f"{what} in {folder}, {started}")
    state = "half made; it is repaired" if folder.exists() else "not there; it is made"
    need = f"takes minutes and {spec.needs_disk_bytes / 1024**3:.0f} GiB of disk"
    return CacheState(
        ready=False, text=f"{what} in {folder}: {state} on first use ({need})", fix=f"soak serve {spec.name}"
    )


def note_ready(prepared: Prepared, ready_s: float) -> None:
    """Note the first time that a server of this environment became ready."""
    path = prepared.folder / PROOF
    if read_marker(path, Proof) is None:
        write_marker(path, Proof(ready_s=ready_s, at=time.time()))


def condemn(prepared: Prepared) -> None:
    """Take the markers away from an environment that does not work, so that the next `prepare` makes it anew."""
    for name in (MARKER, PROOF):
        (prepared.folder / name).unlink(missing_ok=True)
    lock_path(prepared.folder).unlink(missing_ok=True)  # what does not fit must not be what it is made of again


def _environment_ready(spec: LaunchSpec) -> bool:
    folder = build_folder(spec)
    marker = read_marker(folder / MARKER, EnvironmentMarker)
    return (
        marker is not None
        and marker.fingerprint == spec.environment_fingerprint
        and python_of(folder).is_file()
        and installed_in(folder) == marker.installed
    )


def _make_environment(spec: LaunchSpec, lock: int, report: Report) -> None:
    folder = build_folder(spec)
    began = time.monotonic()
    _remove(folder)
    require_disk(make_folder(folder), spec.needs_disk_bytes)
    try:
        versions = install(spec, Bench(folder=folder, log_path=folder / "install.log", locks=(lock,)), report)
    except OSError as error:
        raise unwritable(folder, error) from error
    marker = EnvironmentMarker(
        fingerprint=spec.environment_fingerprint,
        versions=versions,
        installed=installed_in(folder),
        took_s=round(time.monotonic() - began, 1),
    )
    write_lock(folder, marker.installed)
    write_marker(folder / MARKER, marker)


def _remove(folder: Path) -> None:
    """Remove what is there, its marker first, so that a removal broken off leaves nothing that looks made."""
    try:
        (folder / MARKER).unlink(missing_ok=True)
        if folder.exists():
            shutil.rmtree(folder)
    except OSError as error:
        raise unwritable(folder, error) from error
