"""The JSON of one streamed event, typed: what we read of a chat completion chunk, and nothing else of it."""

import json
import math
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, TypeVar, cast

import msgspec

from soak.facts import Logprob, ToolCallDelta, Usage, clean

Count = Annotated[int, msgspec.Meta(ge=0, lt=2**53)]
Id = str | Annotated[int, msgspec.Meta(gt=-(2**53), lt=2**53)] | None
_LEAST_LOGPROB = -9999.0  # what OpenAI sends for "as good as impossible"; JSON has no infinity
_TOP_LIMIT = 32
_Kind = TypeVar("_Kind")


class FunctionDelta(msgspec.Struct):
    """Name and a piece of the arguments; some servers send arguments as an object instead of text."""

    name: str | None = None
    arguments: str | dict[str, Any] | None = None


class CallDelta(msgspec.Struct):
    """A piece of a tool call; some servers leave out `index`, or number their calls instead of naming them."""

    index: Count | None = None
    id: Id = None
    function: FunctionDelta | None = None

    def fact(self, index: int) -> ToolCallDelta:
        """Return it in our own words, as a piece of the call number `index`."""
        function = self.function or FunctionDelta()
        arguments = function.arguments
        if isinstance(arguments, dict):
            arguments = msgspec.json.encode(arguments).decode()
        return ToolCallDelta(index=index, id=_text(self.id), name=function.name, arguments=arguments)


class Part(msgspec.Struct):
    """A part of content that comes as a list; only parts with text are known."""

    text: str | None = None


class Delta(msgspec.Struct):
    """What a chunk adds to the message; reasoning goes by two names in the wild."""

    content: str | list[Part] | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    refusal: str | None = None
    tool_calls: list[CallDelta] | None = None

    @property
    def content_text(self) -> str:
        """The content as text, the texts of its parts joined."""
        content = self.content
        return "".join(part.text or "" for part in content) if isinstance(content, list) else content or ""


class TokenLogprob(msgspec.Struct):
    """The log probability of one token."""

    token: str = ""
    logprob: float | None = None
    top_logprobs: list["TokenLogprob"] | None = None

    def fact(self) -> Logprob:
        """Return it in our own words; values that are not finite become -9999."""
        top = tuple((other.token, _finite(other.logprob)) for other in (self.top_logprobs or [])[:_TOP_LIMIT])
        return Logprob(token=self.token, logprob=_finite(self.logprob), top=top)


class Logprobs(msgspec.Struct):
    """The log probabilities of a chunk's tokens."""

    content: list[TokenLogprob] | None = None


class Choice(msgspec.Struct):
    """
    One of the answers in the chunk; we ask for one, whose index is 0.

    `message` has the place of `delta` in an answer that is not streamed, `text` in one of the completions API.
    """

    index: int | None = 0
    delta: Delta | None = None
    finish_reason: str | None = None
    stop_reason: Any = None
    logprobs: Logprobs | None = None
    token_ids: list[Count] | None = None
    message: Any = None
    text: Any = None


class ChatEvent(msgspec.Struct):
    """
    One event of a stream; `error` or `object` = "error" make it the server's word that it failed.

    `metrics`, `sglext` and `timings` are what engines add of their own (see `drafts`).
    """

    id: Id = None
    model: str | None = None
    choices: list[Choice] | None = None
    usage: Any = None
    error: Any = None
    object: Any = None
    message: Any = None
    metrics: Any = None
    sglext: Any = None
    timings: Any = None

    @property
    def tells_more(self) -> bool:
        """Whether the engine says something of its own beside the answer."""
        return self.metrics is not None or self.sglext is not None or self.timings is not None

    @property
    def failure(self) -> str | None:
        """What the server says went wrong, None if it says nothing of the kind."""
        if self.error is not None:
            return message_of(self.error)
        return message_of(self.message) if self.object == "error" else None


class NotAnEventError(Exception):
    """The data of an event is not JSON, or not a chat completion chunk."""


_decoder = msgspec.json.Decoder(ChatEvent)


def decode_as(data: bytes, decoder: msgspec.json.Decoder[_Kind]) -> tuple[_Kind, bool]:
    """
    Return what `decoder` reads in `data`, and whether it was clean JSON.

    Bytes that are not UTF-8, lone surrogates and NaN are let through with the text repaired, and reported as not
    clean. Raises `NotAnEventError`.
    """
    try:
        return decoder.decode(data), True
    except msgspec.ValidationError as error:
        raise NotAnEventError(str(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _converted(_repaired(data), cast(type[_Kind], decoder.type)), False


Decode = Callable[[bytes], tuple[ChatEvent, bool]]
decode_event: Decode = partial(decode_as, decoder=_decoder)
"""Returns the chat completion chunk in some bytes; see `decode_as`."""


def _repaired(data: bytes) -> Any:
    try:
        value = json.loads(clean(data.decode("utf-8", "replace")))
        return _deep_clean(value)
    except (ValueError, RecursionError) as error:
        raise NotAnEventError(str(error)[:200]) from None


def event_from(value: Any) -> ChatEvent:
    """Return the event in an already decoded JSON value. Raises `NotAnEventError`."""
    return _converted(value, ChatEvent)


def _converted(value: Any, kind: type[_Kind]) -> _Kind:
    try:
        return msgspec.convert(value, kind)
    except (msgspec.ValidationError, RecursionError) as error:
        raise NotAnEventError(str(error)) from None


def _deep_clean(value: Any) -> Any:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, list):
        return [_deep_clean(item) for item in value]
    if isinstance(value, dict):
        return {clean(key): _deep_clean(item) for key, item in value.items()}
    return value


def _finite(value: float | None) -> float:
    return value if value is not None and math.isfinite(value) else _LEAST_LOGPROB


def _text(value: str | int | None) -> str | None:
    return None if value is None else str(value)


def message_of(error: Any) -> str:
    """Return the words in an error object, whatever its shape and depth."""
    try:
        return _message_of(error)
    except RecursionError:
        return "the server's error is nested too deep to be read"


def _message_of(error: Any) -> str:
    if isinstance(error, dict):
        inner = error.get("message") or error.get("error") or error.get("detail")
        return _message_of(inner) if isinstance(inner, dict) else str(inner or error)
    return "" if error is None else str(error)


def usage_of(value: Any) -> Usage | None:
    """Return the token counts in a usage object; a count that is not a sane integer is unknown."""
    if not isinstance(value, dict):
        return None
    return Usage(
        prompt=_count(value.get("prompt_tokens")),
        completion=_count(value.get("completion_tokens")),
        cached=_count(_inside(value, "prompt_tokens_details", "cached_tokens")),
        reasoning=_count(_inside(value, "completion_tokens_details", "reasoning_tokens")),
    )


def _inside(value: dict[str, Any], outer: str, inner: str) -> Any:
    details = value.get(outer)
    return details.get(inner) if isinstance(details, dict) else None


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53 else None
