"""Which code a build file means: a release, a wheel, or the commit that a ref or a pull request is just now."""

import hashlib
import os
import re
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath

from soak.errors import LaunchError
from soak.facts import BuildFile, NamedBuild
from soak.launch.machine import install_environment
from soak.launch.spec import Checkout

GIT_LIMIT_S = 60.0
WHEELS_BY_COMMIT = "https://wheels.vllm.ai"

_COMMIT = re.compile(r"[0-9a-f]{40}\Z")


def pin(build: NamedBuild) -> NamedBuild:
    """
    Return the build with the commit that its `ref` or `pr` is now; a build pinned before, or a release, as it is.

    Asks the repository (a pull request) or the checkout (another ref). Raises `LaunchError` if it cannot be found.
    """
    file = build.file
    if build.pinned is not None or (file.ref is None and file.pr is None):
        return build
    return replace(build, pinned=_commit_of(file))


def _commit_of(file: BuildFile) -> str:
    if file.pr is not None:
        ref = f"refs/pull/{file.pr}/head"
        return _git_commit(["ls-remote", "--exit-code", "--", file.repository, ref], f"pull request {file.pr}")
    assert file.ref is not None
    if _COMMIT.match(file.ref):
        return file.ref
    return commit_in(file.checkout or ".", file.ref)


def git_output(arguments: Sequence[str]) -> tuple[str, str]:
    """Return what git wrote on stdout and on stderr; that it cannot be run is told like an error of its own."""
    try:
        result = subprocess.run(
            ["git", *arguments],
            capture_output=True,
            timeout=GIT_LIMIT_S,
            env=install_environment(os.environ) | {"GIT_TERMINAL_PROMPT": "0"},
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return "", str(error)
    told, said = (data.decode("utf-8", "replace").strip() for data in (result.stdout, result.stderr))
    return told, said


def commit_in(checkout: str, ref: str) -> str:
    """Return the full commit that `ref` is in a local clone; raises `LaunchError` if it cannot be found."""
    folder = str(Path(checkout).expanduser())
    return _git_commit(["-C", folder, "rev-parse", "--verify", "--end-of-options", f"{ref}^{{commit}}"], ref)


def _git_commit(arguments: list[str], what: str) -> str:
    told, said = git_output(arguments)
    commit = told.partition("\t")[0].strip()
    if not _COMMIT.match(commit):
        raise LaunchError(
            f"the commit of {what[:100]} cannot be found",
            why=" ".join(said.split())[-300:] or "git named no commit",
            hint="check `repository`, `ref` and `checkout` in the build file, and that git can reach them",
        )
    return commit


def checkout_of(build: NamedBuild) -> Checkout | None:
    """Return the commit to install from the build's local clone; None where it names none."""
    file = build.file
    if file.checkout is None or build.pinned is None:
        return None
    return Checkout(
        folder=str(Path(file.checkout).expanduser().absolute()),
        commit=build.pinned,
        repository=file.repository,
        fetch=f"refs/pull/{file.pr}/head" if file.pr is not None else None,
    )


def wheel_name(wheel: str) -> tuple[str, str]:
    """Return package name and version that a wheel's file name tells; raises `LaunchError` if it is none."""
    parts = PurePosixPath(wheel.partition("?")[0].partition("#")[0]).name.removesuffix(".whl").split("-")
    if len(parts) < 5 or not wheel.partition("?")[0].partition("#")[0].endswith(".whl"):
        raise LaunchError(
            f"{wheel[:100]} is no wheel",
            why="its file name is not NAME-VERSION-PYTHON-ABI-PLATFORM.whl",
            hint="give the path or URL of a .whl file under its own name",
        )
    return parts[0], parts[1]


def wheel_hash(wheel: str) -> str | None:
    """Return the SHA-256 of a local wheel in hex, None for a URL; raises `LaunchError` if it cannot be read."""
    if "://" in wheel:
        return None
    try:
        with Path(wheel).expanduser().open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise LaunchError(
            f"the wheel {wheel[:200]} cannot be read", why=error.strerror or str(error), hint="check `wheel`"
        ) from error
