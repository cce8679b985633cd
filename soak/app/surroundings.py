"""What `soak doctor` sees of this machine: packages, extras, cache, disk, sandbox, open files."""

import re
import resource
import shutil
from collections import defaultdict
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Literal

import msgspec

from soak.app.limits import BESIDES_STREAMS
from soak.errors import SoakError
from soak.launch import cache_contents, cache_home, spec_of, state_of_cache
from soak.scenario import available_builds, find_build
from soak.shelves import install_command

State = Literal["ok", "note", "problem"]

GIB = 1024**3
LITTLE_DISK_BYTES = 2 * GIB  # a run of hours with its kept streams, and some room
FEW_STREAMS = 256

_NAME = re.compile(r"[\w.-]+")
_EXTRA = re.compile(r"extra == [\"']([\w.-]+)[\"']")
_FOR_WHAT = {
    "agent": "agents cannot work on tasks (scenario swe_tasks)",
    "hub": "parquet, arrow and the Hub cannot be imported",
    "swebench": "instances of SWE-bench are judged by the summary of pytest alone",
    "report": "pages (soak report, compare --html) cannot be written",
}


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One thing looked at; `fix` says what to do where it is not ok."""

    name: str
    state: State
    text: str
    fix: str = ""


def surroundings() -> list[Check]:
    """Return what is there and what is missing, on this machine, without asking anybody else."""
    return [*_packages(), *_builds(), _cache(), _disk(), _bubblewrap(), _open_files()]


def _packages() -> list[Check]:
    """Look at what soak itself requires, and at each extra but `dev`, which is for work on soak."""
    wanted = defaultdict(list)
    for requirement in requires("soak") or ():
        extra = _EXTRA.search(requirement)
        name = _NAME.match(requirement)
        if name and name[0] != "soak":
            wanted[extra[1] if extra else ""].append(name[0])
    found, missing = _installed(wanted.pop("", ()))
    checks = [Check(name="packages", state="ok", text=", ".join(found))]
    if missing:
        text = ", ".join(missing)
        fix = f"pip install {' '.join(missing)}"
        checks.append(Check(name="packages missing", state="problem", text=text, fix=fix))
    return checks + [_extra(name, names) for name, names in wanted.items() if name != "dev"]


def _installed(names: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return the packages that are there, with their versions, and those that are not."""
    found, missing = [], []
    for name in names:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            missing.append(name)
    return found, missing


def _extra(extra: str, names: Iterable[str]) -> Check:
    found, missing = _installed(names)
    if not missing:
        return Check(name=f"extra {extra}", state="ok", text=f"present: {', '.join(found)}")
    so = f"; without it {_FOR_WHAT[extra]}" if extra in _FOR_WHAT else ""
    text = f"absent: {', '.join(missing)}{so}"
    return Check(name=f"extra {extra}", state="note", text=text, fix=install_command(extra))


def _builds() -> list[Check]:
    return [_build(name) for name in available_builds()]


def _build(name: str) -> Check:
    called = f"{name} build"
    try:
        build = find_build(name)
        if build.file.engine == "url":
            return Check(name=called, state="ok", text=f"a server at {build.file.url}")
        if build.file.engine == "command" and not build.file.requirements:
            return _program(called, build.file.command[0])
        cache = state_of_cache(spec_of(build))
    except SoakError as error:
        return Check(name=called, state="problem", text=f"{error.what}: {error.why}", fix=error.hint)
    return Check(name=called, state="ok" if cache.ready else "note", text=cache.text, fix=cache.fix)


def _program(called: str, program: str) -> Check:
    """Say whether the program is there with which a build starts that installs nothing."""
    if program.startswith("{"):
        return Check(name=called, state="ok", text="a command run by the build's own Python; nothing to install")
    found = shutil.which(program)
    if found is None:
        text = f"its program {program} is not found"
        return Check(name=called, state="note", text=text, fix="install it, or correct `command` in the build's file")
    return Check(name=called, state="ok", text=f"starts {found}; nothing to install")


def _cache() -> Check:
    """Say what lies in the cache and how large it is: nothing there is removed by itself."""
    entries = cache_contents()
    if not entries:
        return Check(name="cache", state="ok", text=f"nothing in {cache_home()}")
    sizes = ", ".join(f"{entry.folder.parent.name}/{entry.folder.name} {_gib(entry.size_bytes)}" for entry in entries)
    total = _gib(sum(entry.size_bytes for entry in entries))
    text = f"{total} in {cache_home()}: {sizes}; soak removes none of it; rm -r what you do not need, it can be remade"
    return Check(name="cache", state="ok", text=text)


def _disk() -> Check:
    here, cache = _free(Path.cwd()), _free(cache_home())
    return Check(
        name="disk",
        state="note" if min(here, cache) < LITTLE_DISK_BYTES else "ok",
        text=f"{_gib(here)} free for runs in {Path.cwd()}, {_gib(cache)} for builds in {cache_home()}",
        fix="free some space; XDG_CACHE_HOME names another folder for builds, --run one for a run",
    )


def _free(path: Path) -> int:
    """Return the bytes free where `path` is, or would be made."""
    there = next(place for place in (path, *path.parents) if place.exists())
    return shutil.disk_usage(there).free


def _gib(size_bytes: int) -> str:
    return f"{size_bytes / GIB:.1f} GiB"


def _bubblewrap() -> Check:
    path = shutil.which("bwrap")
    if path:
        return Check(name="bubblewrap", state="ok", text=path)
    text = "absent; only recording new corpora (ops/recorder) needs it"
    return Check(name="bubblewrap", state="note", text=text, fix="install the system's package bubblewrap")


def _open_files() -> Check:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY:
        return Check(name="open files", state="ok", text=f"{soft} at first, as many as are needed on demand")
    streams = max(hard - BESIDES_STREAMS, 0)
    return Check(
        name="open files",
        state="note" if streams < FEW_STREAMS else "ok",
        text=f"{soft} at first, up to {hard} on demand: enough for {streams} streams at once",
        fix="raise the hard limit (ulimit -Hn, or the system's limits.conf)",
    )
