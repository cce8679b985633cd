"""The command that serves a build, and what it says about the build."""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from soak.errors import LaunchError
from soak.facts import Build
from soak.launch.cache import MARKER, EnvironmentMarker, read_marker
from soak.launch.install import source_of, venv_of
from soak.launch.machine import IMPORT_PATH, LOOPBACK, Place, server_environment, whole_machine
from soak.launch.prepare import Prepared
from soak.launch.spec import LaunchSpec

SPECULATIVE = ("--speculative-config", "-sc")
PREFIX_CACHE = {"--enable-prefix-caching": True, "--no-enable-prefix-caching": False}


class ServerCommand(msgspec.Struct, frozen=True, kw_only=True):
    """What is executed, with which environment, and the build that it makes."""

    words: tuple[str, ...]
    environment: dict[str, str]
    build: Build


def command_for(
    prepared: Prepared, port: int, extra_flags: Sequence[str], given: Mapping[str, str], place: Place | None = None
) -> ServerCommand:
    """
    Return how to serve `prepared` on `port`; later flags win over earlier ones, as they do for vLLM.

    `given` is the user's environment, `place` what of the machine it gets (default: all).
    Raises `LaunchError` if a speculative config among the flags is not JSON.
    """
    spec = prepared.spec
    place = place or whole_machine()
    fill = _filler(prepared, port, place)
    speculative = [f"{SPECULATIVE[0]}={json.dumps(spec.speculative)}"] if spec.speculative else []
    flags = [*(fill(flag) for flag in spec.flags), *speculative, *extra_flags]
    environment = server_environment(given) | {name: given[name] for name in spec.pass_on if name in given}
    environment |= {name: fill(value) for name, value in spec.environment.items()}
    if folders := environment.get(IMPORT_PATH):
        environment[IMPORT_PATH] = _absolute(folders)
    if place.devices is not None:
        environment["CUDA_VISIBLE_DEVICES"] = _visible(place.devices, given.get("CUDA_VISIBLE_DEVICES", ""))
    if preload := _present(spec.preload, venv_of(prepared.folder)):
        environment["LD_PRELOAD"] = ":".join(preload)
    return ServerCommand(
        words=(*(fill(word) for word in spec.command), *flags),
        environment=environment,
        build=_build(prepared, port, flags, list(extra_flags)),
    )


def _filler(prepared: Prepared, port: int, place: Place) -> Callable[[str], str]:
    values = {
        "{python}": str(prepared.python),
        "{venv}": str(venv_of(prepared.folder)),
        "{model}": str(prepared.model_path or _model_of(prepared.spec)),
        "{served}": prepared.spec.served_model,
        "{port}": str(port),
        "{cores}": str(place.cores),
        "{image}": prepared.spec.image or "",
        "{source}": str(source_of(prepared.folder)),
    }

    def fill(text: str) -> str:
        for name, value in values.items():
            text = text.replace(name, value)
        return text

    return fill


def _visible(devices: Sequence[int], given: str) -> str:
    """Return the GPUs of a place by the names the user's own choice of GPUs gives them."""
    names = [name.strip() for name in given.split(",") if name.strip()]
    return ",".join(names[device] if device < len(names) else str(device) for device in devices)


def _absolute(folders: str) -> str:
    """Return the folders of an import path from where soak is, for the server starts elsewhere."""
    parts = (part for part in folders.split(os.pathsep) if part)
    return os.pathsep.join(str(Path(part).expanduser().absolute()) for part in parts)


def _model_of(spec: LaunchSpec) -> str:
    """Return the model that is not ours: a path made absolute, for the server starts elsewhere, or a name as it is."""
    path = Path(spec.model_id or "").expanduser()
    return str(path.absolute()) if spec.model_id and path.exists() else spec.model_id or ""


def _present(libraries: Sequence[str], venv: Path) -> list[str]:
    return [str(venv / name) for name in libraries if (venv / name).is_file()]


def _build(prepared: Prepared, port: int, flags: Sequence[str], extra_flags: list[str]) -> Build:
    spec = prepared.spec
    speculative = _speculative_in(flags)
    prefix_cache = next((PREFIX_CACHE[flag] for flag in reversed(flags) if flag in PREFIX_CACHE), spec.prefix_cache)
    settings: dict[str, Any] = {"build": f"{spec.name}-{spec.fingerprint}"}
    if spec.tells:
        settings["speculation"] = bool(speculative)
    if spec.commit:
        settings["commit"] = spec.commit
    if prefix_cache is not None:
        settings["prefix_cache"] = prefix_cache
    if extra_flags:
        settings["extra_flags"] = extra_flags
    return Build(
        engine=spec.engine,
        version=_version(prepared),
        model=spec.served_model,
        speculative=speculative,
        target=f"http://{LOOPBACK}:{port}",
        settings=settings,
    )


def _version(prepared: Prepared) -> str | None:
    """Return the version that was imported when the environment was checked, else what the build names."""
    marker = read_marker(prepared.folder / MARKER, EnvironmentMarker)
    told = marker.versions.get("vllm") if marker and prepared.spec.tells else None
    return told or prepared.spec.version or None


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
