"""
Files and folders → sources: which files there are, what format each is of, and which belong together.

A format is recognised by a file's first JSON value, never by its name. Files of a format that spreads one conversation
over a folder are one source, as is a folder of `events` or `simulations` with the file above it.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec

from soak.importers.archive import is_archive, members_of
from soak.importers.entries import Entry, Format
from soak.importers.reading import Line, UnreadableError, document_of, lines_of, parse_json
from soak.importers.tally import Tally

_SUFFIXES = (".json", ".jsonl", ".ndjson", ".traj", ".eval", ".jsonl.gz", ".json.gz", ".zst")
_UNDER = ("events", "simulations")
MENDED = "text that is not Unicode, or a number that is not finite, replaced"
CUT_OFF = "a last line that was cut off"


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """
    Files that are read as one, with the values in them and the tally of what they hold.

    `named` if the user named it, so that it must be of a known format; `name` is the id of what has no own.
    """

    entries: Iterator[Entry]
    format: Format | None
    named: bool
    name: str
    tally: Tally


def files_under(path: Path) -> Iterator[tuple[Path, bool]]:
    """Yield the files of a file or folder in a stable order, each with whether it was named by itself."""
    if not path.is_dir():
        yield path, True
        return
    for folder, folders, names in os.walk(path):
        folders.sort()
        for name in sorted(names):
            if name.endswith(_SUFFIXES) and (Path(folder) / name).is_file():
                yield Path(folder) / name, False


def sources_of(files: Iterable[tuple[Path, bool]], recognise: Callable[[Any], Format | None]) -> Iterator[Source]:
    """Yield the sources among `files`; raises `UnreadableError` for a file whose first value cannot be read."""
    group: list[Path] = []
    last: tuple[Path, Format] | None = None
    for path, named in files:
        source = _single(path, named, recognise)
        folder = path.parent.parent if path.parent.name in _UNDER else path.parent
        grouped = source.format is not None and source.format.per_folder and not named
        if last is not None and not (grouped and last == (folder, source.format)):
            yield _together(group, *last)
            group, last = [], None
        if grouped and source.format is not None:
            group.append(path)
            last = (folder, source.format)
        else:
            yield source
    if last is not None:
        yield _together(group, *last)


def _single(path: Path, named: bool, recognise: Callable[[Any], Format | None]) -> Source:
    """Return the source of one file; its first value is read already."""
    tally = Tally(source=str(path))
    if not named and _is_empty(path):
        tally.drop("an empty file")
        return Source(entries=iter(()), format=None, named=False, name=stem(path), tally=tally)
    entries = entries_of(path, tally)
    first = next(entries)
    format_ = recognise(first.value)
    return Source(entries=chain([first], entries), format=format_, named=named, name=stem(path), tally=tally)


def _is_empty(path: Path) -> bool:
    try:
        return not path.stat().st_size
    except OSError:
        return False


def _together(paths: list[Path], folder: Path, format_: Format) -> Source:
    """Return the source of several files of one folder."""
    alone = len(paths) == 1
    tally = Tally(source=str(paths[0]) if alone else f"{folder}/")
    entries = (entry for path in paths for entry in entries_of(path, tally))
    name = stem(paths[0]) if alone else folder.resolve().name
    return Source(entries=entries, format=format_, named=False, name=name, tally=tally)


def stem(path: Path) -> str:
    """Return a file's name without what its kind adds to it."""
    return path.name.removesuffix(".gz").rsplit(".", 1)[0] or path.name


def entries_of(path: Path, tally: Tally) -> Iterator[Entry]:
    """Yield the JSON values of a file: one a line, the whole document, or the members of an archive."""
    yield from _members(path, tally) if is_archive(path) else _values(path, tally)


def _members(path: Path, tally: Tally) -> Iterator[Entry]:
    found = False
    for name, data in members_of(path):
        found = True
        place = f"{path}:{name}"
        value = _value(data, place, tally)
        yield Entry(value=value, path=path, number=None, size=len(data), place=place, name=stem(path))
    if not found:
        raise UnreadableError(str(path), "it is a zip archive without header.json and samples")


def _values(path: Path, tally: Tally) -> Iterator[Entry]:
    """Yield the values of lines, or the one of the document if its first line is none by itself."""
    lines = lines_of(path)
    first = next(lines, None)
    if first is None:
        raise UnreadableError(str(path), "it is empty")
    try:
        value = _value(first.data, f"{path}:{first.number}", tally)
    except UnreadableError as error:
        value, size = _document(path, error, next(lines, None), tally)
        yield Entry(value=value, path=path, number=None, size=size, place=str(path), name=stem(path))
        return
    second = next(lines, None)
    if second is None:
        yield Entry(value=value, path=path, number=None, size=len(first.data), place=str(path), name=stem(path))
        return
    yield _entry(path, first, value)
    while second is not None:
        third = next(lines, None)
        yield from _line(path, second, third is None, tally)
        second = third


def _line(path: Path, line: Line, last: bool, tally: Tally) -> Iterator[Entry]:
    """Yield the value of one line after the first; a last line that was cut off yields none."""
    try:
        yield _entry(path, line, _value(line.data, f"{path}:{line.number}", tally))
    except UnreadableError:
        if not (last and not line.ended):
            raise
        tally.drop(CUT_OFF)


def _entry(path: Path, line: Line, value: Any) -> Entry:
    place = f"{path}:{line.number}"
    name = f"{stem(path)}-{line.number:03d}"
    return Entry(value=value, path=path, number=line.number, size=len(line.data), place=place, name=name)


def _document(path: Path, of_line: UnreadableError, second: Line | None, tally: Tally) -> tuple[Any, int]:
    """Return the one value of a file whose first line is none; raises the more telling of the two errors."""
    try:
        data = document_of(path)
        return _value(data, str(path), tally), len(data)
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
        tally.repair(MENDED)
    return value
