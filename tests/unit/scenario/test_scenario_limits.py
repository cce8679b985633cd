"""Every number in a scenario, a grid or a probe's turn has limits, and odd ones are told by their place."""

import dataclasses
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from annotated_types import Ge, Gt, Le, Lt

from soak.cli.probe import probe_command
from soak.cli.repro import repro_command
from soak.errors import GridFileError, ScenarioError
from soak.facts import GridFile, Scenario
from soak.scenario import find_grid, load_scenario

HEAD = "name: n\nquestion: q\nduration: d\ncorpus: c\nbudget: {passes: 1}\n"


def numbers(kind: Any, where: str, limits: tuple[Any, ...] = ()) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Yield every number below a type by its place, with the limits on it."""
    if kind in (int, float):
        yield where, limits
    elif dataclasses.is_dataclass(kind):
        for name, hint in typing.get_type_hints(kind, include_extras=True).items():
            yield from numbers(hint, f"{where}.{name}")
    elif typing.get_origin(kind) is typing.Annotated:
        of, *more = typing.get_args(kind)
        yield from numbers(of, where, (*limits, *more))
    else:
        for part in typing.get_args(kind):
            yield from numbers(part, where)


@pytest.mark.parametrize("kind", [Scenario, GridFile])
def test_every_number_has_a_lower_and_an_upper_limit(kind: type) -> None:
    """No number of a file can be as large or as small as it likes."""
    found = list(numbers(kind, kind.__name__))
    assert len(found) >= 2
    for where, limits in found:
        assert any(isinstance(one, Ge | Gt) for one in limits), where
        assert any(isinstance(one, Le | Lt) for one in limits), where


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("load: {idle_gaps: {min_s: 1e308, max_s: 1e308}}", "load.idle_gaps.min_s: must be at most 86400, is 1e+308"),
        ("load: {idle_gaps: {every_turns: 10000000}}", "load.idle_gaps.every_turns: must be at most 1000000"),
        ("load: {overlap: {share: 7}}", "load.overlap.share: must be at most 1, is 7"),
        ("load: {overlap: {share: .nan}}", "load.overlap.share: must be a finite number"),
        ("load: {abort: {max_chars: 1e9}}", "load.abort.max_chars: must be"),
        ("load: {pressure: {cap: 9, step: 99999}}", "load.pressure.step: must be at most 4096, is 99999"),
        ("load: {pressure: {cap: 9, every_s: 1e300}}", "load.pressure.every_s: must be at most 10000000, is 1e+300"),
        ("load: {shape: arrival, rate_per_min: 1e-300}", "load.rate_per_min: must be at least 0.001, is 1e-300"),
        ("load: {shape: arrival, rate_per_min: 1e300}", "load.rate_per_min: must be at most 1000000, is 1e+300"),
        ("drain_s: 1e300", "drain_s: must be at most 10000000, is 1e+300"),
        ("classify: {loop_copies: 1e300}", "classify.loop_copies: must be at most 100000000000, is 1e+300"),
        ("seed: 9223372036854775808", "seed: must be"),
    ],
)
def test_odd_numbers_are_told_by_their_place(tmp_path: Path, text: str, said: str) -> None:
    """What is beyond a limit, or no number, is refused with where it stands and what it must be."""
    path = tmp_path / "s.yaml"
    path.write_text(HEAD + text + "\n")
    with pytest.raises(ScenarioError) as caught:
        load_scenario(path)
    assert said in "\n".join(caught.value.problems)


def test_a_grid_of_absurd_depth_is_refused(tmp_path: Path) -> None:
    """A number of speculative tokens that no engine has is told before anything is started."""
    path = tmp_path / "g.yaml"
    path.write_text("about: a\nfactors: {speculation: [off, {method: ngram, num_speculative_tokens: 99999}]}\n")
    with pytest.raises(GridFileError) as caught:
        find_grid(str(path))
    assert "must be a whole number from 1 to 1024" in "\n".join(caught.value.problems)


@pytest.mark.parametrize("order", [probe_command, repro_command])
def test_every_number_on_a_probes_command_line_has_limits(order: Any) -> None:
    """No option of a probe takes any number: each has a least and a largest one."""
    counted = 0
    for name, hint in typing.get_type_hints(order, include_extras=True).items():
        kind, *more = typing.get_args(hint) or (hint,)
        if more and {int, float} & {kind, *typing.get_args(kind)}:
            counted += 1
            assert None not in (more[0].min, more[0].max), name
    assert counted >= 3
