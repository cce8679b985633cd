"""Bytes of a file → lines and JSON values, within limits."""

import gzip
import io
import json
import math
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, cast

import msgspec

from soak.facts import clean

LINE_BYTES_MAX = 32 << 20
DOCUMENT_BYTES_MAX = 256 << 20
FILE_BYTES_MAX = 4 << 30
BLANK_LINES_MAX = 1_000_000
BOMB_BYTES_MIN = 64 << 20
RATIO_MAX = 200
DEPTH_MAX = 64

_BOM = b"\xef\xbb\xbf"
_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"


class UnreadableError(Exception):
    """A file or a line of it is not what it should be: `place` says where, `why` what is wrong, `hint` what to do."""

    def __init__(self, place: str, why: str, *, hint: str | None = None) -> None:
        super().__init__(f"{place}: {why}")
        self.place = place
        self.why = why
        self.hint = hint


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One line that is not blank: its number from 1, its bytes, and whether a line break ended it."""

    number: int
    data: bytes
    ended: bool


def lines_of(path: Path) -> Iterator[Line]:
    """
    Yield the lines of a file that are not blank; a gzip file is read through.

    Raises `UnreadableError` at a line or file that is too large, or that is compressed in another way.
    """
    total = blank = 0
    try:
        with _open(path) as file:
            packed = path.stat().st_size
            for number, data in enumerate(iter(lambda: file.readline(LINE_BYTES_MAX + 1), b""), 1):
                total += len(data)
                if len(data) > LINE_BYTES_MAX:
                    raise UnreadableError(f"{path}:{number}", f"the line is longer than {LINE_BYTES_MAX >> 20} MiB")
                if total > FILE_BYTES_MAX:
                    raise UnreadableError(str(path), f"the file is larger than {FILE_BYTES_MAX >> 20} MiB")
                if total > BOMB_BYTES_MIN and total > RATIO_MAX * packed:
                    raise UnreadableError(str(path), f"it unpacks to more than {RATIO_MAX} times its size")
                text = data.removeprefix(_BOM) if number == 1 else data
                blank += not text.strip()
                if blank > BLANK_LINES_MAX:
                    raise UnreadableError(str(path), f"it has more than {BLANK_LINES_MAX} blank lines")
                if text.strip():
                    yield Line(number=number, data=text, ended=data.endswith(b"\n"))
    except (OSError, EOFError, zlib.error) as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: Exception) -> UnreadableError:
    """Return what is told of a file that the system does not give, or that is broken."""
    why = getattr(error, "strerror", None)
    return UnreadableError(str(path), f"cannot be read: {why or error}", hint="check the path" if why else None)


def _open(path: Path) -> IO[bytes]:
    """Open a file for reading; a gzip file through its decompressor."""
    with path.open("rb") as file:
        magic = file.read(4)
    if magic.startswith(_GZIP):
        return cast(IO[bytes], io.BufferedReader(cast(io.RawIOBase, gzip.open(path, "rb"))))
    if magic == _ZSTD:
        raise UnreadableError(str(path), "it is compressed with zstd; unpack it first (zstd -d)")
    return path.open("rb")


def document_of(path: Path) -> bytes:
    """Return a whole file; raises `UnreadableError` if it is too large to be one JSON document."""
    try:
        with _open(path) as file:
            data = file.read(DOCUMENT_BYTES_MAX + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise _unreadable(path, error) from error
    if len(data) > DOCUMENT_BYTES_MAX:
        raise UnreadableError(str(path), f"the document is larger than {DOCUMENT_BYTES_MAX >> 20} MiB")
    return data.removeprefix(_BOM)


def parse_json(data: bytes, place: str) -> tuple[Any, bool]:
    """
    Return the JSON value in `data`, and whether it had to be mended (lone surrogates, NaN and infinities).

    Raises `UnreadableError` if it is not UTF-8, not JSON, or nested deeper than `DEPTH_MAX`.
    """
    try:
        value, mended = msgspec.json.decode(data), False
    except RecursionError:
        raise UnreadableError(place, f"nested deeper than {DEPTH_MAX} levels") from None
    except msgspec.DecodeError as error:
        value, mended = _second_reading(data, place, error), True
    flaw = flaw_of(value)
    if flaw is not None:
        raise UnreadableError(place, flaw)
    return (_mended(value) if mended else value), mended


def flaw_of(value: Any) -> str | None:
    """Return why a JSON value cannot be stored again: nested too deep, or a whole number beyond 64 bits; else None."""
    level = [value]
    for _ in range(DEPTH_MAX + 1):
        inner: list[Any] = []
        for item in level:
            kind = type(item)
            if kind is dict:
                inner += [one for one in item.values() if type(one) is not str]
            elif kind is list:
                inner += [one for one in item if type(one) is not str]
            elif kind is int and not -(2**63) <= item < 2**64:
                return "it has a whole number beyond 64 bits"
        if not inner:
            return None
        level = inner
    return f"nested deeper than {DEPTH_MAX} levels"


def _second_reading(data: bytes, place: str, error: msgspec.DecodeError) -> Any:
    """Read with the standard library, which takes lone surrogates and NaN; raises `UnreadableError` with the reason."""
    try:
        return json.loads(data.decode())
    except UnicodeDecodeError as undecodable:
        raise UnreadableError(place, f"is not UTF-8 (byte {undecodable.start})") from error
    except RecursionError:
        raise UnreadableError(place, f"nested deeper than {DEPTH_MAX} levels") from error
    except ValueError:
        raise UnreadableError(place, f"is not valid JSON: {error}") from error


def _mended(value: Any) -> Any:
    """Return `value` with text that can be encoded and numbers that are finite; its depth is bounded already."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {clean(key): _mended(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_mended(item) for item in value]
    return value
