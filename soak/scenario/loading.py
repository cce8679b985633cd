"""
One scenario file and the command line's changes to it → a checked `Scenario`, or every problem at once.

    text ─► values with lines ─► overrides laid over them ─► types and ranges (pydantic) ─┬► Scenario
                                                          └► rules across fields ─────────┘  or all problems
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from soak.errors import ScenarioError
from soak.facts import Scenario, encode
from soak.scenario.files import text_in
from soak.scenario.rules import cross_field_problems
from soak.scenario.sentences import Problem, problems_of
from soak.scenario.yaml_tree import Tree, parse_value, parse_yaml

_SHOWN_MAX = 100
_HINT = "correct the scenario (every problem is listed) and start again; nothing was sent"

_LEVELS = 16
_adapter = TypeAdapter(Scenario)


@dataclass(frozen=True)
class Loaded:
    """A checked scenario; `given` holds the command line's changes by dotted key, typed; `path` is the file read."""

    scenario: Scenario
    given: dict[str, Any]
    path: Path


def load_scenario(
    path: Path,
    overrides: Mapping[str, str] | Sequence[tuple[str, str]] = (),
    *,
    known_classify: Collection[str] | None = None,
) -> Loaded:
    """
    Return the scenario in the YAML file `path`, changed by `overrides` (dotted key → YAML or JSON text).

    Any override of `budget` replaces the file's whole budget. `known_classify` are the settings the classifiers have;
    None leaves those names unchecked. Raises `ScenarioError` with every problem found, each with its line.
    """
    tree = parse_yaml(_read(path))
    if tree.problems and tree.value is None:
        raise _error(path, tree.problems)
    if not isinstance(tree.value, dict):
        raise _error(path, ["line 1: a scenario is a mapping of keys to values"])
    pairs = list(overrides.items()) if isinstance(overrides, Mapping) else list(overrides)
    given, problems = _overlay(tree, pairs)
    scenario, more = _check(tree.value, known_classify)
    placed = [(_line(text), text) for text in tree.problems]
    placed += [_placed(tree, problem, given) for problem in more]
    texts = [text for _, text in sorted(placed, key=lambda item: item[0])]
    if scenario is None or problems or texts:
        raise _error(path, [*problems, *texts])
    return Loaded(scenario=scenario, given=given, path=path)


def _read(path: Path) -> str:
    """Return the text of a scenario file; raises `ScenarioError` if it is too large, not text or not there."""
    try:
        return text_in(path, "scenario")
    except ValueError as problem:
        raise _error(path, [str(problem)]) from problem


def _overlay(tree: Tree, overrides: Sequence[tuple[str, str]]) -> tuple[dict[str, Any], list[str]]:
    """Lay the command line's values over the file's; return them typed, and what was wrong with them."""
    given: dict[str, Any] = {}
    problems: list[str] = []
    if any(key == "budget" or key.startswith("budget.") for key, _ in overrides):
        tree.value.pop("budget", None)
    for key, text in overrides:
        try:
            given[key] = parse_value(text)
            _put(tree.value, key, given[key])
        except ValueError as error:
            problems.append(f"--set {key}={text[:80]}: {error}")
    return given, problems


def _put(root: dict[str, Any], key: str, value: Any) -> None:
    """Set the dotted `key` in `root`; raises `ValueError` where it leads through something that is no mapping."""
    *sections, last = key.split(".")
    if not all((*sections, last)):
        raise ValueError("a key is one or more words joined by dots")
    if len(sections) > _LEVELS:
        raise ValueError(f"a key has at most {_LEVELS + 1} words")
    at = root
    for section in sections:
        if not isinstance(at.get(section), dict):
            if at.get(section) is not None:
                raise ValueError(f"{section} holds a value, not a section")
            at[section] = {}
        at = at[section]
    at[last] = value


def _check(value: dict[str, Any], known_classify: Collection[str] | None) -> tuple[Scenario | None, list[Problem]]:
    """Return the scenario in `value` and all problems with it; it is None where types or ranges are wrong."""
    problems = [Problem(path, "must be a finite number") for path in _not_finite(value, ())]
    if problems:
        return None, [*problems, *cross_field_problems(value, known_classify)]
    try:
        scenario = _adapter.validate_json(encode(value), strict=True)
    except ValidationError as error:
        problems = problems_of(error)
        scenario = None
    return scenario, [*problems, *cross_field_problems(value, known_classify)]


def _not_finite(value: Any, path: tuple[str | int, ...]) -> list[tuple[str | int, ...]]:
    """Return the paths of infinities and NaNs, which JSON does not have."""
    if isinstance(value, float):
        return [] if math.isfinite(value) else [path]
    if isinstance(value, dict):
        return [found for key, item in value.items() for found in _not_finite(item, (*path, key))]
    if isinstance(value, list):
        return [found for i, item in enumerate(value) for found in _not_finite(item, (*path, i))]
    return []


def _placed(tree: Tree, problem: Problem, given: Mapping[str, Any]) -> tuple[int, str]:
    """Return the line of a problem (0 for the command line) and its text with the place in front."""
    dotted = ".".join(str(part) for part in problem.path)
    about = f"{dotted}: {problem.text}" if dotted else problem.text
    if any(dotted == key or dotted.startswith(key + ".") for key in given):
        return 0, f"--set {about}"
    if dotted and any(key.startswith(dotted + ".") for key in given):
        return 0, f"--set {about}"
    line = tree.line_of(problem.path) or 1
    return line, f"line {line}: {about}"


def _line(text: str) -> int:
    """Return the line number a problem's text begins with."""
    return int(text.removeprefix("line ").partition(":")[0])


def _error(path: Path, problems: Sequence[str]) -> ScenarioError:
    count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
    shown = tuple(problems[:_SHOWN_MAX])
    if len(problems) > _SHOWN_MAX:
        shown += (f"and {len(problems) - _SHOWN_MAX} more",)
    return ScenarioError(f"the scenario {path} cannot be used ({count})", problems=shown, hint=_HINT)
