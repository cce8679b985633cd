"""What lies between two builds: the releases that the package index lists, or the commits of a local clone."""

import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from soak.errors import LaunchError, UsageError
from soak.launch.machine import install_environment
from soak.launch.sources import commit_in, git_output

LIST_LIMIT_S = 180.0
SAID_LINES = 3

_COMMIT = re.compile(r"[0-9a-f]{40}\Z")
_LISTED = re.compile(r"^Available versions: (.+)$", re.MULTILINE)
_URL = re.compile(r"\w+://\S+")  # an index may be named with a password


def releases_between(package: str, good: str, bad: str) -> tuple[str, ...]:
    """
    Return the releases of `package` from version `good` to version `bad`, both included, oldest first.

    Asks the index that pip is configured with; pre-releases, withdrawn (yanked) releases, and what does not install on
    this machine and Python, are not listed. Raises `LaunchError` if it cannot be asked, `UsageError` if an end is not
    listed or they are reversed.
    """
    return part_of(_listed(package), package, good, bad)


def part_of(listed: Sequence[str], package: str, good: str, bad: str) -> tuple[str, ...]:
    """Return the part of a list of releases from `good` to `bad`; raises `UsageError` as `releases_between` does."""
    missing = [version for version in (good, bad) if version not in listed]
    if missing:
        raise UsageError(
            f"{package} {' and '.join(missing)[:100]} cannot be found",
            why=f"the index lists {len(listed)} releases for this machine, the last {listed[-1]}; none withdrawn",
            hint="name releases that it lists, as they are spelled there",
        )
    first, last = listed.index(good), listed.index(bad)
    if first >= last:
        raise UsageError(
            f"{package} {good} does not come before {bad}",
            why="a bisection goes from a good release to a later bad one",
            hint="give the older one as --good",
        )
    return tuple(listed[first : last + 1])


def _listed(package: str) -> list[str]:
    try:
        done = subprocess.run(
            [*_pip(), "index", "versions", "--no-input", package],
            capture_output=True,
            timeout=LIST_LIMIT_S,
            env=install_environment(os.environ),
            stdin=subprocess.DEVNULL,
            check=False,
        )
        told, said = (data.decode("utf-8", "replace") for data in (done.stdout, done.stderr))
    except (OSError, subprocess.TimeoutExpired) as error:
        told, said = "", f"{type(error).__name__} after at most {LIST_LIMIT_S:.0f} s"
    if listed := _LISTED.search(told):
        return listed[1].split(", ")[::-1]
    why = " | ".join(" ".join(line.split()) for line in said.splitlines()[-SAID_LINES:])
    raise LaunchError(
        f"the releases of {package} cannot be listed",
        why=_URL.sub("…", why)[-300:] or "the index lists none for this machine",
        hint="check the network and pip's index settings (pip config list), or name the builds between one by one",
    )


def _pip() -> list[str]:
    """Return pip: the one beside us, else the one that Python carries to make environments with, else the system's."""
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-I", "-m", "pip"]
    carrier = importlib.util.find_spec("ensurepip")  # some systems pack it apart from Python
    folders = map(Path, (carrier.submodule_search_locations or ()) if carrier else ())
    carried = sorted(wheel for folder in folders for wheel in folder.glob("_bundled/pip-*.whl"))
    return [sys.executable, "-I", str(carried[-1] / "pip")] if carried else ["pip"]


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
