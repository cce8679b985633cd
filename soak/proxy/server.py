"""
The server side: one handler for all requests. It reads the request, sends it on, and writes each read of the answer
to the client before anything looks at it.

    client ──request──► handler ──Passage──► target
    client ◄──bytes──── handler ◄──reads──── target
                           └──the same bytes, afterwards──► Hearing (in slices)

A client that hangs up cancels the handler, which closes the connection to the target. A target that breaks off cuts
the client's answer without an end, so that nobody takes it for a whole one.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from time import perf_counter
from typing import Any

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from multidict import CIMultiDict

from soak.client import BrokenReplyError, NoReplyError, Passage, Reply
from soak.facts import encode
from soak.proxy.asked import door_of, with_token_ids
from soak.proxy.headers import TURN_HEADER, parse_turn_header, passed_on, scrub_for
from soak.proxy.hearing import Hearing
from soak.proxy.recorder import Recorder
from soak.proxy.slices import Slices

BODY_LIMIT_BYTES = 64 * 1024 * 1024
_HEAD_LIMIT_BYTES = 64 * 1024
_HEADERS_MAX = 256
_LEFT = "the client hung up"
_STOPPED = "soak was stopped"
_OF_SERVER = ("content-type", "date", "server")


class _Passed(web.StreamResponse):
    """The target's answer on its way to the client, with the target's headers and no others."""

    def __init__(self, reply: Reply) -> None:
        headers = passed_on(reply.headers, request=False)
        super().__init__(status=reply.status, reason=reply.reason, headers=CIMultiDict(headers))
        self._given = {name.lower() for name, _ in headers}
        self._cut = False

    async def _prepare_headers(self) -> None:
        await super()._prepare_headers()
        for name in _OF_SERVER:
            if name not in self._given:
                self.headers.popall(name, None)

    def cut(self) -> None:
        """Let the connection be closed without the end that was promised."""
        self._cut = True
        self.force_close()

    async def write_eof(self, data: bytes = b"") -> None:
        """End the answer, unless it was cut."""
        if not self._cut:
            await super().write_eof(data)


class Proxy:
    """
    Passes requests on through `passage` and has them recorded by `recorder`; `listen` opens its doors.

    `token_ids`: ask for token ids in chat completions and completions; nothing else of a request is ever changed.
    `secrets` are keys of our own, kept out of what is recorded like the clients'.
    """

    def __init__(
        self,
        passage: Passage,
        recorder: Recorder,
        *,
        token_ids: bool = False,
        body_limit_bytes: int = BODY_LIMIT_BYTES,
        secrets: tuple[str, ...] = (),
    ) -> None:
        self._passage = passage
        self._recorder = recorder
        self._token_ids = token_ids
        self._body_limit = body_limit_bytes
        self._secrets = secrets
        self._slices = Slices()
        self._log = _log_into(recorder)
        self._server: web.Server | None = None
        self._listening: asyncio.Server | None = None
        self._idle = asyncio.Event()
        self._idle.set()
        self._stopping = self._draining = False
        self.in_flight = 0

    async def listen(self, socket: Any) -> None:
        """Take connections from a bound socket."""
        self._server = web.Server(
            self._handle,
            handler_cancellation=True,
            access_log=None,
            logger=self._log,
            auto_decompress=False,
            max_line_size=_HEAD_LIMIT_BYTES,
            max_field_size=_HEAD_LIMIT_BYTES,
            max_headers=_HEADERS_MAX,
        )
        self._listening = await asyncio.get_running_loop().create_server(self._server, sock=socket, backlog=1024)

    def drain(self) -> None:
        """Take no new request; those in flight go on."""
        self._draining = True
        if self._listening is not None:
            self._listening.close()
        if self._server is not None:
            self._server.pre_shutdown()

    async def idle(self) -> None:
        """Wait until nothing is in flight."""
        await self._idle.wait()

    async def close(self) -> None:
        """Break off what is in flight, close all connections, and record what is left to be recorded."""
        self.drain()
        self._stopping = True
        if self._server is not None:
            await self._server.shutdown(0.05)
        with suppress(TimeoutError):
            await asyncio.wait_for(self._idle.wait(), 5.0)
        self._slices.finish()

    # -- one request -------------------------------------------------------------------------------------------

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if self._draining:
            return _refusal(503, "proxy_stopping", "the proxy is being stopped and takes no new request")
        if request.method == "CONNECT" or "websocket" in request.headers.get("upgrade", "").lower():
            self._recorder.passed("refused: WebSocket or CONNECT")
            return _refusal(501, "not_supported", "this proxy carries plain HTTP: no WebSocket and no CONNECT")
        self.in_flight += 1
        self._idle.clear()
        try:
            try:
                body = await self._body(request)
            except web.RequestPayloadError as error:
                return _refusal(400, "bad_request", f"the body cannot be read: {error}", close=True)
            if body is None:
                self._recorder.passed("refused: body too large")
                return _refusal(413, "body_too_large", f"the body is larger than {self._body_limit} bytes", close=True)
            return await self._relay(request, body)
        finally:
            self.in_flight -= 1
            if not self.in_flight:
                self._idle.set()

    async def _body(self, request: web.BaseRequest) -> bytes | None:
        """Return the whole body, None where it is larger than the limit."""
        if (request.content_length or 0) > self._body_limit:
            return None
        if request.headers.get("expect", "").lower() == "100-continue" and request.transport is not None:
            request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        parts: list[bytes] = []
        size = 0
        while data := await request.content.readany():
            size += len(data)
            if size > self._body_limit:
                return None
            parts.append(data)
        return b"".join(parts)

    async def _relay(self, request: web.BaseRequest, body: bytes) -> web.StreamResponse:
        path = request.raw_path
        try:
            hearing, body = self._overheard(request, path, body)
        except Exception as crash:  # a request must pass whatever our looking at it does
            self._recorder.passed(f"unreadable: {type(crash).__name__}")
            hearing = None
        headers = passed_on(_decoded(request.raw_headers), request=True)
        try:
            async with self._passage.send(request.method, path, headers, body or None) as reply:
                return await self._answer(request, reply, hearing)
        except NoReplyError as error:
            self._put(hearing, _no_reply(error))
            return _refusal(502, "upstream_unreachable", f"{self._passage.target} did not answer: {error.why}")
        except (asyncio.CancelledError, ConnectionError):
            why = _STOPPED if self._stopping else _LEFT
            self._put(hearing, lambda heard: heard.left(why))
            raise
        finally:
            self._put(hearing, self._recorder.end)

    async def _answer(self, request: web.BaseRequest, reply: Reply, hearing: Hearing | None) -> web.StreamResponse:
        response = _Passed(reply)
        if "upgrade" in request.headers:  # not taken up, and what follows on the connection would not be read as HTTP
            response.force_close()
        headers = {name.lower(): value for name, value in reply.headers}
        self._put(hearing, lambda heard: heard.head(reply.status, headers))
        try:
            await response.prepare(request)
            while data := await reply.read():
                at = perf_counter()
                await response.write(data)
                self._put(hearing, _feed(data, at), len(data))
        except BrokenReplyError as error:
            why = error.why
            self._put(hearing, lambda heard: heard.broken(why))
            response.cut()
            return response
        at_end = perf_counter()
        self._put(hearing, lambda heard: heard.end(at_end))
        await response.write_eof()
        return response

    def _put(self, hearing: Hearing | None, work: Callable[[Hearing], bool | None], size: int = 0) -> None:
        """Have something done with what is heard, once bytes have been passed on."""
        if hearing is not None:
            self._slices.put(partial(work, hearing), size)

    def _overheard(self, request: web.BaseRequest, path: str, body: bytes) -> tuple[Hearing | None, bytes]:
        """Return what hears the answer, if it can be judged, and the body to send on."""
        door = door_of(request.method, path)
        if door is None:
            self._recorder.passed(_kind(request.method, path))
            return None, body
        if request.headers.get("content-encoding", "identity").lower() != "identity":
            self._recorder.passed(f"{door}, unreadable: the body is compressed")
            return None, body
        if b'"previous_response_id"' in body:  # the answer that it names may have passed and not been looked at yet
            self._slices.finish()
        scrub = scrub_for(_decoded(request.raw_headers), self._secrets, path=path, body=body)
        asked = self._recorder.read(door, body, scrub)
        if asked is None:
            return None, body
        hearing = self._recorder.begin(asked, scrub, self._named(request))
        return hearing, with_token_ids(body, asked) if self._token_ids else body

    def _named(self, request: web.BaseRequest) -> tuple[str, int] | None:
        """Return the place that the client names, None where it names none that can be used."""
        values = request.headers.getall(TURN_HEADER, [])
        if not values:
            return None
        named = parse_turn_header(values[0]) if len(values) == 1 else None
        if named is None:
            self._recorder.note("bad_turn_header", f"a header {TURN_HEADER} that is not EPISODE/TURN was passed over")
        return named


class _Counted(logging.Handler):
    """Counts what the HTTP server could not make sense of, or failed in, among what passed; prints nothing."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__(logging.ERROR)
        self._recorder = recorder

    def emit(self, record: logging.LogRecord) -> None:
        """Take one error; aiohttp logs those of its clients and ours alike."""
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, HttpProcessingError):
            self._recorder.passed("refused: no HTTP that can be read")
        elif error is not None:
            self._recorder.note("proxy_failed", f"a request could not be passed on: {type(error).__name__}")


