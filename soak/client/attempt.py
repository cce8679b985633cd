"""One HTTP exchange as it goes: bytes in, chunks out to the sink, and what became of it."""

from collections import deque
from collections.abc import Callable
from time import perf_counter, time
from typing import Any

import msgspec

from soak.client.events import ChatEvent, Decode, NotAnEventError, decode_event, message_of
from soak.client.fold import Closed, Fold, is_our_doing
from soak.client.refusal import excerpt, retry_after_s
from soak.client.request import Exchange, Request
from soak.client.scrub import Scrub
from soak.client.sse import EventTooLargeError, ServerEvent, SseParser
from soak.facts import Attempt, Chunk, Observation

Sink = Callable[[Chunk], bool]

ANSWER_LIMIT_BYTES = 64 * 1024 * 1024
RAW_LIMIT_BYTES = 16 * 1024 * 1024
_RETRIED_STATUS = frozenset({429, 500, 502, 503, 504})


class RawBytes:
    """The bytes of a stream: all of them up to a limit, else its first and last halves of the limit."""

    def __init__(self, limit: int = RAW_LIMIT_BYTES) -> None:
        self._half = limit // 2
        self._head: list[bytes] = []
        self._head_bytes = 0
        self._tail: deque[bytes] = deque()
        self._tail_bytes = 0
        self.total = 0
        self.truncated = False

    def add(self, data: bytes) -> None:
        """Keep one read."""
        self.total += len(data)
        room = self._half - self._head_bytes
        if room > 0:
            self._head.append(data[:room])
            self._head_bytes += len(self._head[-1])
            data = data[room:]
        if data:
            self._tail.append(data)
            self._tail_bytes += len(data)
            while self._tail_bytes - len(self._tail[0]) >= self._half:
                self._tail_bytes -= len(self._tail.popleft())
                self.truncated = True

    def joined(self) -> bytes:
        """Return what was kept."""
        tail = b"".join(self._tail)
        if len(tail) > self._half:
            tail = tail[-self._half :]
            self.truncated = True
        return b"".join(self._head) + tail


