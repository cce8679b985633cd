"""
One exchange as it is overheard: the bytes that went to the client, through the parser and the judge of the replay.

The client's `Stream` folds what is read and `TurnJudge` judges it chunk by chunk, as in a replay; only what comes
before them differs: an answer may be compressed, need not be streamed, and may be that of another API (`tongues.py`).
What cannot be laid at the server's door (the client hung up, soak was stopped) leaves the turn indeterminate, unless
its class was certain by then.
"""

import zlib
from collections.abc import Callable
from typing import Any

import msgspec

from soak.classify import Context, Settings, TurnJudge
from soak.client import ANSWER_LIMIT_BYTES, Request, Scrub, Stream, refusal_words
from soak.client.attempt import Sink
from soak.client.events import ChatEvent, NotAnEventError
from soak.client.fold import Closed
from soak.facts import Chunk, Deadlines, Judgement, Message, Observation, Record, Retries, Signal, TurnKey
from soak.proxy.asked import Asked, Door
from soak.proxy.heard_messages import MessagesTongue
from soak.proxy.heard_responses import ResponsesTongue
from soak.proxy.tongues import ChatTongue, Tongue

_REFUSAL_LIMIT_BYTES = 64 * 1024
_UNPACK_BYTES = 64 * 1024
_UNPACKED = frozenset({"gzip", "x-gzip", "deflate"})


_TONGUES: dict[Door, type[Tongue]] = {
    "chat/completions": ChatTongue,
    "completions": ChatTongue,
    "responses": ResponsesTongue,
    "messages": MessagesTongue,
}


class _OverheardStream(Stream):
    """A stream whose events are those of the API that was asked, or whole answers; `said_all` is told its end."""

    def __init__(
        self, request: Request, sink: Sink, scrub: Scrub, tongue: Tongue, said_all: Callable[[], None]
    ) -> None:
        super().__init__(request, sink, scrub, tongue.streamed)
        self._tongue = tongue
        self._said_all = said_all

    def take(self, event: ChatEvent, at: float) -> None:
        """Take one event; the last one may be known by what it says."""
        super().take(event, at)
        if self._tongue.done and not self.fold.done:
            self.fold.done = True
            self._said_all()


def _says_nothing(seen: Observation) -> bool:
    """Return whether an answer came to its end without a word or call."""
    return seen.ending in ("complete", "no_end_marker") and not (seen.content or seen.tool_calls or seen.refusal)


def _unpacker() -> Any:
    """Return what unpacks gzip and zlib."""
    return zlib.decompressobj(zlib.MAX_WBITS | 32)