def _log_into(recorder: Recorder) -> logging.Logger:
    log = logging.Logger("soak.proxy", logging.ERROR)
    log.addHandler(_Counted(recorder))
    return log


def _feed(data: bytes, at: float) -> Callable[[Hearing], bool]:
    """Return what has a read heard, piece by piece where it unpacks to very much."""
    left = data

    def take(heard: Hearing) -> bool:
        nonlocal left
        left = heard.feed_some(left, at)
        return bool(left)

    return take


def _no_reply(error: NoReplyError) -> Callable[[Hearing], None]:
    """Return what an unanswered request means for its turn; a limit of our own machine is no fault of the server's."""
    ours = error.ours
    if ours is not None:
        return lambda heard: heard.left(ours.what)
    return lambda heard: heard.unanswered(error.why, taken=error.taken)


def _decoded(raw: Any) -> list[tuple[str, str]]:
    return [(name.decode("utf-8", "surrogateescape"), value.decode("utf-8", "surrogateescape")) for name, value in raw]


_KNOWN_DOORS = (
    "count_tokens",
    "responses",
    "messages",
    "embeddings",
    "models",
    "metrics",
    "health",
    "tokenize",
    "version",
    "ping",
)


def _kind(method: str, path: str) -> str:
    """Return how an exchange is counted: by its door where we know that, never by what else stands in the path."""
    words = path.partition("?")[0].split("/")
    door = next((word for word in reversed(words) if word in _KNOWN_DOORS), None)
    return f"{method if method.isalpha() and len(method) < 8 else 'other'} {door or 'another path'}"


def _refusal(status: int, code: str, why: str, *, close: bool = False) -> web.Response:
    """Return an error of the proxy's own, in the shape that clients of OpenAI's and Anthropic's APIs read."""
    error = {"message": f"soak proxy: {why}", "type": code, "param": None, "code": str(status)}
    response = web.Response(
        status=status, body=encode({"type": "error", "error": error}), content_type="application/json"
    )
    if close:
        response.force_close()
    return response
