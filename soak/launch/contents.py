"""What lies in soak's folder of the user's cache, for people who want the space back."""

import os
from pathlib import Path

import msgspec

from soak.launch.cache import cache_home


class CacheEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One build or model in the cache: its folder, and the bytes it takes on disk."""

    folder: Path
    size_bytes: int


def cache_contents() -> tuple[CacheEntry, ...]:
    """Return every build and model in the cache, whole or half made; those that cannot be read count as empty."""
    found = [path for kind in ("builds", "models") for path in sorted((cache_home() / kind).glob("*"))]
    return tuple(CacheEntry(folder=path, size_bytes=_size_bytes(path)) for path in found if path.is_dir())


def _size_bytes(folder: Path) -> int:
    """Return what `du` would say: each file once, however many links it has."""
    sizes: dict[tuple[int, int], int] = {}
    for place, _, files in os.walk(folder):
        for name in files:
            try:
                stat = os.lstat(os.path.join(place, name))  # noqa: PTH118 - tens of thousands of files
            except OSError:
                continue
            sizes[stat.st_dev, stat.st_ino] = stat.st_blocks * 512
    return sum(sizes.values())
