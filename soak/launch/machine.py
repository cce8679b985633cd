"""What this machine has: cores, free memory and disk, ports; and the environment variables that a build may see."""

import contextlib
import os
import shutil
import socket
from collections.abc import Mapping
from pathlib import Path

import msgspec

from soak.errors import LaunchError

LOOPBACK = "127.0.0.1"
GIB = 1024**3
IMPORT_PATH = "PYTHONPATH"

# What a server needs of the user's environment. A list of what goes in, not of what stays out: no key can slip through.
PASSED_ON = frozenset({
    "PATH", "HOME", "USER", "LOGNAME", "LANG", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "CUDA_HOME", "CUDA_VISIBLE_DEVICES",
    "NVIDIA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES",
})  # fmt: skip

# Settings that would make the build's pip or Python look at, or write into, the user's own environment.
KEPT_FROM_INSTALL = frozenset({
    IMPORT_PATH, "PYTHONHOME", "PYTHONSTARTUP", "VIRTUAL_ENV", "CONDA_PREFIX", "PIP_TARGET", "PIP_PREFIX", "PIP_ROOT",
    "PIP_USER", "PIP_REQUIRE_VIRTUALENV", "PIP_PYTHON", "PIP_DRY_RUN", "PIP_NO_DEPS", "PIP_REQUIRE_HASHES",
    "UV_PYTHON", "UV_SYSTEM_PYTHON", "UV_TARGET", "UV_PREFIX", "UV_REQUIRE_HASHES", "UV_NO_DEPS",
})  # fmt: skip
SECRETS = ("_API_KEY", "_TOKEN", "_SECRET")


def cores() -> int:
    """Return how many cores this process may use: those it is allowed, or fewer if the container has a quota."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with contextlib.suppress(OSError, ValueError):
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text("ascii").split()
        if quota != "max":
            return max(1, min(allowed, int(quota) // int(period)))
    return allowed


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """What of the machine one server gets: CPU cores, and the GPUs by number (None: whatever it finds)."""

    cores: int
    devices: tuple[int, ...] | None = None


def whole_machine() -> Place:
    """Return all of it."""
    return Place(cores=cores())


def free_memory_bytes() -> int | None:
    """Return the memory that could be had without swapping; None where the system does not say."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/meminfo").read_text("ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return None


def require_disk(folder: Path, needed_bytes: int) -> None:
    """Raise `LaunchError` if the disk of `folder` has less than `needed_bytes` free."""
    free = shutil.disk_usage(folder).free
    if free < needed_bytes:
        raise LaunchError(
            f"not enough disk space in {folder}",
            why=f"the build needs {needed_bytes / GIB:.1f} GiB there and {free / GIB:.1f} GiB are free",
            hint="free some space, or set XDG_CACHE_HOME to a folder on a larger disk",
        )


def free_port(wanted: int | None) -> int:
    """Return `wanted`, or any free loopback port; raises `LaunchError` naming the port if it is taken."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do: a closed one does not block it
        try:
            probe.bind((LOOPBACK, wanted or 0))
        except (OSError, OverflowError) as error:
            raise LaunchError(
                f"port {wanted} cannot be used",
                why=f"{getattr(error, 'strerror', None) or error} on {LOOPBACK}",
                hint="stop what listens there, give another port, or none to have a free one found",
            ) from error
        return int(probe.getsockname()[1])


def install_environment(given: Mapping[str, str]) -> dict[str, str]:
    """Return the variables for pip and uv: the user's, without keys and without what points to another environment."""
    return {
        name: value
        for name, value in given.items()
        if name not in KEPT_FROM_INSTALL and not (name.endswith(SECRETS) and not name.startswith(("PIP_", "UV_")))
    }


def server_environment(given: Mapping[str, str]) -> dict[str, str]:
    """Return the few of the user's variables that a server gets: no keys, no settings of the engine."""
    return {name: value for name, value in given.items() if name in PASSED_ON or name.startswith(("LC_", "XDG_"))}
