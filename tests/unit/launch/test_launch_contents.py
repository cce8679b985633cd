"""What is told of the cache."""

from pathlib import Path

from soak.launch import cache_contents


def test_each_build_and_model_is_told_with_its_size(cache: Path) -> None:
    """Every folder of a build or model counts, a file with two links once, a lock not at all."""
    assert cache_contents() == ()
    venv = cache / "soak" / "builds" / "one" / "venv"
    venv.mkdir(parents=True)
    (cache / "soak" / "builds" / "one.lock").touch()
    (venv / "large").write_bytes(b"x" * 1_000_000)
    (venv / "link").hardlink_to(venv / "large")
    (cache / "soak" / "models" / "empty").mkdir(parents=True)
    one, empty = cache_contents()
    assert (one.folder, empty.folder) == (venv.parent, cache / "soak" / "models" / "empty")
    assert 1_000_000 <= one.size_bytes < 1_100_000
    assert empty.size_bytes == 0
