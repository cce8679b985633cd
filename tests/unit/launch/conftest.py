"""A cache of its own for every test, and a scripted engine that is started through the same doors as a real one."""

from pathlib import Path

import pytest
from launch_builds import scripted

from soak.launch import Prepared, prepare


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty user's cache, and little patience with processes that do not want to end."""
    monkeypatch.setattr("soak.launch.server.GRACE_S", 0.5)
    folder = tmp_path / "cache"
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    return folder


@pytest.fixture
def ready(cache: Path) -> Prepared:
    """The scripted engine that serves, prepared."""
    return prepare(scripted("serve"))
