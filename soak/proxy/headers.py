"""Headers of a request or answer that is passed on: which stay behind, which name a turn, which hold a key."""

import base64
import binascii
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from urllib.parse import unquote_plus

from soak.client import Scrub

Headers = Sequence[tuple[str, str]]

TURN_HEADER = "x-soak-turn"
# The episode's grammar is that of an id in a corpus; both are bounded, so that a key is fit for a row and a file name.
_TURN = re.compile(r"(?P<episode>[A-Za-z0-9_][A-Za-z0-9_.@+=-]{0,119})/(?P<turn>0|[1-9][0-9]{0,5})")

# RFC 9110, 7.6.1: they concern one connection. `host` and `content-length` are set anew, `expect` we answer ourselves.
_ONE_HOP = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
_SET_ANEW = frozenset({"host", "content-length", "expect"})
# A header or a field of a query holds a key if one of the words in its name says so; what repeats a request is none.
_KEY_WORDS = frozenset(
    {
        "apikey",
        "auth",
        "authorization",
        "cookie",
        "credential",
        "credentials",
        "key",
        "password",
        "secret",
        "sig",
        "signature",
        "token",
    }
)
_NO_KEYS = frozenset({"idempotency-key", "sec-websocket-key"})
_BODY_KEY = re.compile(rb'"api_key"\s*:\s*"([^"\\]{8,1000})"')  # as LiteLLM takes them
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_LEAST_SECRET = 8
_BODY_KEYS_MAX = 8


def passed_on(headers: Iterable[tuple[str, str]], *, request: bool) -> list[tuple[str, str]]:
    """Return the headers that go on to the other side, in their order and spelling."""
    given = list(headers)
    left = _ONE_HOP | _named(given) | (_SET_ANEW if request else frozenset())
    return [(name, value) for name, value in given if name.lower() not in left and _is_text(name + value)]


def _named(headers: Iterable[tuple[str, str]]) -> frozenset[str]:
    """Return the headers that `Connection` names as its own."""
    lists = (value.split(",") for name, value in headers if name.lower() == "connection")
    return frozenset(word.strip().lower() for words in lists for word in words)


def _is_text(text: str) -> bool:
    """Return whether a header can be written again: one that is not UTF-8 or has control characters cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return _CONTROL.search(text) is None


def parse_turn_header(value: str) -> tuple[str, int] | None:
    """
    Return the episode and turn in `EPISODE/TURN`, None for anything else.

    EPISODE: 1 to 120 letters, digits and `_ . @ + = -`, the first a letter, digit or `_`. TURN: 0 to 999999, without
    leading zeros or sign. No blanks.
    """
    match = _TURN.fullmatch(value)
    return None if match is None else (match["episode"], int(match["turn"]))


def scrub_for(headers: Iterable[tuple[str, str]], own: tuple[str, ...], *, path: str = "", body: bytes = b"") -> Scrub:
    """
    Return what takes the keys in a client's request, and our `own` keys, out of what is kept.

    A key that is no text is left out: its header is not passed on, its body not read.
    """
    given = tuple((name.lower(), value) for name, value in headers if _names_a_key(name.lower()) and _is_text(value))
    return _scrub(given, (*own, *_keys_in_query(path), *_keys_in_body(body)))


def _names_a_key(name: str) -> bool:
    return name not in _NO_KEYS and not _KEY_WORDS.isdisjoint(re.split(r"[^a-z]+", name))


def _keys_in_query(path: str) -> Iterator[str]:
    """Yield the keys in a query, as they stand there and as they are meant."""
    for field in path.partition("?")[2].split("&"):
        name, _, value = field.partition("=")
        if _names_a_key(unquote_plus(name).lower()):
            yield from {value, unquote_plus(value)}


def _keys_in_body(body: bytes) -> Iterator[str]:
    if b'"api_key"' in body:
        yield from (key.decode("utf-8", "replace") for key in _BODY_KEY.findall(body)[:_BODY_KEYS_MAX])


@lru_cache(maxsize=256)
def _scrub(headers: tuple[tuple[str, str], ...], own: tuple[str, ...]) -> Scrub:
    bearer, basic, others = None, None, list(own)
    for name, value in headers:
        scheme, _, rest = value.strip().partition(" ")
        credential = rest.strip()
        if name == "authorization" and scheme.lower() == "basic" and _is_base64(credential):
            basic = credential
        elif name == "authorization" and scheme.lower() == "bearer":
            bearer = credential
        elif name == "cookie":
            others += list(_cookies(value))
        else:
            others += [value.strip(), credential]
    return Scrub(api_key=bearer or None, basic=basic, others=tuple(one for one in others if len(one) >= _LEAST_SECRET))


def _cookies(value: str) -> Iterator[str]:
    for pair in value.split(";"):
        yield pair.partition("=")[2].strip()


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True).decode()
    except (binascii.Error, ValueError):
        return False
    return True