class Hearing:
    """
    Takes one answer in: `head`, then `feed` for each read, then one of `end`, `broken`, `unanswered`, `left`.

    `record` is what it came to, `raw` the bytes that prove it. None of the methods raises.
    """

    def __init__(
        self,
        key: TurnKey,
        asked: Asked,
        settings: Settings,
        scrub: Scrub,
        signalled: Callable[[TurnKey, Signal], None],
        answered: Callable[[str, Message], None] = lambda _id, _answer: None,
    ) -> None:
        self.key = key
        self._answered = answered
        self._tongue = _TONGUES[asked.door]()
        context = Context(prompt_text=asked.prompt_text, tools=asked.chain.tools, max_tokens=asked.max_tokens)
        self._judge = TurnJudge(context, settings)
        self._scrub = scrub
        self._signalled = signalled
        request = Request(
            key=key, body={}, session="", deadlines=Deadlines(), retries=Retries(), max_tokens=asked.max_tokens
        )
        self._stream = _OverheardStream(request, self._sink, scrub, self._tongue, self._said_all)
        self._looping = self._deaf = False
        self._read_at = 0.0
        self._whole: list[bytes] | None = None
        self._whole_bytes = 0
        self._unpacker: Any = None
        self._packed = b""
        self._unheard: str | None = None
        self.crash: str | None = None

    @property
    def begun_s(self) -> float:
        """When the request was sent, in stopwatch seconds."""
        return self._stream.sent_at

    @property
    def reached(self) -> bool:
        """Whether the server answered at all."""
        return self._stream.status is not None

    def head(self, status: int, headers: dict[str, str]) -> None:
        """Take status and headers (names in lower case)."""
        self._stream.head(status, headers)
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if status != 200 or kind != "text/event-stream":
            self._whole = []
        coding = headers.get("content-encoding", "identity").strip().lower()
        if coding in _UNPACKED:
            self._unpacker = _unpacker()
        elif coding not in ("identity", ""):
            self._unheard = f"the answer is compressed ({coding[:20]}), and was passed on unread"

    def feed(self, data: bytes, at: float) -> None:
        """Take one read made at `at` (stopwatch seconds)."""
        while data:
            data = self.feed_some(data, at)

    def feed_some(self, data: bytes, at: float) -> bytes:
        """Take some of one read, and return what is left of it; only what unpacks to very much is not taken at once."""
        self._packed = b""
        if self._unheard is None and self._stream.closed is None:
            self._guarded(lambda: self._take(self._unpacked(data), at))
        return self._packed if self._stream.closed is None else b""

    def end(self, at: float) -> None:
        """Take the clean end of the answer."""
        if self._unpacker is not None and self._unheard is None and self._stream.closed is None:
            self._guarded(lambda: self._take(self._unpacker.flush(), at))
        if self._unheard is None and self._stream.closed is None:
            self._guarded(lambda: self._end(at))

    def broken(self, why: str) -> None:
        """Take it that the answer broke off on the server's side."""
        self._stream.close("broken", why)

    def unanswered(self, why: str, *, taken: bool) -> None:
        """Take it that no answer came."""
        self._stream.taken = taken
        self._stream.close("broken", why)

    def left(self, why: str) -> None:
        """Take it that the exchange was ended by neither side's fault but by the client's leaving, or by us."""
        if self._stream.closed is not None or self._unheard is not None:
            return
        if self._looping:
            self._stream.close("cut")  # its class is certain, and its length a lower bound
        elif self._stream.fold.finish_reason is not None:
            self._stream.close("end")
        else:
            self._unheard = f"{why} after {self._stream.fold.chunks} chunks"

    # -- what it came to ---------------------------------------------------------------------------------------

    def record(self, at: float, loop_lag_ms: float) -> Record:
        """Return the end of the turn, recorded at `at` (UTC epoch seconds)."""
        if self._unheard is not None:
            return Record(key=self.key, outcome="indeterminate", at=at, reason=self._unheard)
        observation = self._observation(loop_lag_ms)
        if self._tongue.aside is not None and _says_nothing(observation):
            why = f"the answer has nothing that is judged, but an item of the type {self._tongue.aside!r}"
            return Record(key=self.key, outcome="indeterminate", at=at, reason=why)
        return Record(
            key=self.key, outcome="finished", at=at, observation=observation, judgement=self._judged(observation)
        )

    @property
    def raw(self) -> bytes:
        """The bytes of the answer as they passed (unpacked), without keys; bounded as in a replay."""
        return self._scrub.raw(self._stream.raw.joined())

    def _observation(self, loop_lag_ms: float) -> Observation:
        stream = self._stream
        observation = stream.exchange((stream.attempt(),), loop_lag_ms).observation
        if self._whole is None:
            return observation
        return msgspec.structs.replace(observation, ttft_ms=None, max_gap_ms=None)

    def _said_all(self) -> None:
        """Tell the answer of a response that a later request may go on from by its id."""
        fold, scrub = self._stream.fold, self._scrub.answer
        if fold.id is None:
            return
        calls = fold.tool_calls(scrub)
        content, thoughts = scrub("".join(fold.content) or "".join(fold.refusal)), scrub("".join(fold.reasoning))
        answer = Message(
            role="assistant", content=content or (None if calls else ""), reasoning=thoughts or None, tool_calls=calls
        )
        self._answered(fold.id, answer)

    def _judged(self, observation: Observation) -> Judgement | None:
        try:
            return self._judge.finish(observation)
        except Exception as crash:  # the answer is kept, and can be judged again
            self.crash = f"{type(crash).__name__}: {str(crash)[:200]}"
            return None

    # -- bytes in ----------------------------------------------------------------------------------------------

    def _guarded(self, take: Callable[[], None]) -> None:
        """Do one step; what the server does wrong is an ending, what we do wrong ends the hearing and nothing else."""
        try:
            take()
        except (zlib.error, NotAnEventError, msgspec.ValidationError, RecursionError) as error:
            self._stream.close("malformed", str(error)[:300])
        except Exception as crash:
            self.crash = f"{type(crash).__name__}: {str(crash)[:200]}"
            self._unheard = "soak could not read the answer"

    def _unpacked(self, data: bytes) -> bytes:
        """Return what `data` unpacks to, or its beginning; the rest of `data` waits in `_packed`."""
        if self._unpacker is None:
            return data
        if self._unpacker.eof:  # compressed in several pieces, one after the other
            self._unpacker = _unpacker()
        unpacked: bytes = self._unpacker.decompress(data, _UNPACK_BYTES)
        self._packed = self._unpacker.unconsumed_tail or self._unpacker.unused_data.lstrip(b"\0")
        return unpacked

    def _take(self, data: bytes, at: float) -> None:
        self._read_at = at
        if self._whole is None:
            self._stream.feed(data, at)
            return
        self._whole_bytes += len(data)
        if self._whole_bytes <= ANSWER_LIMIT_BYTES:
            self._whole.append(data)
        else:
            self._stream.close("too_large", f"the answer passed {ANSWER_LIMIT_BYTES} bytes")

    def _end(self, at: float) -> None:
        if self._whole is None:
            self._stream.end(at)
            return
        body = b"".join(self._whole)
        self._whole = []
        self._stream.raw.add(body)
        if self._stream.status != 200:
            self._stream.close("http_error", refusal_words(self._stream.status or 0, body[:_REFUSAL_LIMIT_BYTES]))
            return
        event, clean_json = self._tongue.whole(body)
        if not clean_json:
            self._stream.fold.defects["repaired_json"] = None
        self._stream.take(event, at)
        self._stream.fold.done = True  # one JSON document that parses has come to its end
        self._close("end", at)

    def _close(self, closed: Closed, at: float) -> None:
        self._stream.close(closed)
        self._stream.ended_at = at

    def _sink(self, chunk: Chunk) -> bool:
        """Show one chunk to the judge; nothing is ever cut for what it says."""
        try:
            signal = None if self._deaf else self._judge.push(chunk, self._read_at)
        except Exception:
            signal, self._deaf = None, True  # `finish` reads the whole answer again, and says so if it crashes too
        if signal is not None:
            self._looping = self._looping or signal.certain
            self._signalled(self.key, signal)
        return False
