"""
Tasks files in: our own (the form is told in `soak.facts.task`) and rows of SWE-bench and its like.

A row of SWE-bench is a JSON object with `instance_id`, `repo`, `base_commit`, `problem_statement`, `test_patch`,
`FAIL_TO_PASS` and `PASS_TO_PASS` (lists, or JSON text of lists), as `datasets` writes them with `to_json`, or a row of
the parquet or arrow files of such a data set (extra `hub`). Its
repository is in a container image; rows that name none (`image`, `image_name` or `docker_image`) get the one that
SWE-bench publishes. The row itself is kept: its other fields tell how it is judged.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec

from soak.errors import CorpusError
from soak.facts import REPOSITORY_SCHEMA, TASK_SCHEMA, CorpusCard, Message, Task, Turn, make_episode
from soak.importers.corpus import Corpus, check_episode
from soak.importers.reading import Line, UnreadableError, lines_of, parse_json
from soak.importers.tables import table_in, table_kind
from soak.shelves import meant, on_shelves

TASKS_MAX = 10_000
_PATH_MAX = 1_000
_NAME_MAX = 255
SWE_BENCH_SIGNS = frozenset({"instance_id", "repo", "base_commit", "problem_statement", "test_patch", "FAIL_TO_PASS"})

_IMAGE = "swebench/sweb.eval.x86_64.{}:latest"
_FORM = "see the form of a tasks file in soak/facts/task.py"


class _Repository(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A line that holds a repository."""

    id: str
    files: dict[str, str]
    schema: str = REPOSITORY_SCHEMA


