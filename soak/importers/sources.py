"""
Files and folders → sources: which files there are, what format each is of, and which belong together.

A format is recognised by a file's first JSON value, never by its name. Files of a format that spreads one conversation
over a folder are one source, as is a folder of `events` or `simulations` with the file above it. A file that cannot be
read on ends there, with its place and reason in the tally; the others are read all the same.
"""

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec

from soak.importers.archive import is_archive, members_of
from soak.importers.entries import Entry, Format
from soak.importers.reading import Line, UnreadableError, document_of, lines_of, parse_json
from soak.importers.tables import HubName, Table, hub_name, table_in, table_kind, table_on_hub
from soak.importers.tally import Tally

_SUFFIXES = (".json", ".jsonl", ".ndjson", ".traj", ".eval", ".jsonl.gz", ".json.gz", ".zst", ".parquet", ".arrow")
_UNDER = ("events", "simulations")
MENDED = "text that is not Unicode, or a number that is not finite, replaced"
CUT_OFF = "a last line that was cut off"


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """
    Files that are read as one, with the values in them and the tally of what they hold.

    `named` if the user named it, so that it must be of a known format; `name` is the id of what has no own; `origin`
    goes into the `meta` of its episodes.
    """

    entries: Iterator[Entry]
    format: Format | None
    named: bool
    name: str
    tally: Tally
    origin: dict[str, Any]


def files_under(path: Path) -> Iterator[tuple[Path, bool]]:
    """Yield the files of a file or folder in a stable order, each with whether it was named by itself."""
    if str(path).startswith("hf:/") or not path.is_dir():
        yield path, True
        return
    for folder, folders, names in os.walk(path):
        folders.sort()
        for name in sorted(names):
            if name.endswith(_SUFFIXES) and (Path(folder) / name).is_file():
                yield Path(folder) / name, False


def sources_of(
    files: Iterable[tuple[Path, bool]],
    recognise: Callable[[Any], Format | None],
    columns: Mapping[str, str] | None = None,
) -> Iterator[Source]:
    """Yield the sources among `files`; `columns` are names that the formats know, each with what the files call it."""
    group: list[Path] = []
    last: tuple[Path, Format] | None = None
    for path, named in files:
        source = _single(path, named, recognise, columns or {})
        folder = path.parent.parent if path.parent.name in _UNDER else path.parent
        grouped = source.format is not None and source.format.per_folder and not named
        if source.format is None and source.tally.broken:
            yield source  # not one of a group, nor the end of one
            continue
        if last is not None and not (grouped and last == (folder, source.format)):
            yield _together(group, *last, columns or {})
            group, last = [], None
        if grouped and source.format is not None:
            group.append(path)
            last = (folder, source.format)
        else:
            yield source
    if last is not None:
        yield _together(group, *last, columns or {})


def _single(path: Path, named: bool, recognise: Callable[[Any], Format | None], columns: Mapping[str, str]) -> Source:
    """Return the source of one file; its first value is read already."""
    tally = Tally(source=str(path))
    origin: dict[str, Any] = {"source": path.name}
    entries: Iterator[Entry] = iter(())
    if not named and _is_empty(path):
        tally.drop("an empty file")
    else:
        entries = _until_broken(_renamed(entries_of(path, tally, origin), columns), tally)
    first = next(entries, None)
    if first is None:
        return Source(entries=iter(()), format=None, named=named, name=stem(path), tally=tally, origin=origin)
    format_ = recognise(first.value)
    values = chain([first], entries)
    return Source(entries=values, format=format_, named=named, name=stem(path), tally=tally, origin=origin)


def _until_broken(entries: Iterator[Entry], tally: Tally) -> Iterator[Entry]:
    """Yield the values of a file as far as it can be read; where that is not to its end, the tally says why."""
    try:
        yield from entries
    except UnreadableError as error:
        tally.break_off(error.place, error.why, error.hint)


