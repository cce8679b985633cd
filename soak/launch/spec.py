"""
What a build is made of and how it is started, as immutable values.

Two fingerprints: the *environment's* covers what is installed and names its folder in the cache, so that builds that
differ only in flags share one installation of several gigabytes; the *build's* covers the model, the flags and the
speculative config as well.
"""

import platform
import sys
from typing import Any

import msgspec

from soak.facts import digest_of

FINGERPRINT_CHARS = 12


class Correction(msgspec.Struct, frozen=True, kw_only=True):
    """A defect of an installed package that is mended: in `file`, a path inside site-packages, `old` becomes `new`."""

    file: str
    old: str
    new: str


class Checkout(msgspec.Struct, frozen=True, kw_only=True):
    """A commit of a local clone: installed from a copy of it; `fetch` is a ref of `repository` to fetch it by first."""

    folder: str
    commit: str
    repository: str
    fetch: str | None = None


class Packages(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """
    What is installed into the build's own virtual environment, in this order.

    `torch`: an exact version; where the configured index has none, PyTorch's own CPU index is asked.
    `bare`: requirements or wheels installed without their dependencies, from `index` and nowhere else if it is given;
    `wheel_sha256` is the hash of a local wheel among them. `checkout` is installed likewise, with vLLM's precompiled
    binaries, and brings the package `vllm`; `source` is a commit that is copied and not installed. Dependencies are
    read from the metadata of what is then installed, and installed afterwards, but for those named in `drop`. `extra`:
    further requirements, in which `{source}` is the copy. `pins`: the text of a constraints file, tried first.
    `corrections` are made before anything is imported. `imports` must import afterwards and `absent` must not be there.
    """

    torch: str | None = None
    bare: tuple[str, ...] = ()
    index: str | None = None
    wheel_sha256: str | None = None
    checkout: Checkout | None = None
    source: Checkout | None = None
    drop: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()
    pins: str = ""
    corrections: tuple[Correction, ...] = ()
    imports: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()

    @property
    def any(self) -> bool:
        """Whether there is anything to install."""
        return bool(self.torch or self.bare or self.checkout or self.extra)


class ModelSource(msgspec.Struct, frozen=True, kw_only=True):
    """
    A model that comes as a GGUF file inside a Python package and is converted once to a plain checkpoint.

    `package` is a requirement, installed without dependencies; `gguf` the file's path inside site-packages, `sha256`
    its hash in hex.
    """

    name: str
    package: str
    gguf: str
    sha256: str

    @property
    def folder(self) -> str:
        """Its folder's name in the cache."""
        return f"{self.name}-{self.sha256[:FINGERPRINT_CHARS]}"


class LaunchSpec(msgspec.Struct, frozen=True, kw_only=True):
    """
    One build: what to install, which model, which command serves it.

    `model` is converted by us; `model_id`, where there is none, a Hugging Face id or a path. In `command`, `flags` and
    the values of `environment` these are replaced: `{python}` and `{venv}` of the build, `{model}` (the checkpoint's
    folder or `model_id`), `{served}` (the served model's name), `{port}`, `{cores}`, `{image}`, `{source}` (the copy of
    a commit). `speculative` is handed over as `--speculative-config`. `tells`: whether the flags are vLLM's, so that
    they tell what is on. `pass_on` are variables of the user's environment that the server gets. `preload` are
    libraries inside the virtual environment that are preloaded where present. `devices`: GPUs it takes. `restarts`: how
    often it may be started again. `needs_disk_bytes` must be free before it is made, `needs_memory_bytes` is what it
    takes to serve.
    """

    name: str
    engine: str
    version: str
    served_model: str
    command: tuple[str, ...]
    packages: Packages = Packages()
    model: ModelSource | None = None
    model_id: str | None = None
    revision: str | None = None
    image: str | None = None
    tells: bool = True
    commit: str | None = None
    flags: tuple[str, ...] = ()
    speculative: dict[str, Any] | None = None
    prefix_cache: bool | None = None
    environment: dict[str, str] = {}
    pass_on: tuple[str, ...] = ()
    preload: tuple[str, ...] = ()
    ready_path: str = "/health"
    ready_within_s: float = 600.0
    devices: int = 0
    restarts: int = 0
    needs_disk_bytes: int = 0
    needs_memory_bytes: int = 0

    @property
    def environment_fingerprint(self) -> str:
        """Twelve hex digits over what is installed, for which Python and machine."""
        python = f"{sys.implementation.cache_tag}-{sys.platform}-{platform.machine()}"
        return _short([self.packages, self.model.package if self.model else None, python])

    @property
    def fingerprint(self) -> str:
        """Twelve hex digits over everything that decides what the build answers."""
        model = [self.model, self.model_id, self.revision, self.image]
        served = [model, self.command, self.flags, self.speculative, self.environment]
        return _short([self.environment_fingerprint, *served])

    @property
    def folder(self) -> str:
        """The environment's folder name in the cache."""
        return f"{self.name}-{self.environment_fingerprint}"


def _short(value: Any) -> str:
    return digest_of(value).removeprefix("sha256:")[:FINGERPRINT_CHARS]
