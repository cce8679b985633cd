"""The command that serves a build, and what it says about the build."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from soak.errors import LaunchError
from soak.facts import Build
from soak.launch.install import venv_of
from soak.launch.machine import LOOPBACK, cores, server_environment
from soak.launch.prepare import Prepared

SPECULATIVE = ("--speculative-config", "-sc")
PREFIX_CACHE = {"--enable-prefix-caching": True, "--no-enable-prefix-caching": False}


class ServerCommand(msgspec.Struct, frozen=True, kw_only=True):
    """What is executed, with which environment, and the build that it makes."""

    words: tuple[str, ...]
    environment: dict[str, str]
    build: Build


def command_for(prepared: Prepared, port: int, extra_flags: Sequence[str], given: Mapping[str, str]) -> ServerCommand:
    """
    Return how to serve `prepared` on `port`; later flags win over earlier ones, as they do for vLLM.

    `given` is the user's environment. Raises `LaunchError` if a speculative config among the flags is not JSON.
    """
    spec = prepared.spec
    fill = _filler(prepared, port)
    speculative = [f"{SPECULATIVE[0]}={json.dumps(spec.speculative)}"] if spec.speculative else []
    flags = [*(fill(flag) for flag in spec.flags), *speculative, *extra_flags]
    environment = server_environment(given) | {name: fill(value) for name, value in spec.environment.items()}
    if preload := _present(spec.preload, venv_of(prepared.folder)):
        environment["LD_PRELOAD"] = ":".join(preload)
    return ServerCommand(
        words=(*(fill(word) for word in spec.command), *flags),
        environment=environment,
        build=_build(prepared, port, flags, list(extra_flags)),
    )


def _filler(prepared: Prepared, port: int) -> Callable[[str], str]:
    values = {
        "{python}": str(prepared.python),
        "{venv}": str(venv_of(prepared.folder)),
        "{model}": str(prepared.model_path or ""),
        "{served}": prepared.spec.served_model,
        "{port}": str(port),
        "{cores}": str(cores()),
    }

    def fill(text: str) -> str:
        for name, value in values.items():
            text = text.replace(name, value)
        return text

    return fill


def _present(libraries: Sequence[str], venv: Path) -> list[str]:
    return [str(venv / name) for name in libraries if (venv / name).is_file()]


def _build(prepared: Prepared, port: int, flags: Sequence[str], extra_flags: list[str]) -> Build:
    spec = prepared.spec
    speculative = _speculative_in(flags)
    prefix_cache = next((PREFIX_CACHE[flag] for flag in reversed(flags) if flag in PREFIX_CACHE), spec.prefix_cache)
    settings: dict[str, Any] = {"speculation": bool(speculative), "build": f"{spec.name}-{spec.fingerprint}"}
    if prefix_cache is not None:
        settings["prefix_cache"] = prefix_cache
    if extra_flags:
        settings["extra_flags"] = extra_flags
    return Build(
        engine=spec.engine,
        version=spec.version,
        model=spec.served_model,
        speculative=speculative,
        target=f"http://{LOOPBACK}:{port}",
        settings=settings,
    )


def _speculative_in(flags: Sequence[str]) -> dict[str, Any] | None:
    """Return the speculative config that holds: the last one, written `--flag=JSON` or `--flag JSON`."""
    found: str | None = None
    for at, flag in enumerate(flags):
        name, equals, value = flag.partition("=")
        if name in SPECULATIVE:
            found = value if equals else next(iter(flags[at + 1 : at + 2]), "")
    if found is None:
        return None
    try:
        return msgspec.json.decode(found, type=dict[str, Any])
    except msgspec.MsgspecError as error:
        raise LaunchError(
            "the speculative config is not a JSON object", why=f"{error}: {found[:200]}", hint='e.g. {"method":"ngram"}'
        ) from error
