"""What lies between two builds: the releases that the package index lists, or the commits of a local clone."""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec

from soak.errors import LaunchError, UsageError
from soak.facts import decode
from soak.launch.install import INSIDE
from soak.launch.machine import install_environment
from soak.launch.sources import commit_in, git_output

LIST_LIMIT_S = 180.0
SAID_LINES = 3

_COMMIT = re.compile(r"[0-9a-f]{40}\Z")
_URL = re.compile(r"\w+://\S+")  # an index may be named with a password


class Listed(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A release as the package index lists it; `yanked`: withdrawn by its makers."""

    version: str
    yanked: bool


def releases_between(package: str, good: str, bad: str) -> tuple[Listed, ...]:
    """
    Return the releases of `package` from version `good` to version `bad`, both included, oldest first.

    Asks the index that pip is configured with; pre-releases, and what does not install on this machine and Python, are
    not listed. Raises `LaunchError` if it cannot be asked, `UsageError` if an end is not listed or they are reversed.
    """
    listed = _listed(package)
    place = {release.version: at for at, release in enumerate(listed)}
    missing = [version for version in (good, bad) if version not in place]
    if missing:
        raise UsageError(
            f"{package} {' and '.join(missing)[:100]} cannot be found",
            why=f"the index lists {len(listed)} releases for this machine, the last {listed[-1].version}",
            hint="name releases that it lists, as they are spelled there",
        )
    if place[good] >= place[bad]:
        raise UsageError(
            f"{package} {good} does not come before {bad}",
            why="a bisection goes from a good release to a later bad one",
            hint="give the older one as --good",
        )
    return tuple(listed[place[good] : place[bad] + 1])


def _listed(package: str) -> list[Listed]:
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "releases.json"
        words = [sys.executable, "-I", str(INSIDE / "releases.py"), str(result), package]
        said = _said_by(words, LIST_LIMIT_S)
        try:
            listed = decode(result.read_bytes(), list[Listed])
        except (OSError, msgspec.MsgspecError):
            listed = []
    if not listed:
        raise LaunchError(
            f"the releases of {package} cannot be listed",
            why=said or "the index lists none for this machine",
            hint="check the network and pip's index settings (pip config list), or name the builds between one by one",
        )
    return listed


def _said_by(words: Sequence[str], limit_s: float) -> str:
    """Run a command and return the last lines it wrote on stderr, or why it could not be run."""
    try:
        done = subprocess.run(
            words,
            capture_output=True,
            timeout=limit_s,
            env=install_environment(os.environ),
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{type(error).__name__} after at most {limit_s:.0f} s"
    lines = (done.stderr + done.stdout).decode("utf-8", "replace").split("\n")
    return _URL.sub("…", " | ".join(" ".join(line.split()) for line in lines[-SAID_LINES - 1 :] if line.strip()))[-300:]


def commits_between(checkout: str, good: str, bad: str) -> tuple[str, ...]:
    """
    Return the full commits from `good` to `bad` along first parents, both included, oldest first.

    Raises `LaunchError` where git cannot tell, `UsageError` where `good` is no ancestor of `bad`.
    """
    first, last = commit_in(checkout, good), commit_in(checkout, bad)
    clone = ["-C", str(Path(checkout).expanduser())]
    base, _ = git_output([*clone, "merge-base", first, last])
    if base != first or first == last:
        raise UsageError(
            f"{good[:60]} is no ancestor of {bad[:60]}",
            why=f"their last common commit is {base[:12] or 'unknown'}",
            hint="give as --good a commit that --bad was made from",
        )
    told, said = git_output([*clone, "rev-list", "--first-parent", "--reverse", f"{first}..{last}"])
    commits = told.split()
    if not commits or not all(map(_COMMIT.match, commits)):
        raise LaunchError(
            f"the commits up to {bad[:60]} cannot be listed", why=said[-300:] or "git named none", hint="check --repo"
        )
    return (first, *commits)
