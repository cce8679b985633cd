"""Facts to and from what a row holds: JSON text, and compressed bytes of streams."""

import zlib
from typing import Any, TypeVar

import msgspec

from soak.facts import clean, decode, encode

T = TypeVar("T")

# A stream kept as proof is bounded by the client; a larger one in a foreign run folder is an attack on our memory.
MAX_RAW_BYTES = 256 * 1024 * 1024


def to_json(value: Any) -> str:
    """Return the JSON text of a fact; lone surrogates (hostile model output) become U+FFFD."""
    try:
        return encode(value).decode()
    except UnicodeEncodeError:
        return encode(_cleaned(msgspec.to_builtins(value))).decode()


def from_json(text: str, kind: type[T]) -> T:
    """Return the fact of type `kind` in `text`; raises `ValueError` (msgspec's errors are such) if it is not one."""
    try:
        return decode(text, kind)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {_cleaned(name): _cleaned(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_cleaned(item) for item in value]
    return value


def pack(raw: bytes) -> bytes:
    """Return `raw` compressed (zlib, which carries a checksum)."""
    return zlib.compress(raw, 6)


def unpack(packed: bytes, limit: int = MAX_RAW_BYTES) -> bytes:
    """Return what was packed; raises `ValueError` if it is cut, corrupt, or larger than `limit` bytes."""
    unpacker = zlib.decompressobj()
    try:
        raw = unpacker.decompress(packed, limit)
    except zlib.error as error:
        raise ValueError(f"compressed bytes are corrupt: {error}") from error
    if not unpacker.eof:
        raise ValueError(f"compressed bytes are cut short, or hold more than {limit} bytes")
    return raw
