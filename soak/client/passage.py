"""Requests that are not ours: sent on to a target as they came, their answers handed over as they are read."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Self

import aiohttp
from yarl import URL

from soak.client.limits import own_limit
from soak.client.refusal import excerpt
from soak.client.target import Target
from soak.errors import UsageError

Headers = Sequence[tuple[str, str]]

_CONNECT_S = 30.0
_FIRST_FINAL = 200  # below are replies that come before an answer, and a change of protocol, for which nobody asked
_READ_BUFFER_BYTES = 64 * 1024
_HEAD_LIMIT_BYTES = 64 * 1024
# Below the 5 s after which uvicorn drops an idle connection, so that we do not send into one just closed.
_KEEP_ALIVE_S = 4.0
_AUTOMATIC = ("accept", "accept-encoding", "content-type", "user-agent")


class NoReplyError(Exception):
    """
    No head of an answer came: `why` in words.

    `taken`: a connection had come about, so the target may know of the request. `ours`: a limit of our own machine.
    """

    def __init__(self, why: str, *, taken: bool, ours: UsageError | None = None) -> None:
        super().__init__(why)
        self.why = why
        self.taken = taken
        self.ours = ours


class BrokenReplyError(Exception):
    """The answer broke off before its end: `why` in words."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


class Reply:
    """The head of an answer, and its body read by read; bytes are those of the content coding the target chose."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self.status = response.status
        self.reason = "".join(letter for letter in response.reason or "" if letter.isprintable())
        self.headers: Headers = [
            (name.decode("utf-8", "surrogateescape"), value.decode("utf-8", "surrogateescape"))
            for name, value in response.raw_headers
        ]

    async def read(self) -> bytes:
        """Return what has come since the last read, waiting for some; b"" at the end. Raises `BrokenReplyError`."""
        try:
            return await self._response.content.readany()
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise BrokenReplyError(_words(error)) from error


class Passage:
    """
    Carries requests to one target; an async context manager, usable for thousands at once.

    Nothing is added but `host` and the length, nothing unpacked, followed, retried or put together, and no time is
    limited but the 30 s to connect. Leaving the block of an answer before its end closes its connection, so that the
    target stops generating.
    """

    def __init__(self, target: Target) -> None:
        self.target = target
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEEP_ALIVE_S),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S),
            cookie_jar=aiohttp.DummyCookieJar(),
            read_bufsize=_READ_BUFFER_BYTES,
            auto_decompress=False,
            skip_auto_headers=_AUTOMATIC,
            max_line_size=_HEAD_LIMIT_BYTES,
            max_field_size=_HEAD_LIMIT_BYTES,
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    @asynccontextmanager
    async def send(self, method: str, path: str, headers: Headers, body: bytes | None) -> AsyncIterator[Reply]:
        """
        Send one request and yield its answer; `path` is as it stood in the request line, its query included.

        Raises `NoReplyError` if no head of an answer comes.
        """
        response = await self._sent(method, path, headers, body)
        try:
            yield Reply(response)
        finally:
            if response.content.at_eof():
                response.release()
            else:
                response.close()

    async def _sent(self, method: str, path: str, headers: Headers, body: bytes | None) -> aiohttp.ClientResponse:
        assert self._session is not None, "used outside its `async with`"
        try:
            url = URL(self.target.base_url + path, encoded=True)
            response = await self._session.request(method, url, headers=headers, data=body, allow_redirects=False)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            taken = not isinstance(error, aiohttp.ClientConnectorError | aiohttp.InvalidURL | TimeoutError)
            raise NoReplyError(_words(error), taken=taken, ours=own_limit(error)) from error
        if response.status < _FIRST_FINAL:
            response.close()
            raise NoReplyError(f"HTTP {response.status} is not the answer to any request sent here", taken=True)
        return response


def _words(error: Exception) -> str:
    return excerpt(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__, 300)
