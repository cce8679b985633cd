"""
The reference path: the same exchange through the openai package, held to the same contract suite.

It costs about ten times as much per chunk and is there to show that what `WireClient` reports is not its own doing.
What it cannot show: an `event: error` whose data has no `error` key is swallowed by the SDK (ending "no_finish"), and
JSON that is nearly JSON (bytes that are not UTF-8, lone surrogates, NaN) is read as the SDK likes to.
"""

from collections.abc import AsyncIterator
from contextvars import ContextVar
from time import perf_counter
from types import TracebackType
from typing import Self

import httpx2
import openai
from openai.types.chat import ChatCompletionChunk

from soak.client.attempt import ANSWER_LIMIT_BYTES, Sink, Stream, refusal_words
from soak.client.events import NotAnEventError, event_from
from soak.client.lag import LoopLag
from soak.client.limits import own_limit
from soak.client.request import Exchange, Request
from soak.client.retry import attempts_of
from soak.client.target import Target
from soak.client.watch import Watch
from soak.client.wire import NOT_STREAMS, encode_body, session_header

_current: ContextVar[Stream] = ContextVar("the attempt whose bytes are being read")


class _TooLargeError(Exception):
    """The answer passed the limit on bytes."""


class _Tee(httpx2.AsyncByteStream):
    """Passes the body on and keeps it as proof."""

    def __init__(self, body: httpx2.AsyncByteStream, stream: Stream) -> None:
        self._body = body
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for data in self._body:
            self._stream.raw.add(data)
            if self._stream.raw.total > ANSWER_LIMIT_BYTES:
                raise _TooLargeError
            yield data

    async def aclose(self) -> None:
        await self._body.aclose()


async def _keep_bytes(response: httpx2.Response) -> None:
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    response.stream = _Tee(response.stream, _current.get())


def sdk_of(target: Target, http: httpx2.AsyncClient | None = None) -> openai.AsyncOpenAI:
    """Return the SDK's client for a target: no retries and no timeout of its own, no proxies, no redirects."""
    http = http or httpx2.AsyncClient(trust_env=False, follow_redirects=False, limits=httpx2.Limits())
    key = target.api_key.reveal() if target.api_key else "none"
    headers = target.headers()
    return openai.AsyncOpenAI(
        base_url=target.api_url, api_key=key, max_retries=0, timeout=None, default_headers=headers, http_client=http
    )


class SdkClient:
    """Streams chat completions through the openai package; the interface and promises of `WireClient`."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self._scrub = target.scrubber()
        self.lag = LoopLag()
        self._sdk: openai.AsyncOpenAI | None = None

    async def __aenter__(self) -> Self:
        http = httpx2.AsyncClient(
            trust_env=False,
            follow_redirects=False,
            limits=httpx2.Limits(),
            event_hooks={"response": [_keep_bytes]},
            headers={"accept-encoding": "identity"},
        )
        self._sdk = sdk_of(self.target, http)
        self.lag.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.lag.stop()
        if self._sdk is not None:
            await self._sdk.close()
            self._sdk = None

    async def exchange(self, request: Request, sink: Sink) -> Exchange:
        """Send one turn and return what came back (see `WireClient.exchange`)."""
        payload = encode_body(request.body)
        begun = perf_counter()
        stream, attempts = await attempts_of(
            lambda: self._attempt(payload, request, sink), request.retries, self.target.meter
        )
        return stream.exchange(attempts, self.lag.since(begun))

    async def _attempt(self, payload: bytes, request: Request, sink: Sink) -> Stream:
        stream = Stream(request, sink, self._scrub)
        watch = Watch(request.deadlines, stream)
        token = _current.set(stream)
        try:
            async with watch:
                await self._send(payload, request, stream)
        except TimeoutError:
            stream.close(watch.fired or "broken", watch.words())
        except (openai.OpenAIError, httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            if (ours := own_limit(error)) is not None:
                raise ours from None
            _failed(stream, error)
        except (NotAnEventError, RecursionError, ValueError) as error:  # ValueError: what the SDK calls no JSON
            stream.close("malformed", str(error))
        except _TooLargeError:
            stream.close("too_large", f"the answer passed {ANSWER_LIMIT_BYTES} bytes")
        finally:
            _current.reset(token)
        return stream

    async def _send(self, payload: bytes, request: Request, stream: Stream) -> None:
        assert self._sdk is not None, "used outside its `async with`"
        headers = {"x-session-id": session_header(request.session), "content-type": "application/json"}
        answer = await self._sdk.post(
            "/chat/completions",
            content=payload,
            cast_to=ChatCompletionChunk,
            stream=True,
            stream_cls=openai.AsyncStream[ChatCompletionChunk],
            options={"headers": headers},
        )
        try:
            stream.head(answer.response.status_code, answer.response.headers)
            kind = answer.response.headers.get("content-type", "").partition(";")[0]
            if kind in NOT_STREAMS:
                stream.close("malformed", f"answered with {kind} instead of a stream")
                return
            await _read(answer, stream)
        finally:
            await answer.close()


async def _read(answer: openai.AsyncStream[ChatCompletionChunk], stream: Stream) -> None:
    async for chunk in answer:
        stream.take(event_from(chunk.to_dict(warnings=False)), perf_counter())
        if stream.closed is not None:
            return
    stream.fold.done = b"data: [DONE]" in stream.raw.joined()[-200:]
    stream.close("end")


def _failed(stream: Stream, error: Exception) -> None:
    if isinstance(error, openai.APIStatusError):
        stream.head(error.status_code, error.response.headers)
        stream.close("http_error", refusal_words(error.status_code, error.response.content))
    elif isinstance(error, openai.APIError) and not isinstance(error, openai.APIConnectionError):
        stream.close("error_event", str(error.message))
    else:
        _broke(stream, error)


def _broke(stream: Stream, error: Exception) -> None:
    cause = error.__cause__ or error
    words = f"{type(cause).__name__}: {cause}"
    not_http = isinstance(cause, httpx2.RemoteProtocolError) and stream.status is None and "illegal" in str(cause)
    stream.taken = not isinstance(cause, httpx2.ConnectError | httpx2.ConnectTimeout)
    stream.close("malformed" if not_http else "broken", words)
