"""The grid files shown in the documentation can be read."""

import re
from pathlib import Path

import pytest

from soak.scenario import find_grid, grids

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "ops" / "runbooks" / "which-setting.md"
SHOWN = re.findall(r"```yaml\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)


@pytest.mark.parametrize("text", SHOWN)
def test_every_grid_shown_is_accepted(text: str, tmp_path: Path) -> None:
    """Each example of the page is a grid without a problem."""
    path = tmp_path / "shown.yaml"
    path.write_text(text)
    assert len(find_grid(str(path)).factors) == 2


def test_the_grid_of_the_module_is_accepted(tmp_path: Path) -> None:
    """What the docstring of the module shows can be read as it stands, but for its size, which is told."""
    text = re.sub(r"^    ", "", (grids.__doc__ or "").partition("    about")[2], flags=re.MULTILINE)
    text = "about" + text.partition("The first level")[0].replace("design: full ", "design: one_at_a_time ")
    path = tmp_path / "shown.yaml"
    path.write_text(text)
    grid = find_grid(str(path))
    assert [factor.name for factor in grid.factors][-1] == "environment.OMP_NUM_THREADS"
