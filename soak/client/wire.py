"""The timed path: aiohttp for the bytes, our own parser and msgspec for the rest."""

import asyncio
import json
from time import perf_counter
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import aiohttp
import msgspec

from soak.client.attempt import Sink, Stream, refusal_words
from soak.client.lag import LoopLag
from soak.client.limits import own_limit
from soak.client.refusal import excerpt
from soak.client.request import Exchange, Request
from soak.client.retry import attempts_of
from soak.client.target import Target
from soak.client.watch import Watch

_REFUSAL_LIMIT_BYTES = 64 * 1024
_CONNECT_S = 30.0
_READ_BUFFER_BYTES = 256 * 1024
# Below the 5 s after which uvicorn drops an idle connection, so that we do not send into one just closed.
_KEEP_ALIVE_S = 4.0
_AFTER_DONE_S = 0.25
NOT_STREAMS = ("application/json", "text/html")


def encode_body(body: dict[str, Any]) -> bytes:
    """Return the JSON of a request; text with lone surrogates is escaped, as such text cannot be UTF-8."""
    try:
        return msgspec.json.encode(body)
    except UnicodeEncodeError:
        return json.dumps(body).encode()


def session_header(session: str) -> str:
    """Return a conversation's name in a form that is safe in an HTTP header."""
    return quote(session, safe="/:@+,=~ ")[:200]


class WireClient:
    """
    Streams chat completions from one target; an async context manager, usable for thousands of turns at once.

    Proxies of the environment are ignored and redirects not followed. Never raises for what a server does: that
    becomes the observation's ending. Cancelling closes the connection, and so does a cut, a deadline or an answer
    beyond 64 MiB, so that the server stops generating.
    """

    def __init__(self, target: Target) -> None:
        self.target = target
        self._scrub = target.scrubber()
        self.lag = LoopLag()
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEEP_ALIVE_S),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S),
            cookie_jar=aiohttp.DummyCookieJar(),
            read_bufsize=_READ_BUFFER_BYTES,
            headers={
                "content-type": "application/json",
                "accept": "text/event-stream",
                "accept-encoding": "identity",
                "user-agent": "soak",
                **self.target.headers(),
            },
        )
        self.lag.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.lag.stop()
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def exchange(self, request: Request, sink: Sink) -> Exchange:
        """
        Send one turn and return what came back, after as many attempts as its `retries` allow.

        `sink` is given each chunk as it is read and returns True to have the stream closed (ending "cut"). A sink that
        raises ends the exchange with its exception. Raises `UsageError` where a limit of our own machine, such as that
        on open files, let no connection come about: that tells nothing about the server; or where the target's meter
        lets none be sent.
        """
        payload = encode_body(request.body)
        begun = perf_counter()
        stream, attempts = await attempts_of(
            lambda: self._attempt(payload, request, sink), request.retries, self.target.meter
        )
        return stream.exchange(attempts, self.lag.since(begun))

    async def _attempt(self, payload: bytes, request: Request, sink: Sink) -> Stream:
        stream = Stream(request, sink, self._scrub)
        watch = Watch(request.deadlines, stream)
        try:
            async with watch:
                await self._send(payload, request, stream)
        except TimeoutError as error:
            stream.taken = watch.fired is not None
            stream.close(watch.fired or "broken", watch.words() if watch.fired else f"no connection: {error}")
        except (aiohttp.ClientError, OSError) as error:
            if (ours := own_limit(error)) is not None:
                raise ours from None
            _broke(stream, error)
        except ValueError as error:  # aiohttp's for a head or a chunk size that is no HTTP
            stream.close("malformed", f"not HTTP: {error}")
        return stream

    async def _send(self, payload: bytes, request: Request, stream: Stream) -> None:
        assert self._session is not None, "used outside its `async with`"
        headers = {"x-session-id": session_header(request.session)}
        url = f"{self.target.api_url}/chat/completions"
        async with self._session.post(url, data=payload, headers=headers, allow_redirects=False) as response:
            try:
                stream.head(response.status, response.headers)
                if response.status != 200 or response.content_type in NOT_STREAMS:
                    await _read_refusal(response, stream)
                else:
                    await _read_stream(response.content, stream)
            finally:
                if not response.content.at_eof():
                    response.close()


async def _read_stream(content: aiohttp.StreamReader, stream: Stream) -> None:
    read, feed = content.readany, stream.feed
    while stream.closed is None:
        data = await read()
        if not data:
            stream.end(perf_counter())
            return
        feed(data, perf_counter())
    if stream.fold.done:
        await _to_the_end(content)


async def _to_the_end(content: aiohttp.StreamReader) -> None:
    """Read what little follows [DONE], so that the connection can serve the next turn; not for long."""
    try:
        async with asyncio.timeout(_AFTER_DONE_S):
            while not content.at_eof() and await content.readany():
                pass
    except (TimeoutError, aiohttp.ClientError):
        return


async def _read_refusal(response: aiohttp.ClientResponse, stream: Stream) -> None:
    body = b""
    try:
        while len(body) < _REFUSAL_LIMIT_BYTES and (data := await response.content.readany()):
            body += data
    except aiohttp.ClientError:
        stream.fold.defects["error_body_broken"] = None
    stream.raw.add(body)
    if response.status == 200:
        stream.close("malformed", f"answered with {response.content_type} instead of a stream: {_excerpt(body)}")
        return
    location = f" (redirects to {response.headers['location']})" if "location" in response.headers else ""
    stream.close("http_error", refusal_words(response.status, body) + location)


def _excerpt(body: bytes) -> str:
    return excerpt(body.decode("utf-8", "replace"), 300)


def _broke(stream: Stream, error: aiohttp.ClientError | OSError) -> None:
    """Tell a server that does not speak HTTP, or a certificate that will not get better, from a broken connection."""
    words = f"{type(error).__name__}: {error}"
    if isinstance(error, aiohttp.ClientResponseError):
        stream.close("malformed", words)
        return
    stream.may_retry = not isinstance(error, aiohttp.ClientSSLError | aiohttp.InvalidURL)
    stream.taken = not isinstance(error, aiohttp.ClientConnectorError)
    stream.close("broken", words)
