"""
YAML text to plain values with the line of each: a small, safe part of YAML 1.2.

Mappings, lists and the plain scalars of JSON. Refused, each with its line: anchors and aliases (and with them alias
bombs), tags, several documents, tabs, duplicate keys, keys that are not text, more than 32 levels or 10,000 values.
`yes`, `012`, `1:30` and dates are text here, as in YAML 1.2, not the surprises of YAML 1.1.
"""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

from soak.facts import clean

DEPTH_MAX = 32
VALUES_MAX = 10_000

Path = tuple[str | int, ...]

_NULL = re.compile(r"(?:~|null|)\Z")
_BOOL = re.compile(r"(?:true|false)\Z")
_INT = re.compile(r"[-+]?[0-9]{1,18}\Z")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?\Z|[-+]?\.inf\Z|\.nan\Z")

_STR_TAG = "tag:yaml.org,2002:str"


class _Refused(yaml.MarkedYAMLError):
    """YAML that is well formed and not accepted here."""


class _Loader(yaml.SafeLoader):
    """Composes nodes only; resolves no scalars, follows no aliases, bounds depth and number of values."""

    yaml_implicit_resolvers = {}  # noqa: RUF012 - as the library has it

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = 0
        self._values = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """Compose one value; raise `_Refused` at what this part of YAML does not have."""
        event = self.peek_event()  # type: ignore[no-untyped-call]
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise _Refused(problem="anchors (&) and aliases (*) are not supported", problem_mark=event.start_mark)
        if getattr(event, "tag", None) is not None:
            raise _Refused(problem=f"tags such as {event.tag!r} are not supported", problem_mark=event.start_mark)
        self._values += 1
        self._depth += 1
        if self._depth > DEPTH_MAX or self._values > VALUES_MAX:
            limit = f"{DEPTH_MAX} levels" if self._depth > DEPTH_MAX else f"{VALUES_MAX} values"
            raise _Refused(problem=f"more than {limit}", problem_mark=event.start_mark)
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node


@dataclass
class Tree:
    """Plain values, the line of each by its path, and what was wrong on the way."""

    value: Any
    lines: dict[Path, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def line_of(self, path: Path) -> int | None:
        """Return the line of `path`, or of the nearest value around it; None for an empty tree."""
        return next((self.lines[path[:n]] for n in range(len(path), -1, -1) if path[:n] in self.lines), None)


def parse_yaml(text: str) -> Tree:
    """Return the values in `text`; a text that is not this part of YAML has value None and one problem or more."""
    tabs = [number for number, line in enumerate(text.splitlines(), 1) if "\t" in line]
    if tabs:
        return Tree(None, problems=[f"line {number}: has a tab; YAML is indented by spaces" for number in tabs[:20]])
    try:
        node = _Loader(text).get_single_node()
    except yaml.YAMLError as error:
        return Tree(None, problems=[_sentence(error)])
    tree = Tree(None)
    if node is not None:
        tree.value = _build(node, (), tree)
    return tree


def parse_value(text: str) -> Any:
    """Return the value of one YAML or JSON text given on the command line; raise `ValueError` if it is not one."""
    tree = parse_yaml(text)
    if tree.problems:
        raise ValueError(tree.problems[0].removeprefix("line 1: "))
    return tree.value


def _sentence(error: yaml.YAMLError) -> str:
    """Return one line for an error of the YAML library."""
    mark = getattr(error, "problem_mark", None)
    if isinstance(error, yaml.MarkedYAMLError):
        parts = [text for text in (error.context, error.problem) if text]
        text = " ".join(", ".join(parts).split())
        text = text if isinstance(error, _Refused) else f"not valid YAML: {text}"
    else:
        text = "not valid YAML: " + " ".join(str(error).split())
    return text if mark is None else f"line {mark.line + 1}: {text}"


def _build(node: yaml.Node, path: Path, tree: Tree) -> Any:
    """Return the value of `node`, noting its line and its problems in `tree`."""
    tree.lines.setdefault(path, node.start_mark.line + 1)
    if isinstance(node, yaml.MappingNode):
        return {key: _build(value, (*path, key), tree) for key, value in _pairs(node, path, tree)}
    if isinstance(node, yaml.SequenceNode):
        return [_build(item, (*path, i), tree) for i, item in enumerate(node.value)]
    is_plain = isinstance(node, yaml.ScalarNode) and node.style is None
    return _scalar(node.value) if is_plain else clean(node.value)


def _pairs(node: yaml.MappingNode, path: Path, tree: Tree) -> Iterator[tuple[str, yaml.Node]]:
    """Yield the keys of a mapping that are text and new, each with its value's node."""
    seen: dict[str, int] = {}
    for key_node, value in node.value:
        line = key_node.start_mark.line + 1
        key = key_node.value
        if not isinstance(key_node, yaml.ScalarNode) or not isinstance(key, str):
            tree.problems.append(f"line {line}: a key must be a word")
        elif key in seen:
            dotted = ".".join(str(part) for part in (*path, key))
            tree.problems.append(f"line {line}: {dotted}: is given twice, first on line {seen[key]}")
        else:
            seen[key] = line
            tree.lines[(*path, clean(key))] = line
            yield clean(key), value


def _scalar(text: str) -> Any:
    """Return the value of a plain scalar by the rules of JSON; all else is text."""
    if _NULL.match(text):
        return None
    if _BOOL.match(text):
        return text == "true"
    if _INT.match(text) and not re.match(r"[-+]?0[0-9]", text):
        return int(text)
    if _FLOAT.match(text) and not re.match(r"[-+]?0[0-9]", text):
        return _float(text)
    return clean(text)


def _float(text: str) -> float:
    if text.endswith(".inf"):
        return -math.inf if text.startswith("-") else math.inf
    return math.nan if text == ".nan" else float(text)
