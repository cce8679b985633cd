"""JSON in and out of facts: one encoder, one canonical form, one digest."""

import hashlib
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")

_canonical_encoder = msgspec.json.Encoder(order="deterministic")


def encode(value: Any) -> bytes:
    """Return the JSON bytes of a fact or plain value. Lone surrogates must have been replaced before (`clean`)."""
    return msgspec.json.encode(value)


def decode(data: bytes | str, kind: type[T]) -> T:
    """Return the fact of type `kind` in `data`; raises `msgspec.ValidationError` or `DecodeError` if it is not one."""
    return msgspec.json.decode(data, type=kind)


def canonical(value: Any) -> bytes:
    """Return JSON bytes that are equal for equal values: sorted keys, no spaces."""
    return _canonical_encoder.encode(value)


def digest_of(value: Any, parent: str = "") -> str:
    """Return `sha256:<hex>` over the parent's digest and the canonical JSON of `value`."""
    return "sha256:" + hashlib.sha256(parent.encode() + b"\n" + canonical(value)).hexdigest()


def clean(text: str) -> str:
    """Return `text` with lone surrogates replaced by U+FFFD, so that it can be encoded as UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
