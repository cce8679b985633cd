"""
Grid files: YAML → a checked `Grid`, or every problem at once.

    about: Which setting does the fault need?
    design: full                 # or one_at_a_time: the first level of each factor, then each other level alone
    repeats: 20                  # of each turn in each cell
    starts: 1                    # of each server, the repeats spread over them
    fails: garbage_loop          # the class asked about; default any_failure: all but ok
    factors:
      speculation: [as_built, off, {method: ngram, num_speculative_tokens: [1, 3]}]   # a list of depths: a level each
      prefix_cache: [as_built, off]        # on, off or as_built; so is eager
      in_flight: [1, 8]                    # how many repeats are asked at once
      salted: [off, on]                    # on: each repeat with a salt of its own, so that nothing of it is cached
      sampling.temperature: [as_asked, 0]  # any field of a scenario's `sampling`
      flags.batch: [as_built, [--max-num-batched-tokens=2048]]   # `flags`, or `flags.` and a name for the table
      environment.OMP_NUM_THREADS: [as_built, "1"]

The first level of a factor is the one that the others are compared with.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from soak.errors import GridFileError
from soak.facts import (
    GRID_CELLS_MAX,
    Change,
    EngineChange,
    Grid,
    GridFactor,
    GridFile,
    GridLevel,
    encode,
)
from soak.scenario.builds import holds_key, names_key
from soak.scenario.files import text_in
from soak.scenario.sampling import SAMPLING_FIELDS, sampling_problem
from soak.scenario.sentences import Problem, problems_of, suggestion
from soak.scenario.yaml_tree import Tree, parse_yaml

DEFAULT_GRID = "default"

_DEFAULT = """
about: Does the fault need speculation, the prefix cache, both, or chance in sampling?
factors:
  speculation: [as_built, off]
  prefix_cache: [as_built, off]
  sampling.temperature: [as_asked, 0]
"""
_SUFFIXES = (".yaml", ".yml")
_HINT = "correct the grid file (every problem is listed); nothing was started"
_PLAIN = ("speculation", "prefix_cache", "eager", "in_flight", "salted", "flags")
_DOTTED = ("sampling", "flags", "environment")
_SHORT = {"prefix_cache": "cache", "in_flight": "concurrency"}
_IN_FLIGHT_MAX = 256
_DEPTH_MAX = 1024
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}\Z")
_AS_BUILT = GridLevel(text="as built")
_AS_ASKED = GridLevel(text="as asked")

_adapter = TypeAdapter(GridFile)


class _WrongError(ValueError):
    """A level that cannot be used; its text says what a level must be."""


def find_grid(name_or_path: str) -> Grid:
    """Return the grid called default, or the one in a YAML file; raises `GridFileError` with every problem found."""
    if name_or_path == DEFAULT_GRID:
        return _grid(DEFAULT_GRID, _DEFAULT)
    path = Path(name_or_path)
    if path.suffix not in _SUFFIXES:
        why = f"a grid is the word {DEFAULT_GRID} or the path of a YAML file"
        raise GridFileError(f"no grid {name_or_path[:100]!r}", problems=(why,), hint="--grid default")
    try:
        text = text_in(path, "grid")
    except ValueError as problem:
        raise _error(name_or_path, [str(problem)]) from problem
    return _grid(path.stem, text, name_or_path)


def _grid(name: str, text: str, shown: str = DEFAULT_GRID) -> Grid:
    tree = parse_yaml(text)
    if tree.problems and tree.value is None:
        raise _error(shown, tree.problems)
    if not isinstance(tree.value, dict):
        raise _error(shown, ["line 1: a grid is a mapping of keys to values"])
    grid, problems = _check(name, tree.value)
    texts = [*tree.problems, *(_placed(tree, problem) for problem in problems)]
    if grid is None or texts:
        raise _error(shown, sorted(texts, key=_line))
    return grid


def _check(name: str, value: dict[str, Any]) -> tuple[Grid | None, list[Problem]]:
    if not _finite(value):
        return None, [Problem((), "every number must be finite")]
    try:
        file = _adapter.validate_json(encode(value), strict=True)
    except ValidationError as error:
        return None, problems_of(error, GridFile)
    problems: list[Problem] = []
    factors = tuple(_factor(factor, levels, problems) for factor, levels in file.factors.items())
    problems += _across(factors, file.design)
    grid = Grid(
        name=name,
        design=file.design,
        repeats=file.repeats,
        starts=file.starts,
        factors=_told_apart(factors),
        fails=file.fails,
    )
    return grid, problems


def _finite(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return all(map(_finite, parts))


def _factor(name: str, levels: tuple[Any, ...], problems: list[Problem]) -> GridFactor:
    """Return a factor with those of its levels that can be used; what is wrong is added to `problems`."""
    kind, _, rest = name.partition(".")
    known = name in _PLAIN or (kind in _DOTTED and bool(rest))
    if not known:
        names = (*_PLAIN, "sampling.FIELD", "flags.NAME", "environment.NAME")
        problems.append(Problem(("factors", name), "unknown factor" + suggestion(name, names)))
        return GridFactor(name=name, label=name, levels=())
    read: list[GridLevel] = []
    for place, value in enumerate(levels):
        try:
            read += _LEVELS[kind](rest, value)
        except _WrongError as wrong:
            problems.append(Problem(("factors", name, place), str(wrong)))
    return GridFactor(name=name, label=_SHORT.get(name, rest or name), levels=tuple(read))


def _across(factors: tuple[GridFactor, ...], design: str) -> Iterator[Problem]:
    for factor in factors:
        texts = Counter(level.text for level in factor.levels)
        for text in (text for text, count in texts.items() if count > 1):
            yield Problem(("factors", factor.name), f"has the level {text!r} twice")
    counts = [len(factor.levels) for factor in factors]
    cells = math.prod(counts) if design == "full" else 1 + sum(count - 1 for count in counts)
    if cells > GRID_CELLS_MAX:
        yield Problem(
            ("factors",),
            f"make {cells} cells, at most {GRID_CELLS_MAX} can be tried: take levels away, or one_at_a_time",
        )
    if max(counts, default=0) < 2:
        yield Problem(("factors",), "no factor has two levels: there is nothing to compare")


def _told_apart(factors: tuple[GridFactor, ...]) -> tuple[GridFactor, ...]:
    """Return the factors with whole names as labels where two short ones are alike."""
    labels = Counter(factor.label for factor in factors)
    return tuple(
        factor if labels[factor.label] == 1 else GridFactor(name=factor.name, label=factor.name, levels=factor.levels)
        for factor in factors
    )


def _speculation(_: str, value: Any) -> list[GridLevel]:
    if value == "as_built":
        return [_AS_BUILT]
    if value in ("off", False):
        return [GridLevel(text="off", engine=EngineChange(speculation=False))]
    if value in ("on", True):
        return [GridLevel(text="on", engine=EngineChange(speculation=True))]
    if not isinstance(value, dict) or not value:
        raise _WrongError("must be as_built, on, off or a speculative config such as {num_speculative_tokens: 1}")
    return [_config(config) for config in _by_depth(value)]


def _by_depth(config: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a config for each depth, where several are listed."""
    depths = config.get("num_speculative_tokens")
    for depth in depths if isinstance(depths, list) else [depths]:
        if "num_speculative_tokens" in config and not _is_depth(depth):
            raise _WrongError(
                f"num_speculative_tokens must be a whole number from 1 to {_DEPTH_MAX}, or a list of them"
            )
        yield config if depth is None else {**config, "num_speculative_tokens": depth}


