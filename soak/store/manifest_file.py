"""
`manifest.json`: one facts.Manifest as indented JSON, replaced as a whole or not at all, and free of secrets.

The refusal of secrets is a net under the code that makes manifests, which has no reason to put one there.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from soak.errors import RunFolderError
from soak.facts import Manifest
from soak.store.encoding import from_json, to_json
from soak.store.problems import damaged, newer, not_a_run, unwritable

_MAX_BYTES = 16 * 1024 * 1024
_FAMILY, _NUMBER = "soak.run", 1
_SECRET_NAME = re.compile(
    r"api.?key|authorization|passw(or)?d|secret|credential|(access|auth|bearer|hf|hub|refresh|session)[_-]?token$",
    re.IGNORECASE,
)
_SECRET_VALUE = re.compile(
    r"\bbearer\s+\S{8,}|\b(sk|hf)[-_][A-Za-z0-9_-]{20,}|://[^/\s@]+:[^/\s@]+@|--api[-_]key\b", re.IGNORECASE
)


class _Head(msgspec.Struct):
    schema: str


def write_manifest(path: Path, manifest: Manifest) -> None:
    """
    Replace the manifest at `path` durably: a crash leaves the old one or the new one.

    Raises `RunFolderError` if it cannot be written, or if something in it looks like an API key.
    """
    text = to_json(manifest)
    refuse_secrets(path, msgspec.json.decode(text))
    try:
        replace_whole(path, msgspec.json.format(text, indent=2).encode() + b"\n")
    except OSError as error:
        raise unwritable(path, error) from error


def replace_whole(path: Path, data: bytes) -> None:
    """Replace a file durably: a crash leaves the old one or the new one."""
    fresh = path.with_name(path.name + ".new")
    with fresh.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def read_manifest(path: Path) -> Manifest:
    """Return the manifest at `path`; raises `RunFolderError` if it is missing, broken or from a newer soak."""
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
        if len(data) > _MAX_BYTES:
            raise damaged(path, f"it is larger than {_MAX_BYTES} bytes")
        text = data.decode()
        _check_schema(path, from_json(text, _Head).schema)
        return from_json(text, Manifest)
    except FileNotFoundError as error:
        raise not_a_run(path.parent, "its manifest.json is missing: the run was not set up to its end") from error
    except (OSError, ValueError) as error:
        raise damaged(path, error) from error


def _check_schema(path: Path, schema: str) -> None:
    family, _, number = schema.partition("/")
    if family != _FAMILY or not number.isdecimal():
        raise damaged(path, f"it is a {schema[:80]!r}, not a {_FAMILY}/{_NUMBER}")
    if int(number) > _NUMBER:
        raise newer(path.parent, f"{schema}; this soak knows {_FAMILY}/{_NUMBER}")


def refuse_secrets(path: Path, manifest: dict[str, Any]) -> None:
    """Raise `RunFolderError` if something among these values looks like an API key."""
    for place, value in _leaves(manifest, ""):
        named_so = value is not None and _SECRET_NAME.search(place.rpartition(".")[2])
        if named_so or (isinstance(value, str) and _SECRET_VALUE.search(value)):
            raise RunFolderError(
                f"refused to write {path}",
                why=f"{place} looks like an API key or a password, and a run folder holds none",
                hint="give the key in the environment variable SOAK_API_KEY",
            )


def _leaves(value: Any, place: str) -> Iterator[tuple[str, Any]]:
    """Every entry with the path of names that leads to it, the ones that hold others included."""
    yield place, value
    if isinstance(value, dict):
        for name, item in value.items():
            yield from _leaves(item, f"{place}.{name}" if place else name)
    elif isinstance(value, list):
        for item in value:
            yield from _leaves(item, place)
