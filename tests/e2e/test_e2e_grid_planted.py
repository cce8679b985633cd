"""
The grid over a real vLLM with a fault planted in it by a plugin: the setting it needs is named.

Six minutes a test on two cores, so like the comparison of releases they run with `ops/check --releases` only.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from rigs.cli import TESTS, Command

from soak.facts import encode
from soak.launch import LOCAL, prepare
from soak.scenario import find_build

PLANTED = TESTS / "planted"
GRID = """
about: Does the planted loop need speculation or the prefix cache?
repeats: 6
fails: garbage_loop
factors:
  speculation: [as_built, off]
  prefix_cache: [as_built, off]
"""

pytestmark = [
    pytest.mark.engine,
    pytest.mark.releases,  # minutes each: not part of every check
    pytest.mark.timeout(3600),
    pytest.mark.skipif(not PLANTED.is_dir(), reason="the plugin that plants faults is not here (tests/planted)"),
]


def planted(folder: Path, environment: Mapping[str, str]) -> str:
    """Write the local build with the plugin on its import path and these variables; return its path."""
    build = find_build("local").file
    changed = replace(build, environment={**build.environment, "PYTHONPATH": str(PLANTED), **environment})
    (folder / "planted.yaml").write_bytes(encode(changed))
    (folder / "grid.yaml").write_text(GRID)
    return "planted.yaml"


def screened(begin: Callable[..., Command], folder: Path, text: str) -> dict[str, object]:
    """Return the grid over a turn that failed in a run with this planted."""
    prepare(LOCAL)
    target = planted(folder, {"SOAK_PLANTED": text})
    command = begin("run", "--scenario", "smoke", "--target", target, "--turns", 3, "--in-flight", 1, "--run", "r",
                    "--set", "sampling.max_tokens=260", "--grid", "grid.yaml", "--grid-turns", 1, "--json")  # fmt: skip
    grid = command.wait(3000).json["grid"]
    assert isinstance(grid, dict), command.err
    return grid


def test_a_loop_planted_in_speculation_is_named(begin: Callable[..., Command], tmp_path: Path) -> None:
    """Loops that come only while the engine speculates go with speculation, whatever the prefix cache does."""
    grid = screened(begin, tmp_path, "garbage_loop:0.8;only_spec;seed=3")
    assert (grid["outcome"], grid["name"]) == ("found", "speculation"), grid["text"]


def test_what_is_planted_can_be_a_factor_itself(begin: Callable[..., Command], tmp_path: Path) -> None:
    """A variable of the environment is a factor like any other: with the loop planted there, it is named."""
    prepare(LOCAL)
    target = planted(tmp_path, {"SOAK_PLANTED": "wrong_token:1e-9;seed=1"})
    (tmp_path / "grid.yaml").write_text(
        "about: Is it what is planted?\nrepeats: 6\nfails: garbage_loop\nfactors:\n"
        '  environment.SOAK_PLANTED: [as_built, "garbage_loop:0.9;seed=1"]\n  salted: [off, on]\n'
    )
    begin("run", "--scenario", "smoke", "--target", target, "--turns", 1, "--run", "r",
          "--set", "sampling.max_tokens=260").wait(1200)  # fmt: skip
    key = next(word for word in begin("show", "r").wait().out.split() if word.endswith(":candidate"))
    grid = begin("probe", "r", key, "--grid", "grid.yaml", "--json").wait(2400).json
    assert (grid["outcome"], grid["name"]) == ("found", "SOAK_PLANTED"), grid["text"]