def _is_depth(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= _DEPTH_MAX


def _config(config: dict[str, Any]) -> GridLevel:
    text = " ".join(f"{name}={value}" for name, value in config.items())
    return GridLevel(text=text[:200], engine=EngineChange(speculation=config))


def _switch(made: Callable[[bool], EngineChange]) -> Callable[[str, Any], list[GridLevel]]:
    def read(_: str, value: Any) -> list[GridLevel]:
        if value == "as_built":
            return [_AS_BUILT]
        return [GridLevel(text="on" if _on(value) else "off", engine=made(_on(value)))]

    return read


def _on(value: Any) -> bool:
    if value in ("on", True):
        return True
    if value in ("off", False):
        return False
    raise _WrongError("must be as_built, on or off")


def _in_flight(_: str, value: Any) -> list[GridLevel]:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= _IN_FLIGHT_MAX:
        raise _WrongError(f"must be a whole number from 1 to {_IN_FLIGHT_MAX}")
    return [GridLevel(text=str(value), change=Change(in_flight=value))]


def _salted(_: str, value: Any) -> list[GridLevel]:
    return [GridLevel(text="on" if _on(value) else "off", change=Change(salted=_on(value)))]


def _sampling_field(field: str, value: Any) -> list[GridLevel]:
    if value == "as_asked" and field in SAMPLING_FIELDS:
        return [_AS_ASKED]
    problem = sampling_problem(field, value)
    if problem is not None:
        raise _WrongError(problem)
    return [GridLevel(text="not sent" if value is None else str(value)[:80], change=Change(sampling={field: value}))]


def _flags(_: str, value: Any) -> list[GridLevel]:
    if value == "as_built":
        return [_AS_BUILT]
    if not isinstance(value, list) or not value or not all(_word(one) for one in value):
        raise _WrongError("must be as_built or a list of flags, such as [--max-num-seqs=8]")
    if any(map(holds_key, value)):
        raise _WrongError("looks like a key, which would be stored: name it in the build's pass_on instead")
    return [GridLevel(text=" ".join(value)[:200], engine=EngineChange(flags=tuple(value)))]


def _word(value: Any) -> bool:
    """Whether a value can be a word of a command: text, without the zero byte that would end it."""
    return isinstance(value, str) and value != "" and "\0" not in value


def _environment(name: str, value: Any) -> list[GridLevel]:
    if value == "as_built":
        return [_AS_BUILT]
    if not _VARIABLE.match(name):
        raise _WrongError(f"{name[:80]!r} is no name of a variable")
    if value != "" and not _word(value):
        raise _WrongError('must be as_built or text in quotes, such as "1"')
    if names_key(name) or holds_key(value):
        raise _WrongError("looks like a key, which would be stored: name it in the build's pass_on instead")
    return [GridLevel(text=value[:80] or "(empty)", engine=EngineChange(environment={name: value}))]


_LEVELS: dict[str, Callable[[str, Any], list[GridLevel]]] = {
    "speculation": _speculation,
    "prefix_cache": _switch(lambda on: EngineChange(prefix_cache=on)),
    "eager": _switch(lambda on: EngineChange(eager=on)),
    "in_flight": _in_flight,
    "salted": _salted,
    "sampling": _sampling_field,
    "flags": _flags,
    "environment": _environment,
}


def _placed(tree: Tree, problem: Problem) -> str:
    """Return a problem's text with its line and place in front."""
    dotted = ".".join(str(part) for part in problem.path)
    return f"line {tree.line_of(problem.path) or 1}: " + (f"{dotted}: {problem.text}" if dotted else problem.text)


def _line(text: str) -> int:
    return int(text.removeprefix("line ").partition(":")[0])


def _error(shown: str, problems: list[str]) -> GridFileError:
    count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
    return GridFileError(f"the grid {shown[:200]} cannot be used ({count})", problems=tuple(problems[:100]), hint=_HINT)
