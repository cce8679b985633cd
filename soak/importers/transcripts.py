"""
Foreign files → episodes: each file's format is recognised by its content, never by its name.

A file is JSON Lines or one JSON document. What cannot be read ends the import with the file and the line named, except
a last line that was cut off (a writer that crashed), which is dropped and counted.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

from soak.errors import TranscriptError
from soak.facts import Episode
from soak.importers import mini_swe_agent, openai_chat
from soak.importers.assembly import safe_id
from soak.importers.reading import Line, UnreadableError, document_of, lines_of, parse_json
from soak.importers.tally import SourceReport, Tally

FILES_MAX = 10_000
EPISODES_MAX = 100_000

# The order in which formats are asked: the narrow before the wide.
_FORMATS: tuple[ModuleType, ...] = (mini_swe_agent, openai_chat)
FORMATS: tuple[str, ...] = tuple(module.NAME for module in _FORMATS)
_SUFFIXES = (".json", ".jsonl", ".ndjson", ".traj")
_KNOWN = f"formats known: {', '.join(FORMATS)}; name one with --format if you know it better"


class Imported(msgspec.Struct, frozen=True, kw_only=True):
    """The episodes read, with ids made different from each other, and one report a file."""

    episodes: tuple[Episode, ...]
    reports: tuple[SourceReport, ...]


class _Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One JSON value of a file; `number` is its line, None for a whole document."""

    value: Any
    number: int | None


def read_transcripts(paths: Sequence[Path], format: str | None = None) -> Imported:  # noqa: A002 - the option's name
    """
    Return the episodes in these files and folders (their .json, .jsonl, .ndjson and .traj files, at any depth).

    `format` is one of `FORMATS`; None recognises each file by content. A file named by itself must be of a known
    format; one found in a folder is passed over and reported. Raises `TranscriptError` naming the file and line.
    """
    module = _module(format)
    seen: set[str] = set()
    ids: dict[str, int] = {}
    episodes: list[Episode] = []
    reports: list[SourceReport] = []
    for path, named in _files(paths):
        tally = Tally(source=str(path))
        for episode in _read(path, module, named, tally):
            kept = _new(episode, seen, ids, tally)
            if kept is not None:
                tally.add(kept)
                episodes.append(kept)
            if len(episodes) > EPISODES_MAX:
                raise _wrong(str(path), f"more than {EPISODES_MAX} episodes", "import fewer files at a time")
        reports.append(tally.report())
    if not episodes:
        raise _wrong(", ".join(map(str, paths))[:200], _nothing(reports), _KNOWN)
    return Imported(episodes=tuple(episodes), reports=tuple(reports))


def _module(name: str | None) -> ModuleType | None:
    if name is None or name in FORMATS:
        return next((module for module in _FORMATS if name == module.NAME), None)
    raise _wrong("the format", f"{name!r} is not known", _KNOWN)


def _files(paths: Sequence[Path]) -> Iterator[tuple[Path, bool]]:
    """Yield the files to read, in a stable order, each with whether it was named by itself."""
    number = 0
    for path in paths:
        for file, named in _under(path):
            number += 1
            if number > FILES_MAX:
                raise _wrong(str(path), f"more than {FILES_MAX} files", "import fewer files at a time")
            yield file, named


def _under(path: Path) -> Iterator[tuple[Path, bool]]:
    if not path.is_dir():
        yield path, True
        return
    for folder, folders, names in os.walk(path):
        folders.sort()
        for name in sorted(names):
            if name.endswith(_SUFFIXES) and (Path(folder) / name).is_file():
                yield Path(folder) / name, False


def _read(path: Path, module: ModuleType | None, named: bool, tally: Tally) -> Iterator[Episode]:
    """Yield the episodes of one file, each with where it came from in its `meta`."""
    try:
        for entry in _entries(path, tally):
            if module is None:
                module = next((known for known in _FORMATS if known.recognises(entry.value)), None)
            if module is None:
                if named:
                    raise UnreadableError(str(path), "its format is not recognised")
                tally.drop("a file whose format is not recognised")
                return
            tally.format = module.NAME
            name = path.stem if entry.number is None else f"{path.stem}-{entry.number:03d}"
            for episode in module.read(entry.value, name, tally):
                origin = {"source": path.name, "format": module.NAME}
                if entry.number is not None:
                    origin["line"] = entry.number
                yield msgspec.structs.replace(episode, meta={**origin, **episode.meta})
    except UnreadableError as error:
        raise _wrong(error.place, error.why, _KNOWN) from error


def _entries(path: Path, tally: Tally) -> Iterator[_Entry]:
    """Yield the JSON values of a file: one a line, or the whole document if its first line is none by itself."""
    lines = lines_of(path)
    first = next(lines, None)
    if first is None:
        raise UnreadableError(str(path), "it is empty")
    try:
        value = _value(first.data, f"{path}:{first.number}", tally)
    except UnreadableError as error:
        yield _Entry(value=_document(path, error, next(lines, None), tally), number=None)
        return
    second = next(lines, None)
    yield _Entry(value=value, number=None if second is None else first.number)
    while second is not None:
        third = next(lines, None)
        yield from _line(path, second, third is None, tally)
        second = third


def _line(path: Path, line: Line, last: bool, tally: Tally) -> Iterator[_Entry]:
    """Yield the value of one line after the first; a last line that was cut off yields none."""
    try:
        yield _Entry(value=_value(line.data, f"{path}:{line.number}", tally), number=line.number)
    except UnreadableError:
        if not (last and not line.ended):
            raise
        tally.drop("a last line that was cut off")


def _document(path: Path, of_line: UnreadableError, second: Line | None, tally: Tally) -> Any:
    """Return the one value of a file whose first line is none; raises the more telling of the two errors."""
    try:
        return _value(document_of(path), str(path), tally)
    except UnreadableError:
        if second is None or not second.data.lstrip().startswith((b"{", b"[")):
            raise
        try:
            parse_json(second.data, "")
        except UnreadableError:
            pass
        else:
            raise of_line from None
        raise


def _value(data: bytes, place: str, tally: Tally) -> Any:
    value, mended = parse_json(data, place)
    if mended:
        tally.repair("text that is not Unicode, or a number that is not finite, replaced")
    return value


def _new(episode: Episode, seen: set[str], ids: dict[str, int], tally: Tally) -> Episode | None:
    """Return the episode with an id of its own; None, counted, if the same conversation was read before."""
    content = "".join(node.digest for node in episode.nodes if node.parent is None) + episode.nodes[-1].digest
    if content in seen:
        tally.drop("a conversation that was read before")
        return None
    seen.add(content)
    id_ = base = safe_id(episode.id)
    if id_ in ids:
        tally.repair("an id used before, numbered")
    while id_ in ids:
        ids[base] += 1
        id_ = f"{base}.{ids[base]}"
    ids[id_] = 1
    return msgspec.structs.replace(episode, id=id_)


def _nothing(reports: Sequence[SourceReport]) -> str:
    """Return why no episode was found."""
    reasons = {reason for report in reports for reason in report.dropped}
    return f"no conversation was found in {len(reports)} files ({'; '.join(sorted(reasons)[:5]) or 'none held any'})"


def _wrong(place: str, why: str, hint: str) -> TranscriptError:
    return TranscriptError(f"cannot import {place}", why=why, hint=hint)
