"""
Golden transcripts of every format, as sources to import, and ways to spoil them.

A fixture is a file, or a folder: one whose name ends in `.eval` is packed as an archive, others are imported whole.
Mutations are seeded: the same number gives the same spoilt source.
"""

import json
import random
import shutil
import zipfile
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

from soak.errors import InputError
from soak.importers import Import, SourceReport, check_corpus

FIXTURES = Path(__file__).parents[1] / "unit" / "importers" / "fixtures"
NAMES = tuple(sorted(path.name for path in FIXTURES.iterdir() if path.suffix != ".golden"))


def lay_out(name: str, folder: Path) -> Path:
    """Put a fixture into `folder` as it is found in the wild; return what to import."""
    source, target = FIXTURES / name, folder / name
    if source.is_dir() and name.endswith(".eval"):
        pack(target, {str(path.relative_to(source)): path.read_bytes() for path in sorted(source.rglob("*.json"))})
    elif source.is_dir():
        shutil.copytree(source, target)
    else:
        shutil.copy(source, target)
    return target


def pack(target: Path, members: dict[str, bytes]) -> None:
    """Write an archive with the same bytes each time."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, data in members.items():
            archive.writestr(zipfile.ZipInfo(member), data, zipfile.ZIP_DEFLATED)


def files_of(source: Path) -> list[Path]:
    """Return the files of a source."""
    return sorted(path for path in source.rglob("*") if path.is_file()) if source.is_dir() else [source]


def examine(source: Path) -> tuple[list[SourceReport], InputError | None]:
    """
    Import a source, spoilt or not, and return its reports, or the error that names it.

    Fails if anything else is raised, if an episode is one that a server would refuse, or if text was lost silently.
    """
    run = Import([source])
    try:
        for episode in run.episodes():
            problems = [item for item in check_corpus([episode]) if item.severity == "problem"]
            assert problems == [] or episode.meta["format"] == "soak-corpus", problems  # ours are taken as they are
    except InputError as error:
        assert error.exit_code == 4
        assert all(error.lines())
        return run.reports, error
    for report in run.reports:
        found = report.characters + report.tail_characters + report.added_characters
        assert found == report.kept.characters + report.dropped_characters, report
    return run.reports, None


def spoil(source: Path, seed: int) -> None:
    """Change one file of a source on disk: its bytes, or a value in its JSON."""
    chance = random.Random(seed)
    path = chance.choice(files_of(source))
    data = path.read_bytes()
    by_value = None if path.suffix == ".eval" or chance.random() < 0.3 else _spoilt_values(data, chance)
    path.write_bytes(_spoilt_bytes(data, chance) if by_value is None else by_value)


def _spoilt_bytes(data: bytes, chance: random.Random) -> bytes:
    """Return bytes with some cut, flipped, repeated or put in."""
    at, end = sorted((chance.randrange(len(data) + 1), chance.randrange(len(data) + 1)))
    junk = (
        b"\xff\xfe",
        b"\x00",
        b'"',
        b"}",
        b"[" * 90,
        b'{"a":',
        b"\n",
        b"\\ud800",
        b"9" * 30,
        b"\xed\xa0\x80",
        b"NaN",
    )
    ways: tuple[Callable[[], bytes], ...] = (
        lambda: data[:at],
        lambda: data[at:],
        lambda: data[:at] + data[end:],
        lambda: data[:end] + data[at:],
        lambda: data[:at] + chance.choice(junk) + data[at:],
        lambda: data[:at] + bytes([chance.randrange(256)]) + data[at + 1 :],
        lambda: b"\n".join(chance.sample(lines, len(lines))) if len(lines := data.split(b"\n")) > 2 else data[::-1],
    )
    return chance.choice(ways)()


_VALUES: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    10**30,
    1.5e308,
    float("nan"),
    "",
    "x",
    "\ud800",
    "é" * 300,
    [],
    {},
    [None],
    {"role": "tool"},
    [[]],
    "2026-13-45T99:99:99Z",
    '{"messages": []}',
    {"type": "text", "text": 5},
    2**62,
)


def _spoilt_values(data: bytes, chance: random.Random) -> bytes | None:
    """Return the same JSON with one value exchanged, removed, doubled, moved or nested; None where it is no JSON."""
    try:
        whole = [json.loads(data)]
    except ValueError:
        try:
            whole = [json.loads(line) for line in data.split(b"\n") if line.strip()]
        except ValueError:
            return None
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        places = list(_places(whole, 0))
        if places:
            _spoil_place(places, chance)
    return b"\n".join(json.dumps(value).encode() for value in whole)


def _places(value: Any, depth: int) -> Iterator[tuple[Any, Any]]:
    """Yield every (container, key) of a JSON value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield value, key
        if depth < 40:
            yield from _places(inner, depth + 1)


def _spoil_place(places: list[tuple[Any, Any]], chance: random.Random) -> None:
    at, key = chance.choice(places)
    other, other_key = chance.choice(places)
    way = chance.randrange(6)
    if way == 0:
        at[key] = deepcopy(chance.choice(_VALUES))
    elif way == 1:
        del at[key]
    elif way == 2:
        at[key] = deepcopy(other[other_key])
    elif way == 3 and isinstance(at, list):
        at.insert(key, deepcopy(at[key]))
    elif way == 4:
        at[key] = [at[key]]
    else:
        at[key] = chance.choice((str(at[key]), {"a": at[key]}, deepcopy(chance.choice(_VALUES))))
