"""A build with one thing changed: pure, for probes that ask what a fault needs."""

from dataclasses import replace

from soak.errors import UsageError
from soak.facts import EngineChange, NamedBuild
from soak.facts.build_file import SwitchName

_SWITCHES: dict[SwitchName, tuple[str, str]] = {
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
    flags = build.file.flags
    switches: list[tuple[SwitchName, bool | None]] = [("prefix_cache", change.prefix_cache), ("eager", change.eager)]
    for name, on in switches:
        flags = flags if on is None else _switched(build, flags, name, on=on)
    if build.file.engine == "command" and change.speculation is not None:
        flags = _switched(build, flags, "speculation", on=_on_or_off(build, change.speculation))
    flags = _replaced(flags, change.flags)
    file = replace(build.file, flags=flags, environment={**build.file.environment, **change.environment})
    if build.file.engine != "command" and change.speculation is not None:
        file = replace(file, speculative=_speculative(build, change))
    return replace(build, name=f"{build.name} ({change.text})", file=file)


def _speculative(build: NamedBuild, change: EngineChange) -> dict[str, object] | None:
    """Return the speculative config meant; one without a method is a change to the build's own."""
    if change.speculation is False:
        return None
    own = build.file.speculative
    if isinstance(change.speculation, dict) and "method" in change.speculation:
        return change.speculation
    if own is None:
        raise UsageError(
            f"{build.name} cannot be started with speculation",
            why="its file has no speculative config",
            hint="give the config: method and num_speculative_tokens",
        )
    return {**own, **change.speculation} if isinstance(change.speculation, dict) else own


def _on_or_off(build: NamedBuild, speculation: bool | dict[str, object]) -> bool:
    if isinstance(speculation, dict):
        raise UsageError(
            f"{build.name} cannot be started with another speculative config",
            why="it is started by a command, whose switches are on and off",
            hint="give the flags themselves",
        )
    return speculation


def _switched(build: NamedBuild, flags: tuple[str, ...], name: SwitchName, *, on: bool) -> tuple[str, ...]:
    """Return the flags with a feature switched: vLLM's way, or as the build's own file says."""
    if build.file.engine != "command":
        return _replaced(flags, (_SWITCHES[name][0 if on else 1],))
    switch = build.file.switches.get(name)
    if switch is None:
        raise UsageError(
            f"{build.name} cannot be started with another {name.replace('_', ' ')}",
            why="it is started by a command, and its file does not say how that is switched",
            hint=f"say it in the build file: switches: {{{name}: {{on: [...], off: [...]}}}}",
        )
    wanted, other = (switch.on, switch.off) if on else (switch.off, switch.on)
    return (*_without(_without(flags, other), wanted), *wanted)


def _without(flags: tuple[str, ...], words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the flags without these words, where they stand one after the other."""
    size = len(words)
    at = next((at for at in range(len(flags) - size + 1) if size and flags[at : at + size] == words), None)
    return flags if at is None else _without(flags[:at] + flags[at + size :], words)


def _replaced(flags: tuple[str, ...], new: tuple[str, ...]) -> tuple[str, ...]:
    """Return the flags with new ones in the place of the same flags."""
    names = {_name(flag) for flag in new}
    return (*(flag for flag in flags if _name(flag) not in names), *new)


def _name(flag: str) -> str:
    """Return a flag's name without its value and without its negation."""
    name = flag.split("=", 1)[0].split(" ", 1)[0]
    return "--" + name.removeprefix("--").removeprefix("no-")
