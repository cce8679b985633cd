"""Where an engine's API is and how to be let in, with secrets that cannot be printed by accident."""

import base64
import re
from dataclasses import dataclass, field
from typing import Self
from urllib.parse import SplitResult, unquote, urlsplit

from soak.client.meter import Meter
from soak.client.scrub import Scrub
from soak.errors import UsageError

_KNOWN_TAIL = re.compile(r"/(chat/completions|completions|models)$")
_API_TAIL = re.compile(r"^(?P<root>.*?)(?P<api>/v\d+)?$")


class Secret:
    """A value that is sent and never shown: `repr` and `str` are '***'; `reveal()` gives it to the wire."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """Return the value itself."""
        return self._value

    def __repr__(self) -> str:
        return "***"

    __str__ = __repr__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(self._value)


@dataclass(frozen=True, slots=True)
class Target:
    """
    One OpenAI-compatible server.

    `base_url` has no credentials and no trailing slash and may be shown; the API lives under `base_url + api_path`,
    an engine's own doors (/metrics, /health, /version, /tokenize) under `base_url`. Make one with `Target.parse`.
    `meter` counts what is sent to it that can make it compute tokens, where somebody counts.
    """

    base_url: str
    api_path: str = "/v1"
    model: str | None = None
    api_key: Secret | None = None
    basic: Secret | None = None
    meter: Meter | None = field(default=None, compare=False, repr=False)

    @classmethod
    def parse(cls, url: str, *, model: str | None = None, api_key: str | None = None) -> Self:
        """
        Return the target at `url`: `http://host:port`, `…/v1` and `…/v1/chat/completions` are the same one.

        Credentials in the URL become basic authentication. Raises `UsageError` for anything but http and https, a
        query, no host, or a key that cannot be sent in a header.
        """
        parts = _split(url)
        path = _KNOWN_TAIL.sub("", parts.path.rstrip("/")).rstrip("/")
        match = _API_TAIL.match(path)
        root, api = (match["root"], match["api"]) if match else (path, None)
        host = parts.netloc.rpartition("@")[2]
        return cls(
            base_url=f"{parts.scheme}://{host}{root}",
            api_path=api or "/v1",
            model=model,
            api_key=_key(api_key),
            basic=_basic(parts),
        )

    @property
    def api_url(self) -> str:
        """The URL that the OpenAI API's paths are added to."""
        return self.base_url + self.api_path

    def headers(self) -> dict[str, str]:
        """Return the headers that authenticate a request; they hold the secret."""
        if self.api_key is not None:
            return {"authorization": f"Bearer {self.api_key.reveal()}"}
        return {"authorization": f"Basic {self.basic.reveal()}"} if self.basic is not None else {}

    def scrub(self, text: str) -> str:
        """Return words about this target with its secrets replaced by '***' (see `Scrub` for what is replaced)."""
        return self.scrubber().words(text)

    def scrubber(self) -> Scrub:
        """Return what takes the secrets of this target out of what comes back; make it once, and use it often."""
        api_key, basic = (None if one is None else one.reveal() for one in (self.api_key, self.basic))
        return Scrub(api_key=api_key, basic=basic)

    def __str__(self) -> str:
        return self.base_url


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url.strip())
        port_is_fine = parts.port is None or parts.port > 0
    except ValueError:  # its words may quote the password
        raise _not_a_target(url, "its host or its port cannot be read") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or not port_is_fine:
        raise _not_a_target(url, "it is not an http or https URL with a host")
    if parts.query or parts.fragment:
        raise _not_a_target(url, "it has a query or a fragment")
    if "@" in parts.path:
        raise _not_a_target(url, "there is an '@' after its host; a '/' in a password is written %2F")
    return parts


def _key(api_key: str | None) -> Secret | None:
    """Return the key without the line break that a file or a shell leaves at its end, None if nothing is left."""
    key = (api_key or "").strip()
    if not key.isascii() or not key.isprintable():
        raise UsageError(
            "the API key in SOAK_API_KEY cannot be sent",
            why="it has a line break, a control character or a character beyond ASCII, which no header may hold",
            hint="set SOAK_API_KEY to the key alone",
        )
    return Secret(key) if key else None


def _basic(parts: SplitResult) -> Secret | None:
    if parts.username is None:
        return None
    plain = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return Secret(base64.b64encode(plain.encode()).decode())


def _not_a_target(url: str, why: str) -> UsageError:
    scheme = re.match(r"\s*(?:https?|ftp)://", url)
    _, at, rest = url.rpartition("@")  # a password may hold anything, so nothing before the last '@' is shown
    place = re.split("[?#]", (scheme[0] if scheme else "") + rest if at else url)[0]  # a query may hold a key
    shown = place.strip()[:200]
    return UsageError(f"{shown!r} cannot be a target", why=why, hint="give a base URL such as http://127.0.0.1:8000")
