"""
Zip archives, read in place and never unpacked to disk.

An archive is hostile: every member's name, size, ratio and compression is looked at before a byte of it is read, what
comes out is counted while it comes, and one wrong member refuses the whole archive by its name.
"""

import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from soak.importers.reading import BOMB_BYTES_MIN, DOCUMENT_BYTES_MAX, FILE_BYTES_MAX, RATIO_MAX, UnreadableError

MEMBERS_MAX = 100_000
_MAGIC = b"PK\x03\x04"
_ZSTD = (20, 93)
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_ENCRYPTED = 0x1


def is_archive(path: Path) -> bool:
    """Return whether a file begins as a zip archive does."""
    try:
        with path.open("rb") as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except OSError:
        return False


def members_of(path: Path) -> Iterator[tuple[str, bytes]]:
    """
    Yield the JSON members of an archive that are no journal, as (name, bytes): header.json first, then by number.

    Raises `UnreadableError`, naming archive and member, for names that lead out of the archive or occur twice, for
    members that are encrypted, packed in a way Python cannot read, larger than a document may be, or too well packed.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            members = _checked(path, archive.infolist())
            total = 0
            for member in _wanted(members):
                data = _content(path, archive, member)
                total += len(data)
                if total > FILE_BYTES_MAX:
                    raise UnreadableError(str(path), f"its members are more than {FILE_BYTES_MAX >> 20} MiB")
                yield member.filename, data
    except (zipfile.BadZipFile, OSError, EOFError, NotImplementedError, ValueError) as error:
        raise UnreadableError(str(path), f"is not a readable zip archive: {error}") from error


def _wanted(members: list[zipfile.ZipInfo]) -> list[zipfile.ZipInfo]:
    """Return header and samples in the order of their numbers; the journal's start stands in for a missing header."""
    by_name = {member.filename: member for member in members}
    head = by_name.get("header.json") or by_name.get("_journal/start.json")
    samples = [member for name, member in by_name.items() if name.startswith("samples/") and name.endswith(".json")]
    samples.sort(key=lambda member: _natural(member.filename))
    return ([head] if head is not None else []) + samples


def _natural(name: str) -> list[tuple[int, str]]:
    """Return a sort key that puts 2 before 10."""
    digits = "".join(sign if sign.isascii() and sign.isdigit() else " " for sign in name)
    return [(int(part[:18]), "") for part in digits.split()] + [(0, name)]


def _checked(path: Path, members: list[zipfile.ZipInfo]) -> list[zipfile.ZipInfo]:
    if len(members) > MEMBERS_MAX:
        raise UnreadableError(str(path), f"it has more than {MEMBERS_MAX} members")
    seen: set[str] = set()
    for member in members:
        flaw = _flaw(member) or ("the name occurs twice" if member.filename in seen else None)
        if flaw is not None:
            raise UnreadableError(f"{path}:{member.filename[:120]}", flaw)
        seen.add(member.filename)
    return members


def _flaw(member: zipfile.ZipInfo) -> str | None:
    """Return why a member is not to be read, before reading it; None where nothing speaks against it."""
    name = member.filename
    if name.startswith("/") or "\\" in name or ":" in name or ".." in PurePosixPath(name).parts:
        return "the name leads out of the archive"
    if member.flag_bits & _ENCRYPTED:
        return "it is encrypted"
    if member.compress_type in _ZSTD:
        return "it is packed with zstd, which Python reads from 3.14 on only; write the log again as JSON or deflated"
    if member.compress_type not in _METHODS:
        return f"it is packed by method {member.compress_type}, which is not read here"
    if member.file_size > DOCUMENT_BYTES_MAX:
        return f"it is larger than {DOCUMENT_BYTES_MAX >> 20} MiB"
    if member.file_size > BOMB_BYTES_MIN and member.file_size > RATIO_MAX * max(member.compress_size, 1):
        return f"it unpacks to more than {RATIO_MAX} times its size"
    return None


def _content(path: Path, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    """Return the bytes of a member, at most as many as its entry says."""
    place = f"{path}:{member.filename[:120]}"
    try:
        with archive.open(member) as file:
            data = file.read(member.file_size + 1)
    except (zipfile.BadZipFile, zlib.error, OSError, EOFError, NotImplementedError, RuntimeError) as error:
        raise UnreadableError(place, f"cannot be unpacked: {error}") from error
    if len(data) > member.file_size:
        raise UnreadableError(place, "it unpacks to more than it says")
    return data
