"""What `soak doctor` says of extras and of builds that are no more than a command."""

import sys
from pathlib import Path

import pytest

from soak.app.surroundings import Check, surroundings
from soak.shelves import install_command


def test_an_extra_is_installed_from_the_checkout_or_by_name(tmp_path: Path) -> None:
    """In a checkout the command names its folder, quoted for a shell; beside other packages, soak by name."""
    checkout = tmp_path / "my soak"
    package = checkout / "soak"
    assert install_command("hub", package) == "pip install 'soak[hub]'"
    package.mkdir(parents=True)
    (checkout / "pyproject.toml").touch()
    assert install_command("hub", package) == f"pip install -e '{checkout}[hub]'"


@pytest.mark.parametrize(
    ("program", "state", "told"),
    [
        (sys.executable, "ok", f"starts {sys.executable}"),
        ("no-such-server", "note", "no-such-server is not found"),
        ("{python}", "ok", "the build's own Python"),
    ],
)
def test_a_build_that_is_a_command(
    program: str, state: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a command without requirements doctor says whether its program is there; nothing is to be made."""
    (tmp_path / "builds").mkdir()
    lines = ("about: x", "engine: command", "model: m", f'command: ["{program}", --port, "{{port}}"]')
    (tmp_path / "builds" / "mine.yaml").write_text("\n".join(lines))
    monkeypatch.chdir(tmp_path)
    found: dict[str, Check] = {check.name: check for check in surroundings()}
    assert found["mine build"].state == state
    assert told in found["mine build"].text