class Stream:
    """
    One attempt. A stream path calls `feed` (or `take`) with what it reads until `closed` is set, or sets it itself.

    `decode` reads an event (of another API: in the words of a chat completion). All times are stopwatch seconds.
    `status` is None until an answer's head came.
    """

    def __init__(self, request: Request, sink: Sink, scrub: Scrub, decode: Decode = decode_event) -> None:
        self._decode = decode
        self._request = request
        self._sink = sink
        self._scrub = scrub
        self._parser = SseParser()
        self.fold = Fold()
        self.raw = RawBytes()
        self.closed: Closed | None = None
        self.status: int | None = None
        self.error: str | None = None
        self.header_id: str | None = None
        self.pause_s: float | None = None
        self.may_retry = True
        self.taken = True
        self.started_at = time()
        self.sent_at = perf_counter()
        self.ended_at = self.sent_at

    def head(self, status: int, headers: Any) -> None:
        """Note status and headers of the answer."""
        self.status = status
        self.header_id = headers.get("x-request-id")
        self.pause_s = retry_after_s(headers.get("retry-after"))

    def feed(self, data: bytes, at: float) -> None:
        """Take one read made at `at`."""
        self.raw.add(data)
        if self.raw.total > ANSWER_LIMIT_BYTES:
            self.close("too_large", f"the answer passed {ANSWER_LIMIT_BYTES} bytes")
            return
        try:
            self._handle(self._parser.feed(data), at)
        except EventTooLargeError:
            self.close("too_large", "one event of the answer has no end")

    def end(self, at: float) -> None:
        """Take the clean end of the body."""
        try:
            self._handle(self._parser.close(), at)
        except EventTooLargeError:
            self.close("too_large", "one event of the answer has no end")
        self.ended_at = at
        if self.closed is None:
            self.close("end")

    def _handle(self, events: list[ServerEvent], at: float) -> None:
        for name, data in events:
            if data == b"[DONE]":
                self.fold.done = True
                self.fold.last_at = at
                self.close("end")
            elif name == b"error":
                self.close("error_event", _words(data))
            else:
                self._decoded(data, at)
            if self.closed is not None:
                return

    def _decoded(self, data: bytes, at: float) -> None:
        try:
            event, clean_json = self._decode(data)
        except NotAnEventError as error:
            self.close("malformed", f"{error}: {self._scrub.raw(data)[:300].decode('utf-8', 'replace')}")
            return
        if not clean_json:
            self.fold.defects["repaired_json"] = None
        self.take(event, at)

    def take(self, event: ChatEvent, at: float) -> None:
        """Take one decoded event; hands its chunk to the sink."""
        failure = event.failure
        if failure is not None:
            self.close("error_event", failure)
            return
        chunk = self.fold.take(event, at)
        if chunk is not None and self._sink(chunk):
            self.close("cut")

    def close(self, closed: Closed, error: str | None = None) -> None:
        """Set how it was closed, once, and what is to be said about it."""
        if self.closed is None:
            self.closed = closed
            self.error = None if error is None else excerpt(self._scrub.words(error))
            self.ended_at = perf_counter()

    @property
    def retriable(self) -> bool:
        """Whether nothing of an answer has come and another attempt may fare better."""
        if not self.may_retry or self.fold.begun:
            return False
        return self.closed == "broken" or (self.closed == "http_error" and self.status in _RETRIED_STATUS)

    def attempt(self) -> Attempt:
        """Return the record of this attempt."""
        took_ms = (self.ended_at - self.sent_at) * 1000
        return Attempt(
            started_at=self.started_at, took_ms=took_ms, status=self.status, error=self.error, taken=self.taken
        )

    def exchange(self, attempts: tuple[Attempt, ...], loop_lag_ms: float) -> Exchange:
        """Return the outcome, with all attempts."""
        raw = self._scrub.raw(self.raw.joined())
        observation = self._observation(attempts, loop_lag_ms)
        return Exchange(observation=observation, raw=raw, raw_truncated=self.raw.truncated)

    def _observation(self, attempts: tuple[Attempt, ...], loop_lag_ms: float) -> Observation:
        fold, request, scrub = self.fold, self._request, self._scrub.answer
        ending = fold.ending(self.closed or "broken")
        first = fold.first_text_at
        whole = ending in ("complete", "no_end_marker")
        return Observation(
            key=request.key,
            started_at=attempts[0].started_at,
            ending=ending,
            max_tokens=request.max_tokens,
            clamped=request.clamped,
            content=scrub("".join(fold.content)),
            reasoning=scrub("".join(fold.reasoning)),
            tool_calls=fold.tool_calls(scrub),
            refusal=scrub("".join(fold.refusal)) or None,
            finish_reason=fold.finish_reason,
            stop_reason=fold.stop_reason,
            usage=fold.usage,
            token_ids=None if fold.token_ids is None else tuple(fold.token_ids),
            logprobs=None if fold.logprobs is None else tuple(fold.logprobs),
            attempts=attempts,
            error=None if whole else self.error,
            defects=tuple(fold.defects),
            ttft_ms=None if first is None else (first - self.sent_at) * 1000,
            e2e_ms=((fold.last_at if whole else self.ended_at) - self.sent_at) * 1000,
            max_gap_ms=fold.max_gap_s * 1000 if fold.chunks > 1 else None,
            chunks=fold.chunks,
            loop_lag_ms=loop_lag_ms,
            censored=is_our_doing(ending),
            request_id=fold.id or (self.header_id[:200] if self.header_id else None),
            model=fold.model,
            drafted=fold.drafted,
        )


def _words(data: bytes) -> str:
    text = data[:8000].decode("utf-8", "replace")
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError):
        return text
    error = value.get("error") if isinstance(value, dict) else None
    return message_of(value if error is None else error) or text


def refusal_words(status: int, body: bytes) -> str:
    """Return the sentence for an HTTP error: its status and what the body says."""
    return f"HTTP {status}: {_words(body)}"
