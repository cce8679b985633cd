"""What comes with soak is found by name, also where soak was installed from a wheel."""

import tomllib
from pathlib import Path

import pytest

from soak.scenario import CARRIED_BUILDS, available_builds
from soak.shelves import carried

ROOT = Path(__file__).parents[3]
KINDS = ("scenarios", "transcripts", CARRIED_BUILDS)


def test_a_wheel_carries_each_kind_where_it_is_looked_for() -> None:
    """The build of the wheel puts every folder at the second of the places where `carried` looks."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    placed = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    assert {kind: ROOT / placed[kind] for kind in KINDS} == {kind: carried(kind)[1] for kind in KINDS}
    assert all(carried(kind)[0] == ROOT / kind for kind in KINDS)


def test_the_working_folder_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A build of one's own takes the name of one that comes with soak, and `builds/` comes before `ops/builds/`."""
    for path in ("builds/mine.yaml", "ops/builds/mine.yaml", "ops/builds/local.yaml"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("")
    monkeypatch.chdir(tmp_path)
    found = available_builds()
    assert (found["mine"], found["local"]) == (Path("builds/mine.yaml"), Path("ops/builds/local.yaml"))
    assert found["vllm-cpu-0.31"].is_absolute()