class _Task(Task, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A line that holds a task; its files are its repository's."""

    schema: str = TASK_SCHEMA


def find_tasks(name_or_path: str) -> Path:
    """Return the tasks file given by path or by name; raises `CorpusError` naming those that exist."""
    path = Path(name_or_path)
    if path.is_file():
        return path
    known = on_shelves("scenarios/tasks", "*.jsonl")
    if name_or_path in known:
        return known[name_or_path]
    raise CorpusError(
        f"no tasks file {name_or_path!r}",
        why=f"it is no file, and those known by name are: {', '.join(known) or 'none'}",
        hint=f"{meant(name_or_path, known)}give one of these names or the path of a .jsonl file with tasks;"
        " replay: agent needs one",
    )


def load_tasks(path: Path) -> tuple[Task, ...]:
    """Return the tasks in `path`, in order; raises `CorpusError` naming the first line that cannot be used."""
    repositories: dict[str, dict[str, str]] = {}
    tasks: dict[str, Task] = {}
    try:
        for line in _lines(path):
            place = f"{path}:{line.number}"
            value, _ = parse_json(line.data, place)
            read = _line(value, place, repositories)
            if isinstance(read, _Repository):
                repositories[read.id] = read.files
                continue
            if read.id in tasks or len(tasks) >= TASKS_MAX:
                raise UnreadableError(place, f"the task {read.id[:80]!r} is there twice, or is one too many")
            tasks[read.id] = read
    except UnreadableError as error:
        raise CorpusError(
            f"the tasks cannot be used: {error.place}", why=error.why, hint=error.hint or _FORM
        ) from error
    if not tasks:
        raise CorpusError(f"the tasks cannot be used: {path}", why="there is no task in it", hint=_FORM)
    return tuple(tasks.values())


def _lines(path: Path) -> Iterator[Line]:
    kind = table_kind(path)
    if kind is None:
        return lines_of(path)
    return (Line(number=number, data=row, ended=True) for number, row in enumerate(table_in(path, kind).rows, start=1))


def tasks_digest(tasks: Sequence[Task]) -> str:
    """Return `sha256:<hex>` over everything a run depends on: statements, files and tests, not over `meta`."""
    total = hashlib.sha256()
    for task in tasks:
        total.update(msgspec.json.encode(msgspec.structs.replace(task, meta={}), order="deterministic") + b"\n")
    return "sha256:" + total.hexdigest()


def tasks_as_corpus(path: Path, tasks: Sequence[Task]) -> Corpus:
    """
    Return a corpus with an episode for each task: its statement and one turn, since how many follow is not known.

    Raises `CorpusError` for an id that cannot name an episode.
    """
    episodes = tuple(
        make_episode(
            task.id,
            [Message(role="user", content=task.problem)],
            turns=[Turn(index=0, prefix=0)],
            meta={"repository": task.repository},
        )
        for task in tasks
    )
    for episode in episodes:
        if (problem := check_episode(episode)) is not None:
            raise CorpusError(f"the tasks cannot be used: {path}", why=problem, hint=_FORM)
    card = CorpusCard(
        name=path.stem, path=str(path), digest=tasks_digest(tasks), episodes=len(episodes), turns=len(episodes)
    )
    return Corpus(card=card, episodes=episodes)


def _line(value: Any, place: str, repositories: dict[str, dict[str, str]]) -> "_Repository | Task":
    if isinstance(value, dict) and value.keys() >= SWE_BENCH_SIGNS:
        return _swe_bench(value, place)
    schema = value.get("schema") if isinstance(value, dict) else None
    try:
        if schema == REPOSITORY_SCHEMA:
            repository = msgspec.convert(value, _Repository)
            _refuse_paths(repository.files, place)
            return repository
        if schema == TASK_SCHEMA:
            return _with_files(msgspec.convert(value, _Task), place, repositories)
    except msgspec.ValidationError as error:
        raise UnreadableError(place, f"is not a {schema}: {error}") from error
    raise UnreadableError(place, "is neither a repository, nor a task, nor a row of SWE-bench")


def _with_files(task: _Task, place: str, repositories: dict[str, dict[str, str]]) -> Task:
    if task.repository not in repositories:
        raise UnreadableError(place, f"its repository {task.repository[:80]!r} does not stand before it")
    if not task.fail_to_pass:
        raise UnreadableError(place, "no test fails before it is solved, so nothing could tell that it was")
    fields = {name: getattr(task, name) for name in Task.__struct_fields__}
    whole = Task(**{**fields, "files": repositories[task.repository]})
    _refuse_paths(whole.judging_files, place)
    return whole


def _refuse_paths(names: Iterable[str], place: str) -> None:
    """Raise `UnreadableError` for files that cannot lie in one folder together, wherever that is."""
    paths = {PurePosixPath(name): name for name in names}
    for path, name in paths.items():
        if path.is_absolute() or not path.parts or ".." in path.parts or ".git" in path.parts:
            raise UnreadableError(place, f"the path {name[:80]!r} leads out of the repository or into git's folder")
        if "\0" in name or len(name) > _PATH_MAX or any(len(part.encode()) > _NAME_MAX for part in path.parts):
            raise UnreadableError(place, f"the path {name[:80]!r} is too long or has a NUL")
        below = next((parent for parent in path.parents if parent in paths), None)
        if below is not None:
            raise UnreadableError(place, f"{paths[below][:80]!r} is a file, and {name[:80]!r} lies in it")


def _swe_bench(row: dict[str, Any], place: str) -> Task:
    texts = {name: row.get(name) for name in ("instance_id", "repo", "base_commit", "problem_statement", "test_patch")}
    wrong = [name for name, value in texts.items() if not isinstance(value, str) or not value]
    if wrong:
        raise UnreadableError(place, f"is a row of SWE-bench whose {', '.join(wrong)} is no text")
    name = str(row["instance_id"])
    named = (row.get(key) for key in ("image", "image_name", "docker_image"))
    image = next((value for value in named if isinstance(value, str) and value), None)
    return Task(
        id=name,
        repository=str(row["repo"]),
        problem=str(row["problem_statement"]),
        fail_to_pass=_names(row.get("FAIL_TO_PASS"), place),
        pass_to_pass=_names(row.get("PASS_TO_PASS"), place),
        image=image or _IMAGE.format(name.lower().replace("__", "_1776_")),
        row=row,
    )


def _names(value: Any, place: str) -> tuple[str, ...]:
    """Return a list of test names that may be JSON text of one."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError) as error:
            raise UnreadableError(place, "its FAIL_TO_PASS or PASS_TO_PASS is no JSON list") from error
    return tuple(name for name in value if isinstance(name, str)) if isinstance(value, list) else ()


def lines_of_tasks(tasks: Sequence[Task]) -> Iterator[bytes]:
    """Yield the lines of a tasks file, each with its line break; each repository once, before its tasks."""
    written: set[str] = set()
    for task in tasks:
        if task.repository not in written:
            written.add(task.repository)
            repository = {"schema": REPOSITORY_SCHEMA, "id": task.repository, "files": task.files}
            yield msgspec.json.encode(repository, order="deterministic") + b"\n"
        fields = msgspec.to_builtins(task)
        kept = {name: value for name, value in fields.items() if value not in ({}, [], None) and name != "files"}
        yield msgspec.json.encode({"schema": TASK_SCHEMA, **kept}, order="deterministic") + b"\n"
