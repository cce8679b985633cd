"""A build with one thing changed: pure, for probes that ask what a fault needs."""

from dataclasses import replace

from soak.errors import UsageError
from soak.facts import EngineChange, NamedBuild

_SWITCHES = {
    "prefix_cache": ("--enable-prefix-caching", "--no-enable-prefix-caching"),
    "eager": ("--enforce-eager", "--no-enforce-eager"),
}


def altered(build: NamedBuild, change: EngineChange) -> NamedBuild:
    """
    Return the build with the change made, named after it; the same build where nothing is changed.

    Raises `UsageError` for a change that this engine has no known switch for.
    """
    if change == EngineChange():
        return build
    if build.file.engine == "url":
        raise UsageError(
            f"{build.name} cannot be started with {change.text}",
            why="it is a server that runs already",
            hint="give a build that soak starts, or a second server that runs so",
        )
    switched = [_switch(build, name, on) for name in _SWITCHES if (on := getattr(change, name)) is not None]
    flags = build.file.flags
    for flag in (*switched, *change.flags):
        flags = (*(one for one in flags if _name(one) != _name(flag)), flag)
    file = replace(build.file, flags=flags, environment={**build.file.environment, **change.environment})
    if change.speculation is not None:
        file = replace(file, speculative=_speculative(build, change))
    return replace(build, name=f"{build.name} ({change.text})", file=file)


def _speculative(build: NamedBuild, change: EngineChange) -> dict[str, object] | None:
    if change.speculation is False:
        if build.file.engine == "command":
            raise _no_switch(build, "speculation")
        return None
    if isinstance(change.speculation, dict):
        return change.speculation
    if build.file.speculative is None:
        raise UsageError(
            f"{build.name} cannot be started with speculation",
            why="its file has no speculative config",
            hint="give the config: method and num_speculative_tokens",
        )
    return build.file.speculative


def _switch(build: NamedBuild, name: str, on: bool) -> str:
    if build.file.engine == "command":
        raise _no_switch(build, name)
    return _SWITCHES[name][0 if on else 1]


def _no_switch(build: NamedBuild, name: str) -> UsageError:
    return UsageError(
        f"{build.name} cannot be started with another {name}",
        why="it is started by a command, whose switches soak does not know",
        hint="give the flags themselves, or a second build file",
    )


def _name(flag: str) -> str:
    """Return a flag's name without its value and without its negation."""
    name = flag.split("=", 1)[0].split(" ", 1)[0]
    return "--" + name.removeprefix("--").removeprefix("no-")
