"""What a format's module is given and what it gives: JSON values with their places in, episodes out."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from soak.facts import Episode
from soak.importers.reading import UnreadableError
from soak.importers.tally import Tally

CONVERSATION_BYTES_MAX = 64 << 20


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """
    One JSON value of a source: a line of a file, a whole document, or a member of an archive.

    `number` is its line, None for a whole document; `size` its bytes; `place` names it for people, `name` is the id of
    a conversation in it that has no id of its own.
    """

    value: Any
    path: Path
    number: int | None
    size: int
    place: str
    name: str


Reader = Callable[[Iterable[Entry], str, Tally], Iterator[Episode]]


class Format(msgspec.Struct, frozen=True, kw_only=True):
    """
    A foreign format. `recognises` is asked for the first JSON value of a file; `read` is given all its values.

    `per_folder`: files of one folder belong together and are read as one source. `name` of the second argument of
    `read` is the source's: the id of a conversation that has no own.
    """

    name: str
    recognises: Callable[[Any], bool]
    read: Reader
    per_folder: bool = False


def each(read_one: Callable[[Any, str, Tally], Iterator[Episode]]) -> Reader:
    """Return a reader for formats in which every JSON value stands for itself; episodes tell their line in `meta`."""

    def read(entries: Iterable[Entry], _name: str, tally: Tally) -> Iterator[Episode]:
        for entry in entries:
            for episode in read_one(entry.value, entry.name, tally):
                yield with_line(episode, entry)

    return read


def with_line(episode: Episode, entry: Entry) -> Episode:
    """Return the episode with the line it stands on in its `meta`."""
    if entry.number is None:
        return episode
    return msgspec.structs.replace(episode, meta={"line": entry.number, **episode.meta})


def whole(entries: Iterable[Entry], limit: int = CONVERSATION_BYTES_MAX) -> Iterator[Entry]:
    """Yield entries that are one conversation; raises `UnreadableError` where they are more than can be held."""
    total = 0
    for entry in entries:
        total += entry.size if entry.number is not None else 0
        if total > limit:
            raise UnreadableError(entry.place, f"one conversation of more than {limit >> 20} MiB")
        yield entry