def _renamed(entries: Iterator[Entry], columns: Mapping[str, str]) -> Iterator[Entry]:
    """Yield values in which each column has the name that the formats know; the first value must have them all."""
    for number, entry in enumerate(entries):
        if not columns:
            yield entry
            continue
        rows = entry.value if isinstance(entry.value, list) else [entry.value]
        if not number:
            _check_columns(entry, rows[0] if rows else None, columns)
        renamed = [_with_columns(row, columns) for row in rows]
        yield msgspec.structs.replace(entry, value=renamed if isinstance(entry.value, list) else renamed[0])


def _check_columns(entry: Entry, row: Any, columns: Mapping[str, str]) -> None:
    names = list(row) if isinstance(row, dict) else []
    missing = [theirs for theirs in columns.values() if theirs not in names]
    if missing:
        has = ", ".join(names)[:300] or "none"
        raise UnreadableError(
            entry.place, f"it has no column {missing[0]!r}; it has {has}", hint="give --columns messages=ITS_NAME"
        )


def _with_columns(row: Any, columns: Mapping[str, str]) -> Any:
    if not isinstance(row, dict):
        return row
    rest = {key: value for key, value in row.items() if key not in columns.values()}
    return {**rest, **{ours: row[theirs] for ours, theirs in columns.items() if theirs in row}}


def _is_empty(path: Path) -> bool:
    try:
        return not path.stat().st_size
    except OSError:
        return False


def _together(paths: list[Path], folder: Path, format_: Format, columns: Mapping[str, str]) -> Source:
    """Return the source of several files of one folder."""
    alone = len(paths) == 1
    tally = Tally(source=str(paths[0]) if alone else f"{folder}/")
    each = (_until_broken(_renamed(entries_of(path, tally, {}), columns), tally) for path in paths)
    name = stem(paths[0]) if alone else folder.resolve().name
    origin = {"source": Path(tally.source).name}
    entries = chain.from_iterable(each)
    return Source(entries=entries, format=format_, named=False, name=name, tally=tally, origin=origin)


def stem(path: Path) -> str:
    """Return a file's name without what its kind adds to it."""
    return path.name.removesuffix(".gz").rsplit(".", 1)[0] or path.name


def entries_of(path: Path, tally: Tally, origin: dict[str, Any]) -> Iterator[Entry]:
    """
    Yield the JSON values of a file: one a line, the whole document, the members of an archive, or the rows of a table.

    What is known of a whole data set, such as its licence, is added to `origin`.
    """
    on_hub = hub_name(path)
    if on_hub is not None:
        yield from _of_hub(on_hub, tally, origin)
        return
    if _is_special(path):
        hint = "write what it gives into a file, and import that"
        raise UnreadableError(str(path), "it is a pipe, a socket or a device, and no file", hint=hint)
    kind = table_kind(path)
    if kind is not None:
        yield from _rows(table_in(path, kind), path, str(path), tally)
    else:
        yield from _members(path, tally) if is_archive(path) else _values(path, tally)


def _is_special(path: Path) -> bool:
    """Return whether reading would hang or never end: it is there, and neither a file nor a folder."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False  # whoever opens it says why
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def _of_hub(name: HubName, tally: Tally, origin: dict[str, Any]) -> Iterator[Entry]:
    tally.source = str(name)
    table = table_on_hub(name)
    origin.update({"source": str(name), **({"licence": table.licence} if table.licence else {})})
    yield from _rows(table, Path(name.repository), str(name), tally)


def _rows(table: Table, path: Path, source: str, tally: Tally) -> Iterator[Entry]:
    """Yield the rows of a table as values, each in a place of its own like a line."""
    number = 0
    for number, data in enumerate(table.rows, 1):
        place, name = f"{source}:{number}", f"{stem(path)}-{number:03d}"
        value = _value(data, place, tally)
        yield Entry(value=value, path=path, number=number, size=len(data), place=place, name=name)
    if not number:
        raise UnreadableError(source, "it has no rows")


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
